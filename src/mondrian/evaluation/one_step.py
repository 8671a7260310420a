"""Errors of one application, batch by batch, so that no more than a batch is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from mondrian.evaluation.baselines import TrainingMean, persistence
from mondrian.evaluation.entries import FieldErrors, OneStep
from mondrian.evaluation.means import Means
from mondrian.evaluation.parts import EvaluationPart
from mondrian.evaluation.running_spectra import RunningSpectra
from mondrian.evaluation.tables import size
from mondrian.grid import Grid
from mondrian.metrics import interface_error, maximum_error, mean_absolute_error, mean_square_error, relative_l2_error
from mondrian.surrogate import ScaledModel

Weights = Float[Tensor, "*space"] | None
Metric = Callable[[Tensor, Tensor, Weights], Tensor]  # prediction, truth and quadrature weights to (batch, channel)
METRICS: Mapping[str, Metric] = {
    "mae": mean_absolute_error,
    "mse": mean_square_error,
    "relative_l2": relative_l2_error,
    "maximum": lambda prediction, truth, weights: maximum_error(prediction, truth),
}
FIELD_METRICS = ("mae", "relative_l2")  # those that are reported for each field
PREDICTIONS = ("model", "persistence", "training_mean")


@dataclass(frozen=True)
class EvaluationSettings:
    """What is the same for every part."""

    edges: tuple[float, ...]  # wavenumbers between bands
    interface: bool = False
    batch_size: int = 32
    progress: bool = False


def one_step(
    surrogate: ScaledModel, part: EvaluationPart, settings: EvaluationSettings, mean: TrainingMean | None = None
) -> OneStep:
    """Errors over all samples of a part: of the surrogate and of the persistence and training-mean baselines."""
    means, resolutions = Means(part.simulations), []
    spectra = None if part.grid is None else RunningSpectra(means, part.grid, settings.edges)
    constant = None if mean is None else mean.at(part.grid)
    latest = persistence(part.in_channels, part.out_channels)
    fields = part.fields if len(part.fields) > 1 else {}
    groups = {"": list(range(len(part.out_channels))), **fields}
    metrics = metrics_on(part.grid, interface=settings.interface)
    label = part.name or size(part.grid.points if part.grid else ())
    for samples in part.batches(settings.batch_size, label=label, progress=settings.progress):
        prediction = surrogate.predict(samples.x, samples.domain, name=samples.name)
        truth = samples.y.to(prediction.device)
        predictions = {"model": prediction}
        if latest is not None:
            predictions["persistence"] = samples.x[:, latest].to(prediction.device)
        if constant is not None:
            predictions["training_mean"] = constant.to(prediction.device).expand_as(truth)
        for kind, predicted in predictions.items():
            for name, metric in metrics.items():
                errors = metric(predicted, truth, samples.weights)
                for field, channels in groups.items():
                    means.add(f"{kind} {name} {field}", samples.simulation, errors[:, channels])
        if spectra is not None:
            spectra.add(samples.simulation, prediction, truth)
        resolutions += [samples.points] * len(truth)

    def summaries(names: Iterable[str], field: str = "") -> dict[str, Any]:
        known = {kind: {name: means.summary(f"{kind} {name} {field}") for name in names} for kind in predictions}
        return {kind: known.get(kind) for kind in PREDICTIONS}

    return OneStep(
        points=tuple(round(sum(counts) / len(counts)) for counts in zip(*resolutions, strict=True)),
        samples=len(part),
        **summaries(metrics),
        spectrum=spectra.spectrum() if spectra else None,
        bands=spectra.bands() if spectra else (),
        part=part.name,
        by_field={field: FieldErrors(**summaries(FIELD_METRICS, field)) for field in fields} or None,
    )


def metrics_on(grid: Grid | None, *, interface: bool) -> dict[str, Metric]:
    """The metrics by name."""
    if not interface or grid is None:
        return dict(METRICS)
    return {**METRICS, "interface": lambda prediction, truth, weights: interface_error(prediction, truth, grid)}
