"""Resampling from grid to grid: the tensor product of one linear map per axis."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid
from mondrian.resampling.axis_points import AxisPoints
from mondrian.resampling.matrices import STRETCH, near_points, stretch_matrices, whole_matrix

ORDER = 4
WHOLE = 256**2  # entries up to which one matrix for the whole axis is as fast as several small ones


def resample(
    u: Float[Tensor, "batch channel *space"],
    source: Grid,
    target: Grid,
    *,
    order: int = ORDER,
    plain: bool = False,
) -> Float[Tensor, "batch channel *points"]:
    r"""Carry a field from the points of `source` to those of `target`, one axis at a time.

    - In general by the polynomial through the nearest `order` points, with an error of that order. Periodic axes wrap;
      at walls the nearest points lie on one side. Axes with equal points are unchanged.
    - By means over the cells of the target where it is cell-centred and at least twice as coarse. On the same box the
      mean of cell-centred data is kept exactly, cells that divide each other give block averages, and the error of a
      mean is of order `order - 1`. For data at vertices the mean by the trapezoidal rule is kept.

    On axes that are not periodic the target must lie within the box of the source. Periodicity of the target does not
    matter. The computation is in single precision at least, for any precision of `u`.

    `plain` multiplies by one matrix per axis; by default long axes are split into stretches, at a cost linear in their
    points.

    >>> line = Grid(extent=(1.0,), points=(4,))
    >>> x = line.axis(0)[None, None]
    >>> resample(x, line, Grid(extent=(1.0,), points=(3,), ends=(2,)))
    tensor([[[0.0000, 0.5000, 1.0000]]])
    >>> resample(x, line, line.with_points((2,)))
    tensor([[[0.2500, 0.7500]]])
    """
    _check(u, source, target, order)
    changing = [axis for axis in range(source.dim) if not _same(source, target, axis)]
    w = u.to(torch.promote_types(u.dtype, torch.float32)) if changing else u  # half precision would change constants
    # axes that shrink come first, which leaves less work for the others
    for axis in sorted(changing, key=lambda axis: target.points[axis] / source.points[axis]):
        w = _along(w, source, target, axis, order, plain)
    return w.to(u.dtype)


def _along(
    u: Tensor, source: Grid, target: Grid, axis: int, order: int, plain: bool
) -> Float[Tensor, "batch channel *space"]:
    here, there, count = AxisPoints.of(source, axis), AxisPoints.of(target, axis), target.points[axis]
    if source.points[axis] > here.count:
        u = _without_repeated_end(u, 2 + axis)
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
    # along the last axis of a field the other axes are the rows of the product
    rows = v.squeeze(-1).movedim(0, -2)
    return (rows @ matrix.mT).movedim(-2, 0).unsqueeze(-1)


def _without_repeated_end(u: Tensor, axis: int) -> Tensor:
    """A periodic axis without the end that repeats its start; the start becomes the mean of the two."""
    last = u.shape[axis] - 1
    start = (u.narrow(axis, 0, 1) + u.narrow(axis, last, 1)) / 2
    return torch.cat([start, u.narrow(axis, 1, last - 1)], dim=axis)


def _same(source: Grid, target: Grid, axis: int) -> bool:
    names = ("points", "ends", "extent", "origin")
    return all(getattr(source, name)[axis] == getattr(target, name)[axis] for name in names)


def _check(u: Tensor, source: Grid, target: Grid, order: int) -> None:
    if source.dim != target.dim:
        raise ValueError(f"target has {target.dim} axes, extent={target.extent}; the source has {source.dim}")
    for name, grid in (("source", source), ("target", target)):
        if not grid.points:
            raise ValueError(f"{name} has extent={grid.extent} and no points; needed {name}.with_points(...)")
    if tuple(u.shape[2:]) != source.points:
        raise ValueError(f"u has shape {tuple(u.shape)}; needed (batch, channel, *{source.points})")
    if order < 1:
        raise ValueError(f"order={order} must be at least 1")
    for axis, ring in enumerate(source.periodic):
        (start, end), (low, high) = _span(source, axis), _span(target, axis)
        slack = 1e-9 * source.extent[axis]
        if not ring and (low < start - slack or high > end + slack):
            raise ValueError(
                f"target reaches from {low} to {high} along axis {axis}; needed to stay within the source, "
                f"{start} to {end}, where that is not periodic"
            )


def _span(grid: Grid, axis: int) -> tuple[float, float]:
    return grid.origin[axis], grid.origin[axis] + grid.extent[axis]
