"""A field on the points of another grid: the tensor product of one map an axis."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid
from mondrian.resampling.matrices import STRETCH, near_points, stretch_matrices, whole_matrix
from mondrian.resampling.places import AxisPoints

ORDER = 4
WHOLE = 256**2  # entries up to which one matrix for the whole axis is no slower than small ones


def resample(
    u: Float[Tensor, "batch channel *space"],
    source: Grid,
    target: Grid,
    *,
    order: int = ORDER,
    plain: bool = False,
) -> Float[Tensor, "batch channel *points"]:
    r"""Carry a field from the points of `source` to those of `target`, along each axis by itself.

    - Interpolation by the polynomial through the nearest `order` points, of that order; periodic axes wrap, at walls
      the nearest points are those on one side. Axes whose points are the same are left alone.
    - Where the target is cell-centred and at least twice as coarse, means over its cells: on the same box the mean of
      cell-centred data is kept exactly, block averages come out where the cells divide each other, and the error of
      a mean is of order `order - 1`. Of data at vertices the mean by the trapezoidal rule is kept.

    The target must lie within the box of the source on axes that are not periodic; whether its own are is of no
    interest.

    Computed in single precision at least, whatever the precision of `u`.

    `plain` multiplies by one matrix for each axis; otherwise long axes are taken in stretches, at a cost that grows
    with their points.

    >>> line = Grid(extent=(1.0,), points=(4,))
    >>> x = line.axis(0)[None, None]
    >>> resample(x, line, Grid(extent=(1.0,), points=(3,), ends=(2,)))
    tensor([[[0.0000, 0.5000, 1.0000]]])
    >>> resample(x, line, line.with_points((2,)))
    tensor([[[0.2500, 0.7500]]])
    """
    _check(u, source, target, order)
    changing = [axis for axis in range(source.dim) if not _same(source, target, axis)]
    w = u.to(torch.promote_types(u.dtype, torch.float32)) if changing else u  # half precision would change a constant
    # what shrinks comes first: the others have less to do
    for axis in sorted(changing, key=lambda axis: target.points[axis] / source.points[axis]):
        w = _along(w, source, target, axis, order, plain)
    return w.to(u.dtype)


def _along(
    u: Tensor, source: Grid, target: Grid, axis: int, order: int, plain: bool
) -> Float[Tensor, "batch channel *space"]:
    here, there, count = AxisPoints.of(source, axis), AxisPoints.of(target, axis), target.points[axis]
    if source.points[axis] > here.count:
        u = _once(u, 2 + axis)
    lead, trail = u.shape[: 2 + axis], u.shape[3 + axis :]
    v = u.reshape(math.prod(lead), here.count, math.prod(trail))
    settings = (here, there, count, order, u.dtype, u.device)
    near = near_points(here, there, order)
    with torch.autocast(u.device.type, enabled=False):  # half precision would lose more than interpolation does
        if plain or here.count * count <= WHOLE or 2 * near > here.count or count <= STRETCH:
            out = _product(whole_matrix(*settings), v)
        else:
            index, matrices = stretch_matrices(*settings)
            windows = v.index_select(1, index.flatten()).unflatten(1, tuple(index.shape))
            out = _product(matrices, windows).flatten(1, 2)[:, :count]
    return out.reshape(*lead, count, *trail)


def _product(
    matrix: Float[Tensor, "*stretch target near"], v: Float[Tensor, "lead *stretch near trail"]
) -> Float[Tensor, "lead *stretch target trail"]:
    if v.shape[-1] > 1:
        return matrix @ v
    # along the last axis of a field the rows of a product are the other axes
    rows = v.squeeze(-1).movedim(0, -2)
    return (rows @ matrix.mT).movedim(-2, 0).unsqueeze(-1)


def _once(u: Tensor, axis: int) -> Tensor:
    """A ring without the end that repeats its start."""
    last = u.shape[axis] - 1
    start = (u.narrow(axis, 0, 1) + u.narrow(axis, last, 1)) / 2
    return torch.cat([start, u.narrow(axis, 1, last - 1)], dim=axis)


def _same(source: Grid, target: Grid, axis: int) -> bool:
    names = ("points", "ends", "extent", "origin")
    return all(getattr(source, name)[axis] == getattr(target, name)[axis] for name in names)


def _check(u: Tensor, source: Grid, target: Grid, order: int) -> None:
    if source.dim != target.dim:
        raise ValueError(f"the target has {target.dim} axes, extent={target.extent}; the source has {source.dim}")
    for name, grid in (("source", source), ("target", target)):
        if not grid.points:
            raise ValueError(f"the {name} grid with extent={grid.extent} has no points; needed with_points(...) first")
    if tuple(u.shape[2:]) != source.points:
        raise ValueError(f"u has shape {tuple(u.shape)}; needed (batch, channel, *{source.points})")
    if order < 1:
        raise ValueError(f"order={order} must be at least 1")
    for axis, ring in enumerate(source.periodic):
        (start, end), (low, high) = _span(source, axis), _span(target, axis)
        slack = 1e-9 * source.extent[axis]
        if not ring and (low < start - slack or high > end + slack):
            raise ValueError(
                f"the target reaches from {low} to {high} along axis {axis}; needed to stay within the source, "
                f"{start} to {end}, where that is not periodic"
            )


def _span(grid: Grid, axis: int) -> tuple[float, float]:
    return grid.origin[axis], grid.origin[axis] + grid.extent[axis]
