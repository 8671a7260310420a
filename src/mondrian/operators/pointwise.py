"""The operator that sees one point: a matrix at each."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import OperatorSpec, SubdomainOperator
from mondrian.quadrature import Cell


@dataclass(frozen=True)
class Pointwise(OperatorSpec):
    """The same matrix at each point: the limit case of a subdomain operator, whose kernel is a multiple of delta.

    >>> Pointwise().build(2, 3)
    PointwiseOperator(
      2, 3, bias=True
      (matrix): Linear(in_features=2, out_features=3, bias=False)
    )
    """

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        return PointwiseOperator(in_channels, out_channels, dim=dim, bias=bias)


class PointwiseOperator(SubdomainOperator):
    r"""$(Iv)(x) = W v(x) + b$."""

    def __init__(self, in_channels: int, out_channels: int, *, dim: int, bias: bool) -> None:
        super().__init__(in_channels, out_channels, bias=bias, dim=dim)
        self.matrix = nn.Linear(in_channels, out_channels, bias=False)

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        return self.add_bias(self.matrix.weight @ v)
