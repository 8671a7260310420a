r"""Interpolation and averaging along an axis as short sums: $w_t = \sum_k c_{tk}\, u_{f_t + k}$.

Positions are in spacings of the source from the start of its axis: cell $j$ is $[j, j + 1]$, with its point in the
middle if the axis is cell-centred. On a ring indices continue beyond the ends.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from mondrian.resampling.axis_points import AxisPoints, exact, positions


class Stencil(NamedTuple):
    """The first point of each sum, and the coefficients from that point on. `first` never decreases."""

    first: Int[Tensor, " target"]
    weights: Float64[Tensor, "target tap"]


def stencil(source: AxisPoints, target: AxisPoints, count: int, order: int) -> Stencil:
    """The sums of source values that give the first `count` points of the target.

    Cell-centred points at least twice as far apart as those of the source are means over their cell, so that nothing
    aliases. All other points are interpolated.
    """
    p = positions(source, target, count)
    width = target.spacing / source.spacing
    if target.centred and width > 2 - 1e-9:
        return _averages(p, width, source, order)
    return _interpolation(p, source, order)


def _interpolation(p: Float64[Tensor, " target"], source: AxisPoints, order: int) -> Stencil:
    """The polynomial through the nearest `order` points, or through all if there are fewer, by Lagrange's formula."""
    q = p - (0.5 if source.centred else 0.0)  # the points of the source are whole numbers in q
    taps = min(order, source.count)
    first = torch.ceil(q - taps / 2).long()
    if not source.ring:
        first = first.clamp(0, source.count - taps)
    return Stencil(first, lagrange(q - first, taps))


def lagrange(t: Float64[Tensor, " target"], taps: int) -> Float64[Tensor, "target tap"]:
    r"""$\prod_{i \ne k} (t - i) / (k - i)$: one at the point $k$ and zero at the others, exactly.

    >>> lagrange(torch.tensor([0.5, 1.5], dtype=torch.float64), 2)
    tensor([[ 0.5000,  0.5000],
            [-0.5000,  1.5000]], dtype=torch.float64)
    """
    columns = []
    for k in range(taps):
        column = torch.ones_like(t)
        for i in range(taps):
            if i != k:
                column = column * ((t - i) / (k - i))
        columns.append(column)
    return torch.stack(columns, dim=-1)


def _averages(p: Float64[Tensor, " target"], width: float, source: AxisPoints, order: int) -> Stencil:
    r"""Means over cells of `width` around `p`, of order `order - 1`, which keep the integral.

    The mean over $[a, b]$ is $(U(b) - U(a)) / (b - a)$ with the integral $U$ of the source from its start. $U$ is known
    at the edges of the source cells and interpolated in between. As a sum over cells, $U(e) = \sum_j F_e(j) u_j$, where
    $F_e$ is 1 left of the edges that are used and 0 right of them. For vertices the value of a cell is the mean of its
    two ends: the trapezoidal rule.
    """
    taps = min(order, source.intervals + 1)
    sides = [exact(p + side * width / 2) for side in (-1, 1)]
    firsts = [torch.ceil(e - taps / 2).long() for e in sides]
    if not source.ring:
        firsts = [first.clamp(0, source.intervals + 1 - taps) for first in firsts]
    cells = math.ceil(width - 1e-9) + taps + 1
    column = torch.arange(cells, device="cpu")[None, :] + firsts[0][:, None]
    left, right = (_cumulative_weights(e, first, column, taps) for e, first in zip(sides, firsts, strict=True))
    weights = (right - left) / width
    if not source.centred:
        zero = torch.zeros_like(weights[:, :1])
        weights = (torch.cat([weights, zero], dim=1) + torch.cat([zero, weights], dim=1)) / 2
    return Stencil(firsts[0], weights)


def _cumulative_weights(
    e: Float64[Tensor, " target"],
    first: Int[Tensor, " target"],
    column: Int[Tensor, "target cell"],
    taps: int,
) -> Float64[Tensor, "target cell"]:
    """$F_e(j)$ for the cells `column`, from the edges `first ... first + taps - 1`."""
    beyond = lagrange(e - first, taps).flip(-1).cumsum(-1).flip(-1)[:, 1:]  # of the edges right of each cell
    cell = column - first[:, None]
    inside = beyond.gather(1, cell.clamp(0, taps - 2)) if taps > 1 else torch.zeros_like(column, dtype=e.dtype)
    return torch.where(cell < 0, 1.0, torch.where(cell < taps - 1, inside, 0.0))
