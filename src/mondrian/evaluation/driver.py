"""The whole evaluation: every resolution, one application and rollouts, beside the baselines, with field panels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mondrian.data.meshes.files import MeshSplits
from mondrian.data.protocol import DataSpec
from mondrian.data.splits import Splits
from mondrian.evaluation.baselines import TrainingMean, training_mean
from mondrian.evaluation.entries import OneStep, Trajectories
from mondrian.evaluation.grids import GridEvaluationData
from mondrian.evaluation.meshes import MeshEvaluationData
from mondrian.evaluation.one_step import EvaluationSettings, one_step
from mondrian.evaluation.parts import Arrays, EvaluationData, EvaluationPart, check_channels
from mondrian.evaluation.pictures import rollout_fields
from mondrian.evaluation.results import Evaluation
from mondrian.evaluation.running_spectra import band_edges
from mondrian.evaluation.tables import size
from mondrian.evaluation.trajectories import trajectories
from mondrian.surrogate import ScaledModel, inference

HORIZON, BATCH_SIZE = 20, 32
KINDS: Mapping[type[DataSpec[Any]], Callable[[Any], EvaluationData]] = {
    Splits: GridEvaluationData,
    MeshSplits: MeshEvaluationData,
}


def evaluate(
    surrogate: ScaledModel,
    splits: DataSpec[Any],
    *,
    split: str = "test",
    points: Sequence[tuple[int, ...]] | None = None,
    horizon: int | None = None,
    simulations: int | None = None,
    batch_size: int | None = None,
    interface: bool | None = None,
    progress: bool = False,
    name: str = "",
) -> Evaluation:
    """Measure a surrogate on one split of a data set.

    Errors of one application stand beside those of the persistence and training-mean baselines. On grids this is done
    at each of `points` (by default every stored resolution), with energy spectra and, where simulations are longer than
    one application, a rollout over `horizon` frames (20). On meshes it is done for each part whose name begins with
    `split`, and errors are integrals over each domain.

    `simulations` keeps the first so many of each part. `interface` adds the error at interfaces between phases, by
    default for data of `AllenCahn`. Samples are read and measured `batch_size` (32) at a time.

    Resolutions that the model refuses are skipped, with the reason in `skipped`; it is an error if none remains.
    """
    least = {"horizon": (horizon, 0), "simulations": (simulations, 1), "batch_size": (batch_size, 1)}
    for argument, (value, low) in least.items():
        if value is not None and value < low:
            raise ValueError(f"{argument}={value} must be at least {low}")
    data = _evaluation_data(splits)
    if not data.on_grids:
        for_grids: dict[str, Any] = {
            "points": points,
            "horizon": horizon,
            "batch_size": batch_size,
            "interface": interface,
        }
        for key, setting in for_grids.items():
            if setting is not None:
                raise ValueError(f"{key}={setting} is for fields on grids; {splits.path} holds meshes")
    parts = data.parts(split, points, simulations)
    for part in parts:
        check_channels(surrogate, part.in_channels, part.out_channels, part.source)
    training = data.training()
    measured = training or parts[0]
    settings = EvaluationSettings(
        edges=() if measured.grid is None else band_edges(measured.grid),
        interface=data.has_phases if interface is None else interface,
        batch_size=batch_size or BATCH_SIZE,
        progress=progress,
    )
    steps: list[OneStep] = []
    rollouts: list[Trajectories] = []
    skipped: dict[tuple[int, ...], str] = {}
    fields: Arrays = {}
    mean: TrainingMean | None = None
    with inference(surrogate):
        for part in parts:
            if part.grid is not None and (refusal := _refusal(surrogate, part)) is not None:
                skipped[part.grid.points] = refusal
                continue
            if training is not None and mean is None:
                mean = training_mean(training, batch_size=settings.batch_size, progress=progress)
            steps.append(one_step(surrogate, part, settings, mean))
            fields |= part.pictures(surrogate)
            rollout = part.rollout(surrogate, HORIZON if horizon is None else horizon)
            if rollout is not None:
                rollouts.append(trajectories(rollout, settings))
                fields |= rollout_fields(rollout)
    if not steps:
        reasons = "; ".join(f"{size(sizes)}: {reason}" for sizes, reason in skipped.items())
        raise ValueError(f"the model takes none of the resolutions of {splits.path}: {reasons}")
    return Evaluation(
        run=name,
        data=splits.path,
        split=split,
        simulations=sum({part.name: len(part.simulations) for part in parts}.values()),
        seed=0,  # of the bootstrap
        in_channels=surrogate.spec.in_names,
        out_channels=surrogate.spec.out_names,
        one_step=tuple(sorted(steps, key=lambda entry: (math.prod(entry.points), entry.points, entry.part))),
        rollout=tuple(rollouts),
        skipped=skipped,
        fields=fields,
    )


def _evaluation_data(splits: DataSpec[Any]) -> EvaluationData:
    kind = KINDS.get(type(splits))
    if kind is None:
        raise ValueError(f"splits={splits} must be one of {', '.join(known.__name__ for known in KINDS)}")
    return kind(splits)


def _refusal(surrogate: ScaledModel, part: EvaluationPart) -> str | None:
    """Why the model cannot take this resolution, if it cannot."""
    first = next(part.batches(1, label="", progress=False))
    try:
        surrogate.predict(first.x, first.domain, name=first.name)
    except ValueError as error:
        return str(error)
    return None
