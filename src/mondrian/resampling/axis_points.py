"""The points of one axis of a grid, and the positions of the points of another grid on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from mondrian.grid import Grid

EXACT = 1e-11  # in spacings: a position this close to a point, or to the middle between two, differs by rounding only


@dataclass(frozen=True)
class AxisPoints:
    r"""`count` points $o + (j + s) h$ with $s = \tfrac12$ if `centred`, else 0; on a ring without the repeated end.

    >>> AxisPoints.of(Grid(extent=(1.0,), points=(5,), periodic=(True,), ends=(2,)), 0).count
    4
    """

    origin: float
    spacing: float
    count: int
    centred: bool
    ring: bool

    @staticmethod
    def of(grid: Grid, axis: int) -> AxisPoints:
        """The points of an axis of a grid, without an end that repeats the start."""
        ring = grid.periodic[axis]
        count = grid.intervals[axis] if ring else grid.points[axis]
        return AxisPoints(grid.origin[axis], grid.spacing[axis], count, grid.ends[axis] == 0, ring)

    @property
    def intervals(self) -> int:
        """The length of the axis in spacings."""
        return self.count if self.ring or self.centred else self.count - 1


def positions(source: AxisPoints, target: AxisPoints, count: int) -> Float64[Tensor, " target"]:
    """The first `count` points of the target, in spacings of the source from its start."""
    steps = torch.arange(count, dtype=torch.float64, device="cpu") + (0.5 if target.centred else 0.0)
    start = (target.origin - source.origin) / source.spacing
    return exact(start + steps * (target.spacing / source.spacing))


def exact(p: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Positions, with those that miss a multiple of half a spacing by rounding only put exactly there.

    >>> exact(torch.tensor([0.1 + 0.2 + 0.2, 0.3], dtype=torch.float64))
    tensor([0.5000, 0.3000], dtype=torch.float64)
    """
    rounded = torch.round(2 * p) / 2
    return torch.where((p - rounded).abs() < EXACT * (1 + p.abs()), rounded, p)
