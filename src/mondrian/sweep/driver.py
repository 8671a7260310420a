"""A whole sweep: from overrides to a folder of runs with a table and a plot."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mondrian.support.process import rank
from mondrian.sweep.former import by_hydra
from mondrian.sweep.plan import FILE, SweepPlan
from mondrian.sweep.plot import draw
from mondrian.sweep.results import Results
from mondrian.sweep.study import SharedStudy
from mondrian.sweep.worker import run_workers, work
from mondrian.training.preparation import prepared_data
from mondrian.training.settings import training_spec


def sweep(overrides: Sequence[str]) -> Results:
    """Train again and again with the settings that vary, and write `sweep.csv` and `sweep.png`.

    results = sweep(["experiment=allen_cahn/vit_sepmo", "scale=smoke", "model.hidden_channels=choice(8,16)"])

    Joins the sweep that the folder holds, and shows one that Hydra's sweeper wrote. With `jobs=2` this starts two
    processes; one alone trains in this process.
    """
    plan = SweepPlan.of(overrides)
    if by_hydra(plan.folder / FILE) and _only_folder(overrides):
        return _written(plan, {})
    shared = _opened(plan)
    if plan.jobs > 1:
        run_workers(overrides, plan.jobs)
    else:
        work(shared, progress=True)
    return _written(plan, shared.states())


def join(overrides: Sequence[str]) -> None:
    """Train trials of a sweep, and leave its results to others."""
    work(_opened(SweepPlan.of(overrides)), progress=False)


def _opened(plan: SweepPlan) -> SharedStudy:
    _, ranks = rank(os.environ)
    if ranks > 1:
        raise ValueError(
            f"a worker of a sweep is one process, and {ranks} ranks were started; needed a job array or jobs={ranks}"
        )
    spec = training_spec(plan.first)
    shared = SharedStudy.open(plan, rungs=spec.schedule.validate_every)
    prepared_data(spec, progress=True)  # before the first trial, which would fail for what is wrong with all
    return shared


def _written(plan: SweepPlan, states: dict[int, str]) -> Results:
    results = Results.read(plan, states)
    results.save()
    draw(results)
    return results


def _only_folder(overrides: Sequence[str]) -> bool:
    return all(override.startswith("run=") for override in overrides)
