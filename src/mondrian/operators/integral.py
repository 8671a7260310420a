"""The integral operator with a network as kernel (the paper's "vanilla" operator)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import OperatorSpec, SubdomainOperator
from mondrian.operators.kernel import FullRidgeOperator, pair_network
from mondrian.quadrature import Cell
from mondrian.support.checks import fraction, positive


@dataclass(frozen=True)
class Integral(OperatorSpec):
    """An integral operator whose kernel is a network from two points to a matrix.

    >>> Integral(hidden=64).build(2, 3)
    IntegralOperator(
      2, 3, bias=True
      (first): Linear(in_features=4, out_features=64, bias=True)
      (second): Linear(in_features=64, out_features=6, bias=True)
    )
    """

    hidden: int = 64
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(hidden=self.hidden)
        fraction(tolerance=self.tolerance)

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        return IntegralOperator(self, in_channels, out_channels, dim=dim, bias=bias)


class IntegralOperator(FullRidgeOperator):
    r"""$(Iv)(x) = \int \kappa(x, y)\, v(y)\, dy + b$ with a network as kernel.

    $$\kappa(x, y) = W_2 \operatorname{gelu}(W_1 [x; y] + b_1) + b_2 \in R^{\mathrm{in} \times \mathrm{out}}$$

    The coordinates of the cell run over $[-1, 1]$.
    """

    def __init__(self, spec: Integral, in_channels: int, out_channels: int, *, dim: int, bias: bool) -> None:
        first = nn.Linear(2 * dim, spec.hidden)
        super().__init__(in_channels, out_channels, first=first, bias=bias, tolerance=spec.tolerance)
        self.second = nn.Linear(spec.hidden, in_channels * out_channels)
        self.skip = None
        with torch.no_grad():  # a sum over the input channels, like any linear layer's
            self.second.weight.div_(in_channels**0.5)
            self.second.bias.div_(in_channels**0.5)

    def matrices(self) -> tuple[Tensor, Tensor]:
        shape = (self.in_channels, self.out_channels)
        return self.second.weight.mT.unflatten(1, shape), self.second.bias.view(shape)

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        kernel = pair_network(self.first, self.second, cell).unflatten(-1, (self.in_channels, self.out_channels))
        return self.add_bias(torch.einsum("y,xyio,bciy->bcox", cell.weights, kernel, v))
