r"""Ridge kernels: $k(x, y) = \sum_h g_h(x, y) A_h + A_0$ with $g_h = \operatorname{gelu}(a_h x + b_h y + c_h)$.

A network with one hidden layer between coordinates and a matrix is such a kernel: the integral operator's
directly; the mixture's after its last layer is multiplied into its matrices, $A_h = \sum_n W_{nh} M_n$.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.polynomials import chebyshev, gauss_nodes, legendre_basis, total_degree
from mondrian.support.constants import constant


@dataclass(frozen=True)
class Ridge:
    r"""The functions $g_h(x, y) = \operatorname{gelu}(a_h \cdot x + b_h \cdot y + c_h)$ of two points of the cell."""

    a: Float[Tensor, "hidden axis"]
    b: Float[Tensor, "hidden axis"]
    c: Float[Tensor, " hidden"]

    @staticmethod
    def of(layer: nn.Linear) -> Ridge:
        """The ridges of a linear layer on `[x; y]`."""
        a, b = layer.weight.chunk(2, dim=1)
        return Ridge(a, b, layer.bias)

    def __call__(self, x: Float[Tensor, "x axis"], y: Float[Tensor, "y axis"]) -> Float[Tensor, "hidden y x"]:
        """All $g_h(x, y)$, the integration variable $y$ first: a row vector times the matrix is the integral."""
        return F.gelu((self.b @ y.mT)[:, :, None] + (self.a @ x.mT + self.c[:, None])[:, None, :])

    @property
    def hidden(self) -> int:
        return self.c.shape[0]

    @property
    def dim(self) -> int:
        return self.a.shape[1]


@dataclass(frozen=True)
class Separation:
    r"""$g_h(x, y) \approx \sum_{p} X_{hp}(x)\, Y_{hp}(y)$, both sides expanded in one basis of the cell.

    $$X_{hp}(x) = \sum_k \mathrm{out}_{hp,k} P_k(x), \qquad Y_{hp}(y) = \sum_k \mathrm{into}_{hp,k} P_k(y)$$

    $X_{hp} = T_p(a_h x / |a_h|_1)$ are Chebyshev polynomials along the ridge, and $Y_{hp}$ carry the
    coefficients of the expansion of gelu. Both are polynomials of total degree below `terms`, which the orthonormal
    Legendre products $P_k$ represent exactly; only $P_k$ is evaluated at the points of the cell.
    """

    terms: int
    out: Float[Tensor, "hidden term basis"]
    into: Float[Tensor, "hidden term basis"]

    @staticmethod
    def of(ridge: Ridge, terms: int) -> Separation:
        """Expand with `terms` polynomials along each ridge; differentiable in the ridge."""
        width_x, width_y = _width(ridge.a), _width(ridge.b)
        nodes, transform, nodes_of_cell, basis = _tables(ridge.dim, terms, ridge.a.dtype, ridge.a.device)
        s, t = width_x[:, None, None] * nodes[:, None], width_y[:, None, None] * nodes
        values = F.gelu(s + t + ridge.c[:, None, None])  # hidden p q
        coefficients = transform @ values @ transform.mT
        along_x = chebyshev(nodes_of_cell @ (ridge.a / width_x[:, None]).mT, terms)  # node hidden term
        along_y = chebyshev(nodes_of_cell @ (ridge.b / width_y[:, None]).mT, terms)
        out = torch.einsum("nhp,nk->hpk", along_x, basis)
        into = torch.einsum("hpq,nhq,nk->hpk", coefficients, along_y, basis)
        return Separation(terms, out, into)


@constant
def _tables(dim: int, terms: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    """Nodes and transform along a ridge; nodes of the cell, and the basis there times quadrature weights."""
    nodes, weights = gauss_nodes(dim, terms)
    tables = (*chebyshev_transform(terms), nodes, legendre_basis(nodes, terms) * weights[:, None])
    return tuple(table.to(device, dtype) for table in tables)


def basis_size(dim: int, terms: int) -> int:
    """Number of basis functions $P_k$ for `terms` along each ridge."""
    return len(total_degree(dim, terms))


@constant
def chebyshev_transform(terms: int) -> tuple[Tensor, Tensor]:
    """Chebyshev nodes and the matrix from values there to coefficients, in float64."""
    index = torch.arange(terms, dtype=torch.float64)
    nodes = torch.cos(torch.pi * (index + 0.5) / terms)
    transform = 2 / terms * torch.cos(torch.pi * index[:, None] * (index + 0.5) / terms)
    scale = torch.where(index == 0, 0.5, 1.0)
    return nodes, transform * scale[:, None]


def terms_needed(ridge: Ridge, tolerance: float, *, most: int = 24) -> int | None:
    """The fewest terms whose expansion is within `tolerance` of every ridge, relative to the largest value.

    The neglected coefficients of an expansion twice as long bound the error. None if `most` terms are too few.
    """
    with torch.no_grad(), torch.device("cpu"):
        nodes, transform = chebyshev_transform(2 * most)
        a, b, c = (tensor.detach().double().cpu() for tensor in (ridge.a, ridge.b, ridge.c))
        s, t = _width(a)[:, None, None] * nodes[:, None], _width(b)[:, None, None] * nodes
        values = F.gelu(s + t + c[:, None, None])
        coefficients = (transform @ values @ transform.mT).abs()
        index = torch.arange(2 * most)
        degree = torch.maximum(index[:, None], index[None, :])
        allowed = tolerance * values.abs().max()
        # interpolation adds to each kept coefficient those that alias to it: hence the factor 2
        tails = torch.stack([(2 * coefficients * (degree >= m)).sum(dim=(1, 2)).max() for m in range(2, most + 1)])
        sufficient = (tails <= allowed).nonzero()
        return int(sufficient[0]) + 2 if len(sufficient) else None


def _width(direction: Float[Tensor, "hidden axis"]) -> Float[Tensor, " hidden"]:
    """Half the range of the ridge's argument over the cell."""
    return direction.abs().sum(dim=1).clamp_min(1e-6)
