"""The baselines: persistence, which predicts the last given frame, and the mean of the training targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from mondrian.evaluation.parts import EvaluationPart
from mondrian.grid import Grid
from mondrian.resampling import resample
from mondrian.rollout import field_and_step


def persistence(in_channels: Sequence[str], out_channels: Sequence[str]) -> list[int] | None:
    """The input channel that the persistence baseline predicts for each target: its field at the latest step.

    `None` if the field of a target is not among the inputs.

    >>> persistence(("u[-1]", "v[-1]", "u[0]", "v[0]", "gamma"), ("u[1]", "u[2]"))
    [2, 2]
    >>> persistence(("permeability",), ("pressure",)) is None
    True
    """
    latest: dict[str, tuple[int, int]] = {}
    for channel, name in enumerate(in_channels):
        field, step = field_and_step(name)
        latest[field] = max(latest.get(field, (-len(in_channels), channel)), (step or 0, channel))
    fields = [field_and_step(name)[0] for name in out_channels]
    return [latest[field][1] for field in fields] if all(field in latest for field in fields) else None


@dataclass(frozen=True, eq=False)
class TrainingMean:
    """The mean of the training targets: at each point of the `grid` that all samples share, or over all domains."""

    values: Float[Tensor, "channel *space"]
    grid: Grid | None

    def at(self, grid: Grid | None) -> Float[Tensor, "channel *points"]:
        """The baseline at the points of a grid, or its value for each channel `(channel, 1)`."""
        if self.grid is None or grid is None:
            return self.values
        return carried(self.values, self.grid, grid).float()  # in the precision of the samples


def training_mean(part: EvaluationPart, *, batch_size: int = 32, progress: bool = False) -> TrainingMean:
    r"""The mean over all training samples, in double precision.

    On a grid that all samples share $\frac1n \sum_s y_s(x)$ at each point, otherwise
    $\sum_s \int y_s \big/ \sum_s |\Omega_s|$ for each channel.
    """
    total: Tensor | None = None
    measure = 0.0
    for samples in part.batches(batch_size, label="training mean", progress=progress):
        y = samples.y.double()
        if samples.weights is None:
            sums, measure = y.sum(dim=0), measure + len(y)
        else:
            sums = (y * samples.weights).flatten(2).sum(dim=2).sum(dim=0)[:, None]
            measure += len(y) * float(samples.weights.sum())
        total = sums if total is None else total + sums
    assert total is not None  # a data set without samples does not exist
    return TrainingMean(total / measure, part.grid)


def carried(field: Float[Tensor, "channel *space"], source: Grid, target: Grid) -> Float[Tensor, "channel *points"]:
    """A field at the points of another grid: interpolated, or averaged over cells that are at least twice as large.

    Both grids are taken to cover the same box; files round it differently at different resolutions.

    >>> import torch
    >>> line = Grid(extent=(1.0,), points=(4,))
    >>> carried(torch.tensor([[1.0, 3.0, 5.0, 7.0]]), line, line.with_points((2,)))
    tensor([[2., 6.]])
    """
    same_box = replace(target, extent=source.extent, origin=source.origin)
    return resample(field[None], source, same_box)[0]
