"""Restriction from a fine grid to a coarse one: three maps on the trailing space axes, each also a spec."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.bases import apply_along, fourier_basis, resolved_modes
from mondrian.grid import Grid
from mondrian.support.spec import Spec


def block_average(u: Float[Tensor, "..."], points: tuple[int, ...]) -> Float[Tensor, "..."]:
    """The mean over the fine cells that a coarse cell covers, which keeps the integral.

    >>> block_average(torch.tensor([[1.0, 3.0, 5.0, 7.0]]), (2,))
    tensor([[2., 6.]])
    """
    _check(u, points)
    fine = u.shape[u.ndim - len(points) :]
    check_blocks(tuple(fine), points)
    blocks = [size for n, m in zip(fine, points, strict=True) for size in (m, n // m)]
    inside = list(range(-2 * len(points) + 1, 0, 2))
    return u.reshape(*u.shape[: u.ndim - len(points)], *blocks).mean(dim=inside)


def linear(u: Float[Tensor, "..."], points: tuple[int, ...]) -> Float[Tensor, "..."]:
    """Multilinear interpolation at the centres of the coarse cells, of second order; finer modes alias.

    >>> linear(torch.tensor([[0.0, 1.0, 2.0, 9.0, 4.0, 5.0]]), (2,))
    tensor([[1., 4.]])
    """
    _check(u, points)
    return _separable(u, points, _linear_matrix)


def fourier_truncate(u: Float[Tensor, "..."], points: tuple[int, ...]) -> Float[Tensor, "..."]:
    """The periodic function through `u`, without the modes that the coarse grid does not resolve, at its points.

    Exact for functions that the coarse grid resolves; its Nyquist mode is left out.

    >>> x = (torch.arange(16) + 0.5) / 16
    >>> coarse = fourier_truncate(torch.sin(2 * torch.pi * x), (4,))
    >>> torch.allclose(coarse, torch.sin(2 * torch.pi * (torch.arange(4) + 0.5) / 4), atol=1e-6)
    True
    """
    _check(u, points)
    return _separable(u, points, _truncation_matrix)


@dataclass(frozen=True)
class Restriction(Spec):
    """A map from a simulation to a coarser grid."""

    def check(self, grid: Grid, points: tuple[int, ...]) -> None:
        """Raise `ValueError` if `grid` cannot be restricted to `points`, which are no finer along any axis."""

    def __call__(self, u: Float[Tensor, "..."], points: tuple[int, ...]) -> Float[Tensor, "..."]:
        raise NotImplementedError


@dataclass(frozen=True)
class BlockAverage(Restriction):
    """The mean over the fine cells that a coarse cell covers."""

    def check(self, grid: Grid, points: tuple[int, ...]) -> None:
        check_blocks(grid.points, points)

    def __call__(self, u: Float[Tensor, "..."], points: tuple[int, ...]) -> Float[Tensor, "..."]:
        return block_average(u, points)


@dataclass(frozen=True)
class Linear(Restriction):
    """Interpolation at the coarse points, as in the paper; finer modes alias."""

    def __call__(self, u: Float[Tensor, "..."], points: tuple[int, ...]) -> Float[Tensor, "..."]:
        return linear(u, points)


@dataclass(frozen=True)
class FourierTruncation(Restriction):
    """The modes that the coarse grid resolves, along periodic axes."""

    def check(self, grid: Grid, points: tuple[int, ...]) -> None:
        for n, m, periodic in zip(grid.points, points, grid.periodic, strict=True):
            if n != m and not periodic:
                raise ValueError(
                    f"restriction={self} from {grid.points} to points={points} needs periodic axes, but "
                    f"periodic={grid.periodic}; needed another restriction (restrict=average or linear)"
                )

    def __call__(self, u: Float[Tensor, "..."], points: tuple[int, ...]) -> Float[Tensor, "..."]:
        return fourier_truncate(u, points)


def _separable(u: Tensor, points: tuple[int, ...], matrix_of: Callable[[int, int], Tensor]) -> Tensor:
    lead = u.shape[: u.ndim - len(points)]
    out = u.reshape(math.prod(lead), *u.shape[len(lead) :])
    for axis, m in enumerate(points):
        n = out.shape[1 + axis]
        if m != n:
            out = apply_along(matrix_of(n, m).to(u), out, axis)
    return out.reshape(*lead, *points)


def _linear_matrix(n: int, m: int) -> Float[Tensor, "coarse fine"]:
    position = (torch.arange(m, dtype=torch.float64) + 0.5) * (n / m) - 0.5
    left = position.floor().clamp(0, n - 1).long()
    right = (left + 1).clamp(max=n - 1)
    weight, row = position - left, torch.arange(m)
    matrix = torch.zeros(m, n, dtype=torch.float64)
    matrix[row, left] += 1 - weight
    matrix[row, right] += weight
    return matrix


def _truncation_matrix(n: int, m: int) -> Float[Tensor, "coarse fine"]:
    fine, coarse = (Grid(extent=(1.0,), points=(size,), periodic=(True,)) for size in (n, m))
    modes = resolved_modes(coarse, 0)
    return fourier_basis(coarse, 0, modes).values @ fourier_basis(fine, 0, modes).values.T / n


def check_blocks(fine: tuple[int, ...], points: tuple[int, ...]) -> None:
    """Raise `ValueError` if cells of the coarse grid do not consist of whole cells of the fine one."""
    if any(n % m for n, m in zip(fine, points, strict=True)):
        raise ValueError(f"points={points} must divide the {fine} points; needed other points or another restriction")


def _check(u: Float[Tensor, "..."], points: tuple[int, ...]) -> None:
    fine = tuple(u.shape[u.ndim - len(points) :])
    if not points or len(points) > u.ndim:
        raise ValueError(f"points={points} must have one entry for each space axis of u, shape {tuple(u.shape)}")
    if any(not 1 <= m <= n for m, n in zip(points, fine, strict=True)):
        raise ValueError(f"points={points} must be between 1 and the {fine} points of u")
