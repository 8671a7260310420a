"""One block of a transformer over functions."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.attention import AttentionSpec, FunctionAttention, Position
from mondrian.decomposition import Lattice
from mondrian.lattice import Slab, Subdomains
from mondrian.models.norm import NORMS
from mondrian.operators import OperatorSpec
from mondrian.operators.base import is_recorded
from mondrian.quadrature import Cell


class Block(nn.Module):
    r"""Attention and feed-forward, each on the normalised function and added to it: $v + A(Nv)$, then $v + F(Nv)$.

    With `branch_scale` each branch is multiplied by a learned factor per channel, which starts at this value.
    """

    def __init__(
        self,
        channels: int,
        attention: AttentionSpec,
        operator: OperatorSpec,
        *,
        dim: int,
        positions: tuple[Position, ...],
        norm: str = "cell",
        branch_scale: float | None = None,
    ) -> None:
        super().__init__()
        self.attention_norm = NORMS[norm](channels)
        self.attention = FunctionAttention(channels, attention, operator, dim=dim, positions=positions)
        self.feed_forward_norm = NORMS[norm](channels)
        self.feed_forward = operator.feed_forward(channels, channels, channels, dim=dim)
        self.attention_scale = _scale(branch_scale, channels)
        self.feed_forward_scale = _scale(branch_scale, channels)

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, lattice: Lattice | Slab
    ) -> Float[Tensor, "batch cell channel point"]:
        v = _added(v, self.attention(self.attention_norm(v, cell), cell, lattice), self.attention_scale)
        return _added(v, self.feed_forward(self.feed_forward_norm(v, cell), cell), self.feed_forward_scale)


def _scale(start: float | None, channels: int) -> nn.Parameter | None:
    return None if start is None else nn.Parameter(torch.full((channels, 1), start))


def _added(v: Tensor, branch: Tensor, scale: Tensor | None) -> Tensor:
    """The sum; without gradients it reuses the memory of the branch."""
    if scale is not None:
        return torch.addcmul(v, branch, scale)
    return v + branch if is_recorded() or branch.dtype != v.dtype else branch.add_(v)


class BlockStack(nn.ModuleList):
    """A sequence of blocks; with `stagger` every other one works on the decomposition moved by half a subdomain.

    `first` is the number of the first block, for a stack that continues another.
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
