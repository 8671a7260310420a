"""Orthogonal polynomials on the reference cell."""

from __future__ import annotations

from itertools import product

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from mondrian.support.tensors import product_points


def chebyshev(t: Float[Tensor, "*shape"], terms: int) -> Float[Tensor, "*shape term"]:
    """The Chebyshev polynomials `T_0 ... T_{terms-1}` at `t`, by their recurrence."""
    columns = [torch.ones_like(t), t]
    for _ in range(terms - 2):
        columns.append(2 * t * columns[-1] - columns[-2])
    return torch.stack(columns[:terms], dim=-1)


def legendre(t: Float[Tensor, "*shape"], terms: int) -> Float[Tensor, "*shape term"]:
    r"""Legendre polynomials, orthonormal for the mean over $[-1, 1]$: $\tfrac12 \int P_m P_n = \delta_{mn}$."""
    columns = [torch.ones_like(t), t]
    for n in range(1, terms - 1):
        columns.append(((2 * n + 1) * t * columns[-1] - n * columns[-2]) / (n + 1))
    return torch.stack([(2 * n + 1) ** 0.5 * column for n, column in enumerate(columns[:terms])], dim=-1)


def total_degree(dim: int, terms: int) -> list[tuple[int, ...]]:
    """The exponents of all products of `dim` polynomials whose degrees sum to less than `terms`.

    >>> total_degree(2, 2)
    [(0, 0), (0, 1), (1, 0)]
    """
    return [degrees for degrees in product(range(terms), repeat=dim) if sum(degrees) < terms]


def legendre_basis(x: Float[Tensor, "point axis"], terms: int) -> Float[Tensor, "point basis"]:
    """Products of Legendre polynomials of total degree below `terms`: orthonormal on the cell."""
    axes = legendre(x, terms)  # point axis term
    degrees = torch.tensor(total_degree(x.shape[-1], terms), device=x.device)
    basis = axes[:, 0, degrees[:, 0]]
    for axis in range(1, x.shape[-1]):
        basis = basis * axes[:, axis, degrees[:, axis]]
    return basis


def gauss_nodes(dim: int, points: int) -> tuple[Float64[Tensor, "node axis"], Float64[Tensor, " node"]]:
    """Gauss-Legendre nodes on the cell and weights that sum to one: exact to degree `2 * points - 1` per axis."""
    index = torch.arange(1, points, dtype=torch.float64)
    beside = index / torch.sqrt(4 * index**2 - 1)  # off the diagonal of the symmetric matrix of the recurrence
    nodes, vectors = torch.linalg.eigh(torch.diag(beside, 1) + torch.diag(beside, -1))
    weights = vectors[0] ** 2
    return product_points([nodes] * dim), product_points([weights] * dim).prod(dim=-1)
