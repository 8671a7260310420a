"""Interpolation along one axis, as a matrix."""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64
from torch import Tensor


def lagrange_matrix(
    sources: Float64[Tensor, " source"],
    targets: Float64[Tensor, " target"],
    *,
    degree: int = 3,
    period: float | None = None,
) -> Float64[Tensor, "target source"]:
    r"""The matrix of local polynomial interpolation from evenly spaced points: order `degree + 1`.

    $$u(t) \approx \sum_{j \in S(t)} u(s_j) \prod_{k \in S(t), k \neq j} \frac{t - s_k}{s_j - s_k}$$

    with the `degree + 1` sources nearest to the target; near an end they lie on one side. With `period` the
    sources go round.

    >>> points = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)
    >>> lagrange_matrix(points, torch.tensor([1.5], dtype=torch.float64))
    tensor([[-0.0625,  0.5625,  0.5625, -0.0625]], dtype=torch.float64)
    """
    count = sources.shape[0]
    degree = min(degree, count - 1)
    if degree == 0:
        return torch.ones(targets.shape[0], 1, dtype=torch.float64, device=sources.device)
    step = (sources[-1] - sources[0]) / (count - 1)
    place = (targets - sources[0]) / step  # in units of the spacing, counted from the first source
    first = torch.floor(place - (degree - 1) / 2).long()
    if period is None:
        first = first.clamp(0, count - 1 - degree)
    stencil = first[:, None] + torch.arange(degree + 1, device=sources.device)
    nodes = torch.arange(degree + 1, dtype=torch.float64, device=sources.device)
    local = (place - first)[:, None, None]
    difference = nodes[:, None] - nodes[None, :]  # [j, k]
    same = torch.eye(degree + 1, dtype=torch.float64, device=sources.device)
    factors = (local - nodes) / (difference + same)  # [target, j, k]; k = j is left out of the product
    weights = torch.where(same.bool(), 1.0, factors).prod(dim=-1)
    matrix = torch.zeros(targets.shape[0], count, dtype=torch.float64, device=sources.device)
    return matrix.scatter_add(1, stencil % count, weights)


def apply_along(
    u: Float[Tensor, "*shape"], matrix: Float[Tensor, "target source"], axis: int
) -> Float[Tensor, "*moved"]:
    """Multiply `matrix` onto one axis of `u`."""
    moved = u.movedim(axis, -1)
    return torch.matmul(moved, matrix.to(dtype=u.dtype, device=u.device).mT).movedim(-1, axis)
