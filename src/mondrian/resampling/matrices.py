"""The sums of a stencil as matrix products: one matrix for a whole axis, or one for each stretch of it."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from mondrian.resampling.axis_points import AxisPoints
from mondrian.resampling.stencils import Stencil, stencil
from mondrian.support.constants import constant

STRETCH = 64  # target points that share a small matrix


@constant
def whole_matrix(
    source: AxisPoints,
    target: AxisPoints,
    count: int,
    order: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "target source"]:
    """The matrix from all source points to all target points: the plain form."""
    sums = stencil(source, target, count, order)
    return _matrix(sums, source.count, wrap=source.ring).to(device, dtype)


@constant
def stretch_matrices(
    source: AxisPoints,
    target: AxisPoints,
    count: int,
    order: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Int[Tensor, "stretch near"], Float[Tensor, "stretch target near"]]:
    """For each stretch of the target the nearby source points, and the matrix from these to the stretch."""
    sums = stencil(source, target, count, order)
    stretches = math.ceil(count / STRETCH)
    missing = stretches * STRETCH - count  # filled with the last point, and cut off again afterwards
    first = torch.cat([sums.first, sums.first[-1:].expand(missing)]).view(stretches, STRETCH)
    weights = F.pad(sums.weights, (0, 0, 0, missing)).view(stretches, STRETCH, -1)
    near = near_points(source, target, order)
    start = first[:, 0] if source.ring else first[:, 0].clamp(max=source.count - near)
    matrices = [_matrix(Stencil(f - s, w), near, wrap=False) for f, s, w in zip(first, start, weights, strict=True)]
    index = (start[:, None] + torch.arange(near, device="cpu")) % source.count
    return index.to(device), torch.stack(matrices).to(device, dtype)


def near_points(source: AxisPoints, target: AxisPoints, order: int) -> int:
    """The largest number of source points that one stretch of the target needs."""
    ratio = target.spacing / source.spacing
    return math.ceil((STRETCH - 1) * ratio) + math.ceil(ratio) + order + 4


def _matrix(sums: Stencil, columns: int, *, wrap: bool) -> Float[Tensor, "target column"]:
    column = sums.first[:, None] + torch.arange(sums.weights.shape[1], device="cpu")
    # without wrapping, points beyond the last column have the coefficient zero
    column = column % columns if wrap else column.clamp(0, columns - 1)
    return torch.zeros(len(column), columns, dtype=torch.float64, device="cpu").scatter_add(1, column, sums.weights)
