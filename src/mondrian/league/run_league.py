"""A whole league: data, speeds, trainings, tables and figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from mondrian.data.generate import generate, plan
from mondrian.data.manifest import Manifest
from mondrian.data.problems import Problem
from mondrian.league import runner
from mondrian.league.estimates import Estimate
from mondrian.league.folder_settings import compare, remember_settings, settings_of
from mondrian.league.plan import LeaguePlan
from mondrian.league.publish import publish
from mondrian.league.results_files import FILE as RESULTS
from mondrian.league.results_files import LeagueResults
from mondrian.league.snapshot import SnapshotReader
from mondrian.league.spec import LeagueSpec
from mondrian.league.speeds import FILE as SPEEDS
from mondrian.league.speeds import known_speeds, speeds
from mondrian.support.process import give_back_memory
from mondrian.training.preparation import prepared_data
from mondrian.training.settings import training_spec


def run_league(league: LeagueSpec, *, progress: bool = False) -> list[Path]:
    """Train what is missing, and write tables and figures of all that has ended; returns the files."""
    published = published_results(league)
    reader = SnapshotReader(league.runs, None if published is None else published.plan.snapshot)
    if not league.at_once and not reader.read().outcomes:
        raise ValueError(f"{league.runs} holds no trainings to show; without jobs=0 they are made")
    remember_settings(league)
    if not league.at_once:
        planned = LeaguePlan(league, known_speeds(league), reader.read())
        if not any(entrant.name in planned.speeds for entrant in league.everyone):
            raise ValueError(f"{league.folder / SPEEDS} has none of {', '.join(e.name for e in league.everyone)}")
        return publish(planned, published)
    if progress:
        print(f"{league.part} league of {league.problem}, {len(league.entrants)} entrants, in {league.folder}")
    planned = LeaguePlan(league, known_speeds(league), reader.read())
    if planned.ended:
        return publish(planned, published)
    make_data(league, progress=progress)
    planned = replace(planned, speeds=speeds(league, progress=progress))
    give_back_memory()  # gigabytes, which the trainings, in processes of their own, may need
    if progress:
        print(announcement(planned), flush=True)
    try:
        runner.run(planned, reader, progress=progress)
    finally:  # also of what had ended when it was stopped, or when one of them failed
        files = publish(replace(planned, snapshot=reader.read()), published)
    return files


def published_results(league: LeagueSpec) -> LeagueResults | None:
    """The results that `publish=...` has of this part; `ValueError` if they have other settings."""
    folder = None if league.published is None else league.published / league.part
    if folder is None or not (folder / RESULTS).exists():
        return None
    if "format" not in json.loads((folder / RESULTS).read_text()):  # of an earlier version, without trainings
        return None
    results = LeagueResults.load(folder)
    compare(settings_of(results.plan.league), settings_of(league), where=str(folder / RESULTS))
    return results


def make_data(league: LeagueSpec, *, progress: bool = False) -> None:
    """Simulate the data that all entrants train and are tested on; on the finest grid both kinds of tests are one."""
    counts = [f"simulations.{split}={count}" for split, count in league.conditions.simulations.items()]
    prepared_data(training_spec([*league.overrides(league.entrants[0]), "+data.make=true", *counts]), progress=progress)
    if league.native_data is not None:
        fine = Manifest.load(league.data)
        assert isinstance(fine.problem, Problem)
        coarse = [points for points in fine.points["test"] if points != fine.problem.grid.points]
        native = plan(
            replace(fine.problem, native=True),
            seed=0,
            simulations={"test": fine.simulations["test"]},
            points={"test": coarse},
            shard_size=32,
        )
        generate(league.native_data, native, progress=progress)


def announcement(planned: LeaguePlan) -> str:
    """What will be trained, and how long it may take."""
    league, budgets, estimate = planned.league, planned.league.budgets, Estimate(planned)
    lines = [f"  the same samples: {budgets.samples:,} each"]
    if budgets.minutes is not None:
        lines.append(f"  the same time:    {budgets.minutes:g} minutes each, on {league.cores}")
    rates = ", ".join(f"{rate:g}" for rate in budgets.rates)
    trials = ""
    if len(budgets.rates) > budgets.finalists:
        trials = (
            f", each tried on {budgets.tuning_samples:,} samples; the best {budgets.finalists} then have all samples"
        )
    lines.append(f"  learning rates:   {rates}{trials}")
    minutes = max(estimate.seconds_left() / league.at_once, estimate.longest()) / 60
    duration = f"{minutes / 60:.1f} hours" if minutes > 90 else f"{minutes:.0f} minutes"
    lines.append(
        f"  {league.at_once} at a time: about {duration} of training; validation and evaluation take half as much"
    )
    return "\n".join(lines)
