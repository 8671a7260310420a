"""How fast each entrant trains: what turns a budget of minutes into a number of steps.

All entrants train in turns, in rounds, and the median over the rounds counts, so that what else the machine does meets
all alike. A turn is two steps, of which the second counts: the first finds the caches full of what others left. On one
thread of a processor the time is that of the processor, which other processes do not lengthen; otherwise that of the
clock. A training of the second budget then has as many steps as fit into its minutes at this speed, however busy the
machine is while it runs, and however often it is killed.

All parts of a league share the speeds. Those that are measured later are measured beside a few of before, and by these
scaled to the hour of the first: a machine that has become slower would otherwise give later parts fewer steps.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from tqdm import tqdm

from mondrian.data.splits import Splits
from mondrian.league.entrants import Entrant
from mondrian.league.spec import LeagueSpec
from mondrian.support.files import write_json
from mondrian.support.lock import Lock
from mondrian.training.grids import GridData, fitted_model
from mondrian.training.preparation import prepared_data
from mondrian.training.settings import training_spec
from mondrian.training.timed_steps import training_step

ROUNDS = 5
YARDSTICKS = 3  # entrants of before
FILE = "speeds.json"


def known_speeds(league: LeagueSpec) -> dict[str, float]:
    """Training samples a second of the entrants that have been measured, in this folder or for published results."""
    folders = [league.folder] if league.published is None else [league.folder, league.published]
    files = (folder / FILE for folder in folders)
    return next((json.loads(file.read_text()) for file in files if file.exists()), {})


def speeds(league: LeagueSpec, *, progress: bool = False) -> dict[str, float]:
    """Training samples a second of each entrant of the part, measured once and then kept in `speeds.json`."""
    lock = Lock.of_file(league.folder / FILE)
    lock.acquire(wait=True)  # another league in the folder measures, or waits for this one
    try:
        known = known_speeds(league)
        missing = [entrant for entrant in league.everyone if entrant.name not in known]
        if missing:
            measured = _measure(league, [*yardsticks(league, known), *missing], progress=progress)
            known = in_step(measured, known)
            write_json(league.folder / FILE, known)
    finally:
        lock.release()
    return known


def yardsticks(league: LeagueSpec, known: Mapping[str, float]) -> list[Entrant]:
    """A few entrants that were measured before: the slowest, the fastest, and one between them.

    Not those that only an earlier call knew.
    """
    ranked = sorted((name for name in known if name in league.candidates), key=lambda name: known[name])
    places = {place * (len(ranked) - 1) // (YARDSTICKS - 1) for place in range(YARDSTICKS)} if ranked else ()
    return [league.candidates[ranked[place]] for place in sorted(places)]


def in_step(measured: Mapping[str, float], known: Mapping[str, float]) -> dict[str, float]:
    """All speeds, those that are new as if they had been measured with the others.

    >>> in_step({"fno": 50.0, "gt": 6.0}, {"fno": 100.0, "ffno": 40.0})
    {'gt': 12.0, 'fno': 100.0, 'ffno': 40.0}
    """
    former = [known[name] / speed for name, speed in measured.items() if name in known]
    factor = statistics.median(former) if former else 1.0
    return {name: factor * speed for name, speed in measured.items() if name not in known} | dict(known)


def _measure(league: LeagueSpec, entrants: Sequence[Entrant], *, progress: bool) -> dict[str, float]:
    splits = prepared_data(training_spec(league.overrides(entrants[0])), progress=progress)
    assert isinstance(splits, Splits)
    data = GridData(splits, batch_size=1, max_steps=1)
    steps = {entrant.name: _step(league, league.overrides(entrant), data) for entrant in entrants}
    seconds = step_seconds(
        steps, clock_of(league.conditions.threads), threads=league.conditions.threads, progress=progress
    )
    return {name: league.conditions.batch_size / passed for name, passed in seconds.items()}


def clock_of(threads: int) -> Callable[[], float]:
    """The processor's time on one thread of a processor, that of the clock otherwise."""
    return time.process_time if threads == 1 and not torch.cuda.is_available() else time.perf_counter


def step_seconds(
    steps: Mapping[str, Callable[[], None]],
    clock: Callable[[], float],
    *,
    threads: int,
    rounds: int = ROUNDS,
    progress: bool = False,
) -> dict[str, float]:
    """The median duration of each of some functions, run in turn, twice each; the second time counts."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    former = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        bar = tqdm(total=rounds * len(steps), desc="speeds", unit="turn", disable=None if progress else True)
        for _ in range(rounds):
            for name, step in steps.items():
                step()
                began = clock()
                step()
                seconds[name].append(clock() - began)
                bar.update()
        bar.close()
    finally:
        torch.set_num_threads(former)
    return {name: statistics.median(passed) for name, passed in seconds.items()}


def _step(league: LeagueSpec, overrides: list[str], data: GridData) -> Callable[[], None]:
    """One training step of a model, on random numbers in place of the data."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        model = fitted_model(training_spec(overrides).model, data).build().to(device)
    except ValueError as error:
        raise ValueError(f"{' '.join(overrides)}: {error}") from error
    grid = data.train.grid
    x = torch.randn(league.conditions.batch_size, len(data.in_channels), *grid.points, device=device)
    y = torch.randn(league.conditions.batch_size, len(data.out_channels), *grid.points, device=device)
    return training_step(model, x, y, grid)
