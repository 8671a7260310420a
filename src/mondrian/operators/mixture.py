"""The mixture operator: a kernel that mixes matrices with coefficients that depend on the two points."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import OperatorSpec, SubdomainOperator, add_skip
from mondrian.operators.kernel import FullRidgeOperator, pair_network
from mondrian.quadrature import Cell
from mondrian.support.checks import fraction, positive


@dataclass(frozen=True)
class Mixture(OperatorSpec):
    """The paper's mixture operator (MO): `terms` full matrices, a 1x1 skip.

    >>> sum(p.numel() for p in Mixture(terms=64).build(64, 192, bias=False).parameters())
    799528
    """

    terms: int = 64
    hidden: int = 8
    skip: bool = True
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(terms=self.terms, hidden=self.hidden)
        fraction(tolerance=self.tolerance)

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        return MixtureOperator(self, in_channels, out_channels, dim=dim, bias=bias)


class MixtureOperator(FullRidgeOperator):
    r"""$(Iv)(x) = \int \sum_n C_n(x, y) M_n\, v(y)\, dy + S v(x) + b$ with coefficients from a small network.

    $$C(x, y) = W_2 \operatorname{gelu}(W_1 [x; y] + b_1) + b_2$$
    """

    def __init__(self, spec: Mixture, in_channels: int, out_channels: int, *, dim: int, bias: bool) -> None:
        first = nn.Linear(2 * dim, spec.hidden)
        super().__init__(in_channels, out_channels, first=first, bias=bias, tolerance=spec.tolerance)
        self.second = nn.Linear(spec.hidden, spec.terms)
        self.mixed = nn.Parameter(torch.randn(spec.terms, in_channels, out_channels))
        self.skip = nn.Linear(in_channels, out_channels) if spec.skip else None
        with torch.no_grad():  # the coefficients have variance 0.09: the kernel then has 1 / (3 in_channels)
            self.mixed.mul_(2 / (spec.terms * in_channels) ** 0.5)

    def matrices(self) -> tuple[Tensor, Tensor]:
        flat = self.mixed.flatten(1)
        collapsed = torch.cat([self.second.weight.mT, self.second.bias[None]]) @ flat
        collapsed = collapsed.view(-1, self.in_channels, self.out_channels)
        return collapsed[:-1], collapsed[-1]

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        coefficients = pair_network(self.first, self.second, cell)
        kernel = torch.einsum("xyn,nio->xyio", coefficients, self.mixed)
        return add_skip(self.add_bias(torch.einsum("y,xyio,bciy->bcox", cell.weights, kernel, v)), self.skip, v)
