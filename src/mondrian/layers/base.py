"""What a layer of a model is: a residual branch on the functions of the cells, or on the whole field."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from mondrian.attention import AttentionSpec, Position
from mondrian.decomposition import Decomposition, Lattice
from mondrian.lattice import Rows, Slab
from mondrian.operators import OperatorSpec
from mondrian.quadrature import Cell
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class LayerContext:
    """What a model provides to the layers of one block: its width and dimension, and defaults for their settings."""

    channels: int
    dim: int
    operator: OperatorSpec
    attention: AttentionSpec
    positions: tuple[Position, ...] = ()
    norm: str = "cell"
    branch_scale: float | None = None


@dataclass(frozen=True)
class LayerSpec(Spec):
    r"""Describes a layer $v \leftarrow v + s \odot f(Nv)$; `build` makes the branch $f$.

    The normalisation $N$ is one of `NORMS`; without a `norm` it is that of the model. The factors $s$, one per channel,
    exist if the model has a `branch_scale`.

    A branch is a module with `forward(u, cell, lattice)`, where `u` is `(batch, cell, channel, point)`. With
    `whole_domain` it is `forward(u, domain)`, where `u` is the field `(batch, channel, *space)` and `domain` its
    decomposition: such a layer does not depend on the cuts, and staggering does not change it.
    """

    norm: str | None = field(default=None, kw_only=True)

    whole_domain: ClassVar[bool] = False
    on_slabs: ClassVar[bool] = False  # whether the branch can work on a part of the rows (`mondrian.parallel`)

    def build(self, context: LayerContext) -> nn.Module:
        """The branch, with new weights."""
        raise NotImplementedError

    def apply_to_cells(
        self, branch: nn.Module, u: Float[Tensor, "batch cell channel point"], cell: Cell, lattice: Lattice | Slab
    ) -> Float[Tensor, "batch cell channel point"]:
        """The branch on cells; for branches that need less than both arguments."""
        result: Tensor = branch(u, cell, lattice)
        return result

    def apply_to_field(
        self, branch: nn.Module, u: Float[Tensor, "batch channel *space"], domain: Decomposition
    ) -> Float[Tensor, "batch channel *space"]:
        """The branch on the field, for layers with `whole_domain`."""
        result: Tensor = branch(u, domain)
        return result

    def seen_by(self, rows: Rows, context: LayerContext) -> Rows:
        """The rows of cells that the output on `rows` depends on: all, unless a layer knows better."""
        return Rows(rows.lattice, 0, rows.counts[0])

    @property
    def label(self) -> str:
        """The name of its parameters in a block.

        >>> from mondrian.layers import FeedForward
        >>> FeedForward().label
        'feed_forward'
        """
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()
