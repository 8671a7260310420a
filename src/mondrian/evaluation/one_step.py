"""Errors of one application, in batches that are forgotten as soon as they are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from mondrian.data.datasets import WindowDataset
from mondrian.evaluation.batches import batches, predict
from mondrian.evaluation.entries import FieldErrors, OneStep
from mondrian.evaluation.means import Means
from mondrian.evaluation.reference import persistence
from mondrian.evaluation.spread import Spread
from mondrian.evaluation.tables import size
from mondrian.grid import Grid
from mondrian.metrics import interface_error, maximum_error, mean_absolute_error, mean_square_error, relative_l2_error
from mondrian.rollout import field_and_step
from mondrian.surrogate import Surrogate

Metric = Callable[[Tensor, Tensor], Tensor]
METRICS: Mapping[str, Metric] = {
    "mae": mean_absolute_error,
    "mse": mean_square_error,
    "relative_l2": relative_l2_error,
    "maximum": maximum_error,
}
OF_FIELDS = ("mae", "relative_l2")  # those that are told of each field


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
    """Errors over all windows of a data set, of the surrogate, of persistence and of the `mean` of training there."""
    points, means = dataset.grid.points, Means(dataset.simulations)
    spread = Spread(means, dataset.grid, settings.edges)
    latest = persistence(dataset.in_channels, dataset.out_channels)
    fields = several_fields(dataset.out_channels)
    groups = {"": list(range(len(dataset.out_channels))), **fields}
    metrics = metrics_on(dataset.grid, interface=settings.interface)
    indices = range(len(dataset))
    for batch in batches(dataset, indices, settings.batch_size, label=size(points), progress=settings.progress):
        prediction = predict(surrogate, batch["x"], batch["grid"])
        batch = batch.to(prediction.device)
        truth, simulation = batch["y"], batch["simulation"]
        guesses = {"model": prediction}
        if latest is not None:
            guesses["persistence"] = batch["x"][:, latest]
        if mean is not None:
            guesses["training_mean"] = mean.to(truth).expand_as(truth)
        for kind, guess in guesses.items():
            for name, metric in metrics.items():
                errors = metric(guess, truth)
                for field, places in groups.items():
                    means.add(f"{kind} {name} {field}", simulation, errors[:, places])
        spread.add(simulation, prediction, truth)

    def found(names: Iterable[str], field: str = "") -> dict[str, Any]:
        sides = {kind: {name: means.summary(f"{kind} {name} {field}") for name in names} for kind in guesses}
        return {kind: sides.get(kind) for kind in ("model", "persistence", "training_mean")}

    return OneStep(
        points=points,
        samples=len(dataset),
        **found(metrics),
        spectrum=spread.spectrum(),
        bands=spread.bands(),
        by_field={field: FieldErrors(**found(OF_FIELDS, field)) for field in fields} or None,
    )


def several_fields(names: Sequence[str]) -> dict[str, list[int]]:
    """The channels of each field, its frames together; nothing where there is one field.

    >>> several_fields(("u[1]", "p[1]", "u[2]", "p[2]"))
    {'u': [0, 2], 'p': [1, 3]}
    >>> several_fields(("u[1]", "u[2]"))
    {}
    """
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(field_and_step(name)[0], []).append(place)
    return places if len(places) > 1 else {}


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
