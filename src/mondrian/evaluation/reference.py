"""Forecasts that anybody can make without learning: nothing changes, and the mean of what was seen in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from mondrian.data import manifest
from mondrian.data.datasets import WindowDataset
from mondrian.data.sources import WellFiles
from mondrian.data.splits import Splits
from mondrian.evaluation.batches import batches
from mondrian.grid import Grid
from mondrian.resampling import resample
from mondrian.rollout import field_and_step


def persistence(in_names: Sequence[str], out_names: Sequence[str]) -> list[int] | None:
    """The input channel that stands for each target if nothing changes: its field at the latest step.

    `None` where a target is not among the inputs.

    >>> persistence(("u[-1]", "v[-1]", "u[0]", "v[0]", "gamma"), ("u[1]", "u[2]"))
    [2, 2]
    >>> persistence(("permeability",), ("pressure",)) is None
    True
    """
    latest: dict[str, tuple[int, int]] = {}
    for place, name in enumerate(in_names):
        field, step = field_and_step(name)
        latest[field] = max(latest.get(field, (-len(in_names), place)), (step or 0, place))
    fields = [field_and_step(name)[0] for name in out_names]
    return [latest[field][1] for field in fields] if all(field in latest for field in fields) else None


def training_part(splits: Splits) -> WindowDataset | None:
    """The training samples at the training resolution, read as they are needed; `None` if the data has none."""
    root = Path(splits.files.path)
    if isinstance(splits.files, WellFiles) and root.is_dir():
        if (root / manifest.FILE).exists():
            there = manifest.Manifest.load(root).simulations.get("train", 0) > 0
        else:
            there = (root / "data" / "train").is_dir()
        if not there:
            return None
    return splits.dataset("train", memory=0)


def training_mean(
    dataset: WindowDataset, *, batch_size: int = 32, progress: bool = False
) -> Float[Tensor, "channel *space"]:
    """The mean of the targets over all samples, in float64, at each point of the training grid."""
    total: Tensor | None = None
    for batch in batches(dataset, range(len(dataset)), batch_size, label="training mean", progress=progress):
        part = batch["y"].double().sum(dim=0)
        total = part if total is None else total + part
    assert total is not None  # a data set without samples does not exist
    return total / len(dataset)


def carried(field: Float[Tensor, "channel *space"], source: Grid, target: Grid) -> Float[Tensor, "channel *points"]:
    """A field at the points of another grid: interpolated, or averaged over cells that are at least twice as large.

    Both are taken to lie on the same box; files round theirs differently at different resolutions.

    >>> import torch
    >>> line = Grid(extent=(1.0,), points=(4,))
    >>> carried(torch.tensor([[1.0, 3.0, 5.0, 7.0]]), line, line.with_points((2,)))
    tensor([[2., 6.]])
    """
    there = replace(target, extent=source.extent, origin=source.origin)
    return resample(field[None], source, there)[0]
