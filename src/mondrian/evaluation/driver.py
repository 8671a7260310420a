"""The whole evaluation: every resolution, one application and many, with references and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Shaped

from mondrian.data.datasets import WindowDataset
from mondrian.data.problems import AllenCahn
from mondrian.data.splits import Splits
from mondrian.evaluation.batches import at_rest, predict
from mondrian.evaluation.entries import OneStep, Trajectories
from mondrian.evaluation.one_step import Settings, check_channels, one_step
from mondrian.evaluation.pictures import one_step_fields, rollout_fields, setting
from mondrian.evaluation.reference import carried, training_mean, training_part
from mondrian.evaluation.results import Evaluation
from mondrian.evaluation.spread import band_edges
from mondrian.evaluation.tables import size
from mondrian.evaluation.trajectories import Rollout, trajectories
from mondrian.surrogate import Surrogate


def evaluate(
    surrogate: Surrogate,
    splits: Splits,
    *,
    split: str = "test",
    points: Sequence[tuple[int, ...]] | None = None,
    horizon: int = 20,
    simulations: int | None = None,
    batch_size: int = 32,
    interface: bool | None = None,
    progress: bool = False,
    name: str = "",
) -> Evaluation:
    """Measure a surrogate on one part of a data set.

    At each of `points` (every resolution that the part is stored at), over the first `simulations` of it (all):
    errors of one application beside those of persistence and of the mean of the training targets, spectra, and, where
    simulations go on for longer than one application, a rollout over `horizon` frames. `interface` adds the error at
    interfaces between phases; by default for data of `AllenCahn`. Samples are read and measured a batch at a time.

    Resolutions that the model refuses are left out, with the reason in `skipped`; if none remains that is an error.
    """
    least = {"horizon": (horizon, 0), "simulations": (simulations, 1), "batch_size": (batch_size, 1)}
    for argument, (value, low) in least.items():
        if value is not None and value < low:
            raise ValueError(f"{argument}={value} must be at least {low}")
    chosen = _resolutions(splits, split, points)
    interface = _is_allen_cahn(splits) if interface is None else interface
    seen = _part(splits, split, chosen[0], simulations)
    check_channels(surrogate, seen)
    training = training_part(splits)
    settings = Settings(
        edges=band_edges(training.grid if training else seen.grid),
        interface=interface,
        batch_size=batch_size,
        progress=progress,
    )
    steps: list[OneStep] = []
    rollouts: list[Trajectories] = []
    skipped: dict[tuple[int, ...], str] = {}
    fields: dict[str, Shaped[np.ndarray, "..."]] = {}
    mean = None
    with at_rest(surrogate):
        for sizes in chosen:
            dataset = _part(splits, split, sizes, simulations)
            refusal = _refusal(surrogate, dataset)
            if refusal is not None:
                skipped[sizes] = refusal
                continue
            typical = None
            if training is not None:
                if mean is None:
                    mean = training_mean(training, batch_size=batch_size, progress=progress)
                typical = carried(mean, training.grid, dataset.grid)
            steps.append(one_step(surrogate, dataset, settings, typical))
            fields |= setting(surrogate, dataset.grid) | one_step_fields(surrogate, dataset)
            rollout = Rollout.possible(surrogate, dataset, horizon)
            if rollout is not None:
                rollouts.append(trajectories(rollout, settings))
                fields |= rollout_fields(rollout)
    if not steps:
        reasons = "; ".join(f"{size(sizes)}: {reason}" for sizes, reason in skipped.items())
        raise ValueError(f"the model takes none of the resolutions of {splits.files.path}: {reasons}")
    return Evaluation(
        run=name,
        data=splits.files.path,
        split=split,
        simulations=len(seen.simulations),
        seed=0,  # of the bootstrap
        in_channels=surrogate.spec.in_names,
        out_channels=surrogate.spec.out_names,
        one_step=tuple(steps),
        rollout=tuple(rollouts),
        skipped=skipped,
        fields=fields,
    )


def _resolutions(splits: Splits, split: str, points: Sequence[tuple[int, ...]] | None) -> tuple[tuple[int, ...], ...]:
    stored = splits.resolutions(split)
    wanted = stored if points is None else tuple(tuple(sizes) for sizes in points)
    lacking = [size(sizes) for sizes in wanted if sizes not in stored]
    if lacking or not wanted:
        there = ", ".join(map(size, stored))
        what = f"points={', '.join(lacking)} are not stored" if lacking else "points=[] name no resolution"
        raise ValueError(f"{what} for split {split!r} of {splits.files.path}; it has {there}")
    return tuple(sorted(set(wanted), key=lambda sizes: (math.prod(sizes), sizes)))


def _part(splits: Splits, split: str, points: tuple[int, ...], simulations: int | None) -> WindowDataset:
    """The samples at one resolution, read as they are needed: each is needed once."""
    dataset = splits.dataset(split, points, memory=0)
    if simulations is None:
        return dataset
    there = dataset.simulations
    if simulations > len(there):
        where = f"split {split!r} of {splits.files.path}"
        raise ValueError(f"simulations={simulations} are wanted; {where} has {len(there)}")
    return WindowDataset(dataset.source, dataset.window, simulations=there[:simulations], memory=0)


def _refusal(surrogate: Surrogate, dataset: WindowDataset) -> str | None:
    """Why the model cannot take this resolution, if it cannot."""
    try:
        predict(surrogate, dataset[0]["x"][None], dataset.grid)
    except ValueError as error:
        return str(error)
    return None


def _is_allen_cahn(splits: Splits) -> bool:
    made = splits.manifest
    return made is not None and isinstance(made.problem, AllenCahn)
