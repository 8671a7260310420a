"""The sums of a stencil as matrix products: one matrix for a whole axis, or one for each of its stretches."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from mondrian.resampling.places import AxisPoints
from mondrian.resampling.stencils import Stencil, stencil
from mondrian.support.constants import constant

STRETCH = 64  # points of the target that share a small matrix


@constant
def whole_matrix(
    source: AxisPoints,
    target: AxisPoints,
    count: int,
    order: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Float[Tensor, "target source"]:
    """All points of the target from all of the source: the plain form."""
    found = stencil(source, target, count, order)
    return _matrix(found, source.count, wrap=source.ring).to(device, dtype)


@constant
def stretch_matrices(
    source: AxisPoints,
    target: AxisPoints,
    count: int,
    order: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Int[Tensor, "stretch near"], Float[Tensor, "stretch target near"]]:
    """For each stretch of the target the points of the source that are near, and the matrix from these to those."""
    found = stencil(source, target, count, order)
    stretches = math.ceil(count / STRETCH)
    missing = stretches * STRETCH - count  # the last point again: what it gives is cut off
    first = torch.cat([found.first, found.first[-1:].expand(missing)]).view(stretches, STRETCH)
    weights = F.pad(found.weights, (0, 0, 0, missing)).view(stretches, STRETCH, -1)
    near = near_points(source, target, order)
    start = first[:, 0] if source.ring else first[:, 0].clamp(max=source.count - near)
    matrices = [_matrix(Stencil(f - s, w), near, wrap=False) for f, s, w in zip(first, start, weights, strict=True)]
    index = (start[:, None] + torch.arange(near, device="cpu")) % source.count
    return index.to(device), torch.stack(matrices).to(device, dtype)


def near_points(source: AxisPoints, target: AxisPoints, order: int) -> int:
    """How many points of the source at most take part in a stretch of the target."""
    ratio = target.spacing / source.spacing
    return math.ceil((STRETCH - 1) * ratio) + math.ceil(ratio) + order + 4


def _matrix(found: Stencil, columns: int, *, wrap: bool) -> Float[Tensor, "target column"]:
    place = found.first[:, None] + torch.arange(found.weights.shape[1], device="cpu")
    # what lies beyond the last column without going round has the coefficient zero
    place = place % columns if wrap else place.clamp(0, columns - 1)
    return torch.zeros(len(place), columns, dtype=torch.float64, device="cpu").scatter_add(1, place, found.weights)
