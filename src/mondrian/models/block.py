"""One block of a transformer over functions."""

from __future__ import annotations

import math
from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor, nn

from mondrian.attention import AttentionSpec, FunctionAttention, Position
from mondrian.decomposition import Lattice
from mondrian.operators import OperatorSpec
from mondrian.quadrature import Cell
from mondrian.strip import Slab, Subdomains

GROUPS = 8


class CellNorm(nn.GroupNorm):
    """Group normalisation with statistics of each cell: over the channels of a group and the points of the cell."""

    def __init__(self, channels: int) -> None:
        super().__init__(math.gcd(GROUPS, channels), channels)

    def forward(self, v: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch cell channel point"]:
        return super().forward(v.flatten(0, 1)).view(v.shape)


class Block(nn.Module):
    r"""Attention and feed-forward, each on the normalised function and added to it: $v + A(Nv)$, then $v + F(Nv)$."""

    def __init__(
        self,
        channels: int,
        attention: AttentionSpec,
        operator: OperatorSpec,
        *,
        dim: int,
        positions: tuple[Position, ...],
    ) -> None:
        super().__init__()
        self.attention_norm = CellNorm(channels)
        self.attention = FunctionAttention(channels, attention, operator, dim=dim, positions=positions)
        self.feed_forward_norm = CellNorm(channels)
        self.feed_forward = operator.feed_forward(channels, channels, channels, dim=dim)

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, lattice: Lattice | Slab
    ) -> Float[Tensor, "batch cell channel point"]:
        v = v + self.attention(self.attention_norm(v), cell, lattice)
        return v + self.feed_forward(self.feed_forward_norm(v), cell)


class BlockStack(nn.ModuleList):
    """Blocks one after the other; with `stagger` every other one on the decomposition moved by half a subdomain.

    `first` is the number of the first block, where a stack goes on after another.
    """

    def __init__(self, blocks: Iterable[Block] = (), *, stagger: bool = False, first: int = 0) -> None:
        super().__init__(blocks)
        self.stagger = stagger
        self.first = first

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, decomposition: Subdomains
    ) -> Float[Tensor, "batch cell channel point"]:
        for index, block in enumerate(self, start=self.first):
            if self.stagger and index % 2:
                moved = decomposition.staggered()
                v = moved.back(block(moved.move(v), cell, moved.lattice))
            else:
                v = block(v, cell, decomposition.lattice)
        return v
