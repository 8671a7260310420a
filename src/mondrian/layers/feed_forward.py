"""A feed-forward operator on each subdomain as a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from mondrian.decomposition import Lattice
from mondrian.lattice import Rows, Slab
from mondrian.layers.base import LayerContext, LayerSpec
from mondrian.operators import OperatorSpec
from mondrian.quadrature import Cell


@dataclass(frozen=True)
class FeedForward(LayerSpec):
    r"""$v \mapsto I_2[\operatorname{gelu}(I_1 v + b_1)] + b_2$ with an `operator` of its own or that of the model."""

    operator: OperatorSpec | None = None

    on_slabs: ClassVar[bool] = True

    def build(self, context: LayerContext) -> nn.Module:
        operator, width = self.operator or context.operator, context.channels
        return operator.feed_forward(width, width, width, dim=context.dim)

    def apply_to_cells(
        self, branch: nn.Module, u: Float[Tensor, "batch cell channel point"], cell: Cell, lattice: Lattice | Slab
    ) -> Float[Tensor, "batch cell channel point"]:
        result: Tensor = branch(u, cell)
        return result

    def seen_by(self, rows: Rows, context: LayerContext) -> Rows:
        return rows
