"""Interpolation of fields at arbitrary positions, of second or fourth order."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from mondrian.operators.derivatives import differentiable_gradients, is_transformed

ORDERS = (2, 4)


def sample(
    v: Float[Tensor, "batch channel *space"],
    positions: Float[Tensor, "batch axis *place"],
    rings: tuple[bool, ...],
    *,
    order: int = 2,
    plain: bool = False,
) -> Float[Tensor, "batch channel *place"]:
    """The values of fields at `positions`, which count points along each axis: 0 is the first point.

    By polynomials through the nearest `order` points along each axis, of that order in the spacing. Periodic axes wrap;
    at walls a field continues as its mirror image, $u(-x) = u(x)$.

    Linear interpolation uses `torch.nn.functional.grid_sample`, which rounds positions to about $n \\epsilon$ spacings
    on an axis of $n$ points. Order 4, `plain` and the transforms of `torch.func` use the definition, `gathered`.

    >>> line = torch.tensor([[[0.0, 1.0, 2.0, 3.0]]])
    >>> sample(line, torch.tensor([[[0.5, 3.5, 4.0, -1.0]]]), (True,))
    tensor([[[0.5000, 1.5000, 0.0000, 3.0000]]])
    >>> sample(line, torch.tensor([[[0.5, 3.5, 4.0, -1.0]]]), (False,))
    tensor([[[0.5000, 3.0000, 3.0000, 0.0000]]])
    """
    if plain or order != 2 or len(rings) > 3 or is_transformed(v, positions):
        return gathered(v, positions, rings, order=order)
    padded, inside = v, []
    for axis, (ring, n) in enumerate(zip(rings, v.shape[2:], strict=True)):
        first, last = padded.narrow(2 + axis, 0, 1), padded.narrow(2 + axis, n - 1, 1)
        before, after = (last, first) if ring else (first, last)
        padded = torch.cat([before, padded, after], dim=2 + axis)
        along = positions[:, axis]
        inside.append(torch.remainder(along, n) if ring else n - (torch.remainder(along + 0.5, 2 * n) - n).abs() - 0.5)
    grid = torch.stack([(2 * p + 3) / (n + 2) - 1 for p, n in zip(inside, v.shape[2:], strict=True)][::-1], dim=-1)
    if len(rings) == 1:  # grid_sample has planes and volumes only
        return _sampled(padded[..., None, :], _with_axis(grid)).squeeze(2)
    return _sampled(padded, grid)


def _with_axis(grid: Float[Tensor, "batch point 1"]) -> Float[Tensor, "batch 1 point 2"]:
    return torch.cat([grid, torch.zeros_like(grid)], dim=-1)[:, None]


def gathered(
    v: Float[Tensor, "batch channel *space"],
    positions: Float[Tensor, "batch axis *place"],
    rings: tuple[bool, ...],
    *,
    order: int,
) -> Float[Tensor, "batch channel *place"]:
    """The definition of `sample`: a sum of `order` values along each axis."""
    sizes = v.shape[2:]
    first = [torch.floor(p.detach()) - (order // 2 - 1) for p in positions.unbind(dim=1)]
    weights = [_weights(p - start, order) for p, start in zip(positions.unbind(dim=1), first, strict=True)]
    starts = [start.long() for start in first]
    values, result = v.flatten(2), v.new_zeros(())
    for taps in product(range(order), repeat=len(rings)):
        index, weight = torch.zeros_like(starts[0]), torch.ones_like(weights[0][0])
        for axis, tap in enumerate(taps):
            index = index * sizes[axis] + _folded(starts[axis] + tap, sizes[axis], rings[axis])
            weight = weight * weights[axis][tap]
        entries = index.flatten(1)[:, None].expand(-1, v.shape[1], -1)
        result = result + weight.flatten(1)[:, None] * values.gather(2, entries)
    return result.view(*v.shape[:2], *positions.shape[2:])


def _weights(t: Float[Tensor, "..."], order: int) -> list[Float[Tensor, "..."]]:
    """Lagrange's polynomials of the points 0, 1, ..., at `t`."""
    weights = []
    for k in range(order):
        weight = torch.ones_like(t)
        for i in range(order):
            if i != k:
                weight = weight * ((t - i) / (k - i))
        weights.append(weight)
    return weights


def _folded(index: Int[Tensor, "..."], n: int, ring: bool) -> Int[Tensor, "..."]:
    """The point of the axis that an index beyond its ends stands for."""
    if ring:
        return index % n
    index = index % (2 * n)
    return torch.minimum(index, 2 * n - 1 - index)


def _sampled(v: Float[Tensor, "batch channel *space"], grid: Float[Tensor, "batch *point axis"]) -> Tensor:
    if torch.compiler.is_compiling():  # which differentiates grid_sample by itself
        return _grid_sample(v, grid)
    result: Tensor = _Sampler.apply(v, grid)
    return result


def _grid_sample(v: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(v, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


class _Sampler(torch.autograd.Function):
    """`grid_sample` with higher derivatives, which PyTorch's own lacks: they are those of the definition."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, grid: Tensor) -> Tensor:
        ctx.save_for_backward(v, grid)
        return _grid_sample(v, grid)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        v, grid = ctx.saved_tensors
        if torch.is_grad_enabled():
            return differentiable_gradients(_definition, (v, grid), ctx.needs_input_grad, slope)
        kernels = torch.ops.aten
        kernel = kernels.grid_sampler_2d_backward if grid.ndim == 4 else kernels.grid_sampler_3d_backward
        gradients: tuple[Tensor | None, ...] = kernel(
            slope.contiguous(), v, grid, 0, 0, False, list(ctx.needs_input_grad)
        )
        return gradients


def _definition(v: Tensor, grid: Tensor) -> Tensor:
    """`grid_sample` by `gathered`, for positions within the padded field."""
    sizes = torch.tensor(v.shape[:1:-1], dtype=grid.dtype, device=grid.device)
    positions = (((grid + 1) * sizes - 1) / 2).flip(-1).movedim(-1, 1)
    return gathered(v, positions, (False,) * len(v.shape[2:]), order=2)
