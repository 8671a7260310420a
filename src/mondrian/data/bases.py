"""Fourier and cosine bases on the cell-centred points of an axis, in which the Laplacian is diagonal."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mondrian.grid import Grid


class Basis(NamedTuple):
    """Basis functions on one axis: values, derivatives and wavenumbers, in float64."""

    values: Float[Tensor, "point mode"]
    derivatives: Float[Tensor, "point mode"]
    wavenumbers: Float[Tensor, " mode"]


def cosine_basis(grid: Grid, axis: int, modes: int) -> Basis:
    r"""Eigenfunctions of the Laplacian with zero flux at both ends.

    $$\varphi_0 = 1, \qquad \varphi_m(x) = \sqrt2 \cos(k_m x), \qquad k_m = \pi m / L$$

    The first $n$ are orthonormal under the mean over the $n$ points (this is the DCT-II) and also diagonalise the
    5-point Laplacian.

    >>> phi = cosine_basis(Grid(extent=(2.0,), points=(8,)), 0, 8).values
    >>> torch.allclose(phi.T @ phi / 8, torch.eye(8, dtype=torch.float64))
    True
    """
    mode, k = torch.arange(modes), axis_wavenumbers(grid, axis, modes)
    angle, scale = _turns(grid.points[axis], mode) / 2, _unit_norm(mode)
    return Basis(scale * torch.cos(angle), -scale * k * torch.sin(angle), k)


def fourier_basis(grid: Grid, axis: int, modes: int) -> Basis:
    r"""Eigenfunctions of the Laplacian on a periodic axis, in real form.

    $$\varphi_0 = 1, \quad \varphi_{2m-1}(x) = \sqrt2 \cos(k_m x), \quad \varphi_{2m}(x) = \sqrt2 \sin(k_m x),
    \qquad k_m = 2 \pi m / L$$

    `wavenumbers` holds $k_m$ for both functions of a pair. An odd number of modes, up to $n$, is orthonormal under the
    mean over the $n$ points.

    >>> phi = fourier_basis(Grid(extent=(2.0,), points=(8,), periodic=(True,)), 0, 7).values
    >>> torch.allclose(phi.T @ phi / 8, torch.eye(7, dtype=torch.float64))
    True
    """
    mode, k = torch.arange(modes), axis_wavenumbers(grid, axis, modes)
    is_sine = (mode % 2 == 0) & (mode > 0)
    angle, scale = _turns(grid.points[axis], (mode + 1) // 2), _unit_norm(mode)
    sine, cosine = scale * torch.sin(angle), scale * torch.cos(angle)
    return Basis(torch.where(is_sine, sine, cosine), k * torch.where(is_sine, cosine, -sine), k)


def axis_basis(grid: Grid, axis: int, modes: int) -> Basis:
    """The Fourier basis on a periodic axis, the cosine basis on another."""
    return (fourier_basis if grid.periodic[axis] else cosine_basis)(grid, axis, modes)


def axis_wavenumbers(grid: Grid, axis: int, modes: int) -> Float[Tensor, " mode"]:
    """Wavenumbers of the basis functions of an axis, in radians per unit of length."""
    mode, unit = torch.arange(modes), math.pi / grid.extent[axis]
    halves = 2 * ((mode + 1) // 2) if grid.periodic[axis] else mode
    return halves.double() * unit


def resolved_modes(grid: Grid, axis: int) -> int:
    """The number of basis functions that the points of an axis resolve, without the Nyquist mode.

    >>> resolved_modes(Grid(extent=(1.0, 1.0), points=(8, 8), periodic=(True, False)), 0)
    7
    """
    n = grid.points[axis]
    return 2 * ((n - 1) // 2) + 1 if grid.periodic[axis] else n


def samples_at_once(requested: int, like: Tensor, *shapes: tuple[int, ...]) -> int:
    """How many samples may be computed together such that each is rounded as if it were alone.

    On a CPU the rounding of a matrix product may depend on where an operand starts in a 64-byte cache line (with MKL in
    float64 it does). Samples are computed together if their operands, of the given `shapes`, fill whole lines, and one
    by one if not. On other devices the number is `requested`.
    """
    if like.device.type != "cpu":
        return requested
    fill_lines = all(math.prod(shape) * like.element_size() % 64 == 0 for shape in shapes)
    return requested if fill_lines else 1


def apply_along(
    matrix: Float[Tensor, "out in"], u: Float[Tensor, "batch *space"], axis: int
) -> Float[Tensor, "batch *image"]:
    """`matrix` times each line of `u` along one space axis.

    The result of a sample does not depend on the other samples, to the last bit: the sizes of its products do not
    depend on the batch.
    """
    space = u.shape[1:]
    image = (*space[:axis], matrix.shape[0], *space[axis + 1 :])
    at_once = samples_at_once(max(1, len(u)), u, space, image)
    parts = [part.clone(memory_format=torch.contiguous_format) for part in u.split(at_once)]
    return torch.cat([_apply_along(matrix, part, axis).reshape(len(part), *image) for part in parts])


def _apply_along(matrix: Tensor, u: Tensor, axis: int) -> Tensor:
    before, size, after = math.prod(u.shape[1 : axis + 1]), u.shape[axis + 1], math.prod(u.shape[axis + 2 :])
    if after == 1:
        return torch.bmm(u.reshape(len(u), before, size), matrix.T.expand(len(u), -1, -1))
    lines = u.reshape(len(u) * before, size, after)
    return torch.bmm(matrix.expand(len(lines), -1, -1), lines)


def _turns(points: int, mode: Int[Tensor, " mode"]) -> Float[Tensor, "point mode"]:
    """The angle 2 pi m (j + 1/2) / n, reduced in integers: full turns would cost digits."""
    odd = 2 * torch.arange(points) + 1
    return (odd[:, None] * mode % (4 * points)).double() * (math.pi / points)


def _unit_norm(mode: Int[Tensor, " mode"]) -> Float[Tensor, " mode"]:
    return torch.where(mode == 0, 1.0, 2.0).double().sqrt()
