"""The low-rank integral operator: its kernel is a product of two networks, each of one point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import OperatorSpec, SubdomainOperator
from mondrian.quadrature import Cell
from mondrian.support.checks import positive


@dataclass(frozen=True)
class LowRank(OperatorSpec):
    """An integral operator of a given rank.

    >>> sum(p.numel() for p in LowRank(rank=16).build(64, 192, bias=False).parameters())
    266624
    """

    rank: int = 16
    hidden: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(rank=self.rank, hidden=self.hidden)

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        return LowRankOperator(self, in_channels, out_channels, dim=dim, bias=bias)


class LowRankOperator(SubdomainOperator):
    r"""$(Iv)(x) = \phi(x) \int \psi(y)^T v(y)\, dy + b$ with networks for the matrices $\phi(x)$ and $\psi(y)$.

    The coordinates of the cell run over $[0, 1]$.
    """

    def __init__(self, spec: LowRank, in_channels: int, out_channels: int, *, dim: int, bias: bool) -> None:
        super().__init__(in_channels, out_channels, bias=bias, dim=dim)
        self.rank = spec.rank
        self.phi = nn.Sequential(
            nn.Linear(dim, spec.hidden), nn.GELU(), nn.Linear(spec.hidden, spec.rank * out_channels)
        )
        self.psi = nn.Sequential(
            nn.Linear(dim, spec.hidden), nn.GELU(), nn.Linear(spec.hidden, spec.rank * in_channels)
        )
        with torch.no_grad():  # a sum over the input channels, like any linear layer's
            for parameter in self.psi[2].parameters():
                parameter.div_(in_channels**0.5)

    def factors(self, cell: Cell) -> tuple[Float[Tensor, "point rank out"], Float[Tensor, "point rank in"]]:
        """$\\phi$ and $\\psi$ at the points of the cell."""
        x = (cell.coordinates + 1) / 2
        return self.phi(x).unflatten(-1, (self.rank, -1)), self.psi(x).unflatten(-1, (self.rank, -1))

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        phi, psi = self.factors(cell)
        coefficients = torch.einsum("y,yri,bciy->bcr", cell.weights, psi, v)
        return self.add_bias(torch.einsum("xro,bcr->bcox", phi, coefficients))

    def evaluate(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        def matrices() -> tuple[Tensor, Tensor]:
            phi, psi = self.factors(cell)
            weighted = psi * cell.weights[:, None, None]
            return weighted.permute(2, 0, 1).reshape(-1, self.rank), phi.permute(1, 2, 0).reshape(self.rank, -1)

        into, out = self.cached(cell, None, matrices)
        coefficients = v.flatten(0, 1).flatten(1) @ into
        constant = None if self.bias is None else self.bias.repeat_interleave(cell.size)
        u = coefficients @ out if constant is None else torch.addmm(constant, coefficients, out)
        return u.view(*v.shape[:2], self.out_channels, cell.size)
