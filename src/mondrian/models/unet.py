"""The U-Net operator: a transformer operator on levels, each half as fine as the previous one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.attention import AttentionSpec, GlobalAttention, NeighborhoodAttention, Position, RelativeBias
from mondrian.decomposition import Decomposition, Lattice
from mondrian.grid import Grid
from mondrian.lattice import Subdomains
from mondrian.layers import BlockStack
from mondrian.models.coarsening import Coarsening, LargerSubdomains
from mondrian.models.transfer import SmoothTransfer, Transfer
from mondrian.models.transformer import TransformerOperator, TransformerSpec
from mondrian.quadrature import Cell
from mondrian.support.checks import positive
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class UNetSpec(TransformerSpec):
    """Everything that defines a `UNetOperator` but its weights: a `TransformerSpec` and its coarser levels.

    Each level has `n_layers` blocks before the next coarser level and as many after it; the coarsest has `n_layers`.
    `attention` is the pattern of the finest level, `coarse_attention` those of the others; by default they have the
    same pattern, except that the coarsest is global. Each level has `widening` times the channels of the finer one.
    """

    attention: AttentionSpec = NeighborhoodAttention(radius=1)
    positions: tuple[Position, ...] = (RelativeBias(),)
    levels: int = 3
    coarsening: Coarsening = LargerSubdomains()
    transfer: Transfer = SmoothTransfer()
    coarse_attention: tuple[AttentionSpec, ...] = ()
    widening: int = 1

    def __post_init__(self) -> None:
        Spec.__post_init__(self)  # types first: the checks of a transformer use the levels
        positive(levels=self.levels, widening=self.widening)
        super().__post_init__()
        if self.coarse_attention and len(self.coarse_attention) != self.levels - 1:
            raise ValueError(
                f"coarse_attention has {len(self.coarse_attention)} patterns; needed {self.levels - 1}, one for each "
                f"but the finest of levels={self.levels}"
            )
        if self.subdomains or self.grid is not None:
            self._check_levels(Lattice(self.counts(), self.default_grid.periodic))

    @property
    def attentions(self) -> tuple[AttentionSpec, ...]:
        """The pattern of each level, finest first."""
        if self.coarse_attention or self.levels == 1:
            return (self.attention, *self.coarse_attention)
        fine = self.attention
        coarsest = GlobalAttention(n_heads=fine.n_heads, spatial_heads=fine.spatial_heads, operator=fine.operator)
        return (*(fine,) * (self.levels - 1), coarsest)

    @property
    def parts(self) -> tuple[int, ...]:
        """Which numbers must divide the points of a cell along each axis, so that all levels can split them."""
        heads = [self._spatial_heads(attention) for attention in self.attentions]
        return tuple(
            math.lcm(*(self.coarsening.divisor(level, parts) for level, parts in enumerate(axis)))
            for axis in zip(*heads, strict=True)
        )

    def build(self) -> UNetOperator:
        return UNetOperator(self)

    def decompose(self, grid: Grid) -> Decomposition:
        decomposition = super().decompose(grid)
        self._check_levels(decomposition.lattice)
        return decomposition

    def _check_levels(self, lattice: Lattice) -> None:
        for number, attention in enumerate(self.attentions):
            if number > 0:
                lattice = Lattice(self.coarsening.subdomains(lattice.counts), lattice.periodic)
            attention.check(lattice)

    def stack(self, level: int, *, first: int = 0) -> BlockStack:
        """The blocks of a level before the coarser one, or, numbered from `first`, those after it."""
        width, attention = self.width(level), self.attentions[level]
        return BlockStack(self.block(index, width, attention) for index in range(first, first + self.n_layers))

    def width(self, level: int) -> int:
        """Channels of a level."""
        return self.hidden_channels * int(self.widening**level)


class UNetOperator(TransformerOperator):
    r"""A transformer operator on levels: $v \leftarrow A\, M[Bv;\; U\, L\, D\, B v]$, where $L$ is the next level.

    $B$ and $A$ are the blocks of the level before and after the coarser one, $D$ and $U$ the `transfer` down and up,
    $M$ merges both. With `LargerSubdomains` a level has $2^d$ times fewer subdomains than the finer one and costs $2^d$
    times less; with neighbourhoods or windows on the fine levels the cost is linear in the number of subdomains,
    although the coarsest level is global.

    Inputs and outputs are those of a `TransformerOperator`; with one level it is one.

    >>> model = UNetSpec(2, 1, hidden_channels=16, n_layers=1, subdomains=(4, 4), levels=2).build()
    >>> model(torch.zeros(1, 2, 32, 32)).shape
    torch.Size([1, 1, 32, 32])
    >>> model(torch.zeros(1, 2, 85, 33)).shape
    torch.Size([1, 1, 85, 33])
    """

    spec: UNetSpec

    def __init__(self, spec: UNetSpec) -> None:
        super().__init__(spec)
        self.coarser = CoarserLevel(spec, 1) if spec.levels > 1 else None
        self.after = spec.stack(0, first=spec.n_layers) if spec.levels > 1 else None

    def _through(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, decomposition: Subdomains
    ) -> Float[Tensor, "batch cell channel point"]:
        if self.coarser is None or self.after is None:
            return super()._through(v, cell, decomposition)
        if not isinstance(decomposition, Decomposition):
            raise ValueError(f"slab={type(decomposition).__name__} has no coarser levels; needed levels=1")
        v = self.blocks(v, cell, decomposition)
        return self.after(self.coarser(v, decomposition, cell), cell, decomposition)


class CoarserLevel(nn.Module):
    r"""The coarser level as seen by the finer one: $M[v;\; U\, A\, L\, B\, D v]$ with the next coarser level $L$.

    $D$ and $U$ work on the cells of the coarser level, with twice as many points along each axis on the fine side.
    """

    def __init__(self, spec: UNetSpec, level: int) -> None:
        super().__init__()
        self.coarsening = spec.coarsening
        self.pieces = spec.coarsening.pieces(level)
        fine, width = spec.width(level - 1), spec.width(level)
        self.down = spec.transfer.build(fine, width, dim=spec.dim)
        self.blocks = spec.stack(level)
        last = level == spec.levels - 1
        self.coarser = None if last else CoarserLevel(spec, level + 1)
        self.after = None if last else spec.stack(level, first=spec.n_layers)
        self.up = spec.transfer.build(width, fine, dim=spec.dim)
        self.merge = Merge(fine)

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], fine: Decomposition, cell: Cell
    ) -> Float[Tensor, "batch cell channel point"]:
        coarse = self.coarsening.coarser(fine)
        shared = Decomposition(fine.grid, coarse.subdomains)  # the fine points in the coarse cells
        given, wanted = (
            Cell.build(points, cell.quadrature, dtype=cell.weights.dtype, device=cell.weights.device)
            for points in (shared.cell_points, coarse.cell_points)
        )
        w = self.blocks(self.down(regrouped(v, fine, shared), given, wanted, self.pieces), wanted, coarse)
        if self.coarser is not None and self.after is not None:
            w = self.after(self.coarser(w, coarse, wanted), wanted, coarse)
        return self.merge(v, regrouped(self.up(w, wanted, given, self.pieces), shared, fine))


class Merge(nn.Module):
    r"""The skip connection $S v + W w + b$ of the fine $v$ and the coarse $w$; $S$ starts as the identity.

    This is a 1x1 map of the concatenation of both.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.both = nn.Linear(2 * channels, channels)
        with torch.no_grad():
            self.both.weight[:, :channels] = torch.eye(channels)

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], w: Float[Tensor, "batch cell channel point"]
    ) -> Float[Tensor, "batch cell channel point"]:
        return (self.both.weight @ torch.cat([v, w], dim=2)) + self.both.bias[:, None]


def regrouped(
    v: Float[Tensor, "batch cell channel point"], now: Decomposition, wanted: Decomposition
) -> Float[Tensor, "batch group channel member"]:
    """The same function on the same points, in the cells of another decomposition."""
    return v if now.subdomains == wanted.subdomains else wanted.cut(now.join(v))
