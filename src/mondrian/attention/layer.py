"""Self-attention between the functions on the cells of a decomposition."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.attention.patterns import AttentionSpec
from mondrian.attention.position import OffsetPosition, Position, Rotary, rotate
from mondrian.decomposition import Lattice
from mondrian.lattice import LatticeRows, Rows, Slab
from mondrian.operators.base import OperatorSpec
from mondrian.operators.derivatives import differentiable_attention
from mondrian.quadrature import Cell


class FunctionAttention(nn.Module):
    r"""Attention with the $L_2$ inner product of functions as score.

    $$(q_i, k_i, v_i) = I_{QKV} u_i, \qquad
    u_i \leftarrow I_O \sum_j \operatorname{softmax}_j\Bigl(\tau \int q_i(y) \cdot k_j(y)\,dy + B_{ij}\Bigr)\, v_j$$

    The integral is the mean over the cell and $\tau = (\text{channels per head})^{-1/2}$. Heads split the channels, the
    cell (each part again has measure one), or both.
    """

    def __init__(
        self,
        channels: int,
        spec: AttentionSpec,
        operator: OperatorSpec,
        *,
        dim: int,
        positions: tuple[Position, ...] = (),
    ) -> None:
        super().__init__()
        if channels % spec.n_heads:
            raise ValueError(f"n_heads={spec.n_heads} does not divide hidden_channels={channels}")
        if spec.spatial_heads and len(spec.spatial_heads) != dim:
            raise ValueError(f"spatial_heads={spec.spatial_heads} must have {dim} entries")
        chosen = spec.operator or operator
        self.spec = spec
        self.plain = False
        self.parts = spec.spatial_heads or (1,) * dim
        self.project = chosen.build(channels, 3 * channels, dim=dim, bias=False)
        self.out = chosen.build(channels, channels, dim=dim)
        heads = spec.n_heads * math.prod(self.parts)
        biases = [p.build(channels, heads, dim) for p in positions if isinstance(p, OffsetPosition)]
        rotations = [p for p in positions if isinstance(p, Rotary)]
        if len(biases) > 1 or len(rotations) > 1:
            raise ValueError(f"positions={positions} has several biases or rotations; needed at most one of each")
        self.bias = biases[0] if biases else None
        self.rotary = rotations[0] if rotations else None

    def forward(
        self, u: Float[Tensor, "batch cell channel point"], cell: Cell, lattice: Lattice | Slab
    ) -> Float[Tensor, "batch cell channel point"]:
        q, k, v, place, scale = self._functions(u, cell, lattice)
        if torch.compiler.is_compiling():  # as an argument it would cost one graph per resolution
            q, scale = q * scale, 1.0
        attend = self.spec.definition if self.plain else self.spec.attend
        with differentiable_attention():
            attended = attend(q, k, v, place, self.bias, scale=scale)
        return self.out(self._merge(attended, u, cell), cell)

    def weights(
        self, u: Float[Tensor, "batch cell channel point"], cell: Cell, lattice: Lattice, rows: Rows | None = None
    ) -> Float[Tensor, "batch head query cell"]:
        """The attention weights of each head, with the cells of `rows` as queries, or all cells."""
        q, k, _, _, scale = self._functions(u, cell, lattice)
        all_rows = LatticeRows.of(lattice).keys
        queries = rows or all_rows
        q = q[:, :, queries.cells(q.device)]
        return self.spec.weights(q, k, LatticeRows(queries, all_rows), self.bias, scale=scale)

    def _functions(
        self, u: Float[Tensor, "batch cell channel point"], cell: Cell, lattice: Lattice | Slab
    ) -> tuple[Tensor, Tensor, Tensor, Lattice | LatticeRows, float]:
        """Queries, keys and values by head, the lattice they live on, and the factor from products to scores."""
        part = cell.split(self.parts)
        q, k, v = self.project(u, cell, parts=3)
        scale = (u.shape[2] // self.spec.n_heads) ** -0.5
        if self.rotary is not None:
            angles = self.rotary.angles(u.shape[2] // self.spec.n_heads // 2, lattice, u.device)
            q, k = (self._rotated(function, angles) for function in (q, k))
        place: Lattice | LatticeRows
        place, (k, v) = lattice.gather(self.spec, k, v) if isinstance(lattice, Slab) else (lattice, (k, v))
        q, k, v = (self._heads(function, cell) for function in (q, k, v))
        # the sum over points becomes a quadrature of the integral
        if part.quadrature.equal_weights:
            scale /= part.size
        else:
            q = q * part.weights.repeat(q.shape[-1] // part.size)
        return q, k, v, place, scale

    def _rotated(self, u: Tensor, angles: Tensor) -> Tensor:
        return rotate(u.unflatten(2, (self.spec.n_heads, -1)), angles).flatten(2, 3)

    def _heads(self, u: Tensor, cell: Cell) -> Float[Tensor, "batch head cell feature"]:
        """The features of a head are `(channel, point)`; the heads are `(channel group, part of the cell)`."""
        dim, heads = len(self.parts), self.spec.n_heads
        pairs = [size for n, p in zip(cell.points, self.parts, strict=True) for size in (p, n // p)]
        split = u.reshape(*u.shape[:2], heads, -1, *pairs)
        outer, inner = [4 + 2 * a for a in range(dim)], [5 + 2 * a for a in range(dim)]
        split = split.permute(0, 2, *outer, 1, 3, *inner)
        return split.reshape(u.shape[0], heads * math.prod(self.parts), u.shape[1], -1)

    def _merge(self, u: Tensor, like: Tensor, cell: Cell) -> Float[Tensor, "batch cell channel point"]:
        """The inverse of `_heads`."""
        dim, heads = len(self.parts), self.spec.n_heads
        inner = [n // p for n, p in zip(cell.points, self.parts, strict=True)]
        split = u.reshape(u.shape[0], heads, *self.parts, u.shape[2], -1, *inner)
        pairs = [axis for a in range(dim) for axis in (2 + a, 4 + dim + a)]
        return split.permute(0, 2 + dim, 1, 3 + dim, *pairs).reshape(like.shape)
