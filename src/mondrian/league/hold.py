"""A whole league: data, speeds, trainings, tables and figures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mondrian.data.generate import generate, plan
from mondrian.data.manifest import Manifest
from mondrian.data.problems import Problem
from mondrian.league import runner
from mondrian.league.agreement import agree
from mondrian.league.outcome import FILE as OUTCOME
from mondrian.league.plan import Plan
from mondrian.league.publish import publish
from mondrian.league.settings import League
from mondrian.league.speeds import FILE as SPEEDS
from mondrian.league.speeds import known_speeds, speeds
from mondrian.support.process import give_back_memory
from mondrian.training.settings import configure, splits_of


def hold(league: League, *, progress: bool = False) -> list[Path]:
    """Train what is missing, and write tables and figures of all that is there; returns the files."""
    if not league.at_once and not any(league.runs.glob(f"*/*/{OUTCOME}")):
        raise ValueError(f"{league.runs} holds no trainings to show; without jobs=0 they are made")
    agree(league)
    if not league.at_once:
        planned = Plan(league, known_speeds(league))
        if not any(entrant.name in planned.speeds for entrant in league.everyone):
            raise ValueError(f"{league.folder / SPEEDS} has none of {', '.join(e.name for e in league.everyone)}")
        return publish(planned)
    if progress:
        print(f"{league.part} league of {league.problem}, {len(league.entrants)} entrants, in {league.folder}")
    planned = Plan(league, known_speeds(league))
    if planned.ended:
        return publish(planned)
    make_data(league, progress=progress)
    planned = Plan(league, speeds(league, progress=progress))
    give_back_memory()  # gigabytes, which the trainings, in processes of their own, may need
    if progress:
        print(announcement(planned), flush=True)
    try:
        runner.run(planned, progress=progress)
    finally:  # also of what had ended when it was stopped, or when one of them failed
        files = publish(planned)
    return files


def make_data(league: League, *, progress: bool = False) -> None:
    """Simulate what all entrants train and are tested on; on the finest grid both kinds of tests are one."""
    counts = [f"simulations.{split}={count}" for split, count in league.config.simulations.items()]
    splits_of(configure([*league.words(league.entrants[0]), "+data.make=true", *counts]), progress=progress)
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


def announcement(planned: Plan) -> str:
    """What is to come, and how long it may take."""
    league, budgets = planned.league, planned.league.budgets
    lines = [f"  the same samples: {budgets.samples:,} each"]
    if budgets.minutes is not None:
        lines.append(f"  the same time:    {budgets.minutes:g} minutes each, on {league.cores}")
    rates = ", ".join(f"{rate:g}" for rate in budgets.rates)
    trials = ""
    if len(budgets.rates) > budgets.finalists:
        trials = (
            f", by {budgets.tuning_samples:,} samples with each; the best {budgets.finalists} then have all samples"
        )
    lines.append(f"  learning rates:   {rates}{trials}")
    minutes = max(planned.seconds_left() / league.at_once, planned.longest()) / 60
    took = f"{minutes / 60:.1f} hours" if minutes > 90 else f"{minutes:.0f} minutes"
    lines.append(
        f"  {league.at_once} at a time: about {took} of training, and a third to a half more to validate and evaluate"
    )
    return "\n".join(lines)
