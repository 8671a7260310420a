"""One axis of a grid, and where the points of another lie on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from mondrian.grid import Grid

EXACT = 1e-11  # a place this close to a point or to the middle between two, in spacings, was meant to be there


@dataclass(frozen=True)
class AxisPoints:
    r"""`count` points $o + (j + s) h$ with $s = \tfrac12$ if `centred`, else 0; on a ring all of them different.

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
        """The axis of a grid, an end that repeats the start left out."""
        ring = grid.periodic[axis]
        count = grid.intervals[axis] if ring else grid.points[axis]
        return AxisPoints(grid.origin[axis], grid.spacing[axis], count, grid.ends[axis] == 0, ring)

    @property
    def intervals(self) -> int:
        """How many spacings the axis is long."""
        return self.count if self.ring or self.centred else self.count - 1


def places(source: AxisPoints, target: AxisPoints, count: int) -> Float64[Tensor, " target"]:
    """`count` points of the target, in spacings of the source from its start."""
    steps = torch.arange(count, dtype=torch.float64, device="cpu") + (0.5 if target.centred else 0.0)
    start = (target.origin - source.origin) / source.spacing
    return exact(start + steps * (target.spacing / source.spacing))


def exact(p: Float64[Tensor, "*shape"]) -> Float64[Tensor, "*shape"]:
    """Places on a multiple of half a spacing but for rounding, put there: points and cuts that coincide must do so.

    >>> exact(torch.tensor([0.1 + 0.2 + 0.2, 0.3], dtype=torch.float64))
    tensor([0.5000, 0.3000], dtype=torch.float64)
    """
    near = torch.round(2 * p) / 2
    return torch.where((p - near).abs() < EXACT * (1 + p.abs()), near, p)
