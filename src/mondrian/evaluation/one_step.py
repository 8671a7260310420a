"""Errors of one application, in batches that are forgotten as soon as they are measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from mondrian.data.datasets import WindowDataset
from mondrian.evaluation.batches import batches, predict
from mondrian.evaluation.entries import OneStep
from mondrian.evaluation.means import Means
from mondrian.evaluation.reference import carried, persistence
from mondrian.evaluation.spread import Spread
from mondrian.evaluation.tables import size
from mondrian.grid import Grid
from mondrian.metrics import interface_error, maximum_error, mean_absolute_error, mean_square_error, relative_l2_error
from mondrian.statistics import Summary
from mondrian.surrogate import Surrogate

Metric = Callable[[Tensor, Tensor], Tensor]
METRICS: Mapping[str, Metric] = {
    "mae": mean_absolute_error,
    "mse": mean_square_error,
    "relative_l2": relative_l2_error,
    "maximum": maximum_error,
}


@dataclass(frozen=True)
class Settings:
    """What is the same at every resolution."""

    edges: tuple[float, ...]  # wavenumbers between bands
    interface: bool = False
    batch_size: int = 32
    progress: bool = False


def one_step(
    surrogate: Surrogate,
    dataset: WindowDataset,
    settings: Settings,
    mean: Float[Tensor, "channel *space"] | None = None,
) -> OneStep:
    """Errors over all windows of a data set, of the surrogate, of persistence and of the training `mean`."""
    points, means = dataset.grid.points, Means(dataset.simulations)
    spread = Spread(means, dataset.grid, settings.edges)
    latest = persistence(dataset.in_channels, dataset.out_channels)
    typical = None if mean is None else carried(mean, points)
    metrics = metrics_on(dataset.grid, interface=settings.interface)
    indices = range(len(dataset))
    for batch in batches(dataset, indices, settings.batch_size, label=size(points), progress=settings.progress):
        prediction = predict(surrogate, batch["x"], batch["grid"])
        batch = batch.to(prediction.device)
        truth, simulation = batch["y"], batch["simulation"]
        guesses = {"model": prediction}
        if latest is not None:
            guesses["persistence"] = batch["x"][:, latest]
        if typical is not None:
            guesses["training_mean"] = typical.to(truth).expand_as(truth)
        for kind, guess in guesses.items():
            for name, metric in metrics.items():
                means.add(f"{kind} {name}", simulation, metric(guess, truth))
        spread.add(simulation, prediction, truth)

    def found(kind: str, there: bool = True) -> dict[str, Summary] | None:
        return {name: means.summary(f"{kind} {name}") for name in metrics} if there else None

    return OneStep(
        points=points,
        samples=len(dataset),
        model=found("model") or {},
        persistence=found("persistence", latest is not None),
        training_mean=found("training_mean", typical is not None),
        spectrum=spread.spectrum(),
        bands=spread.bands(),
    )


def metrics_on(grid: Grid, *, interface: bool) -> dict[str, Metric]:
    """The measures by name, `(prediction, truth) -> (batch, channel)`."""
    if not interface:
        return dict(METRICS)
    return {**METRICS, "interface": lambda prediction, truth: interface_error(prediction, truth, grid)}


def check_channels(surrogate: Surrogate, dataset: WindowDataset) -> None:
    """Refuse data whose channels are not those of the surrogate, in its order."""
    spec = surrogate.spec
    for side, found, needed in (
        ("input", dataset.in_channels, spec.in_names),
        ("target", dataset.out_channels, spec.out_names),
    ):
        if tuple(found) != tuple(needed):
            raise ValueError(f"{dataset.source.name} gives {side} channels {_listed(found)}; needed {_listed(needed)}")


def _listed(names: Sequence[str]) -> str:
    return "(" + ", ".join(names) + ")"
