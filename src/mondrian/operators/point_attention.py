"""Attention between the points of a cell, as a subdomain operator."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.operators.base import OperatorSpec, SubdomainOperator
from mondrian.operators.derivatives import differentiable_attention
from mondrian.quadrature import Cell
from mondrian.support.checks import positive
from mondrian.support.constants import constant
from mondrian.support.tensors import product_points


@dataclass(frozen=True)
class PointAttention(OperatorSpec):
    """Softmax attention inside each cell, in as many heads as divide both `n_heads` and the channels.

    >>> PointAttention(n_heads=2).build(64, 192, bias=False).n_heads
    2
    """

    n_heads: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(n_heads=self.n_heads)

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        return PointAttentionOperator(self, in_channels, out_channels, dim=dim, bias=bias)

    def feed_forward(self, in_channels: int, hidden_channels: int, out_channels: int, *, dim: int = 2) -> nn.Module:
        return PointAttentionFeedForward(
            self.build(in_channels, hidden_channels, dim=dim), hidden_channels, out_channels
        )


class PointAttentionOperator(SubdomainOperator):
    r"""$(Iv)(x) = \int p(x, y)\, V v(y)\, dy + b$, $\; p(x, y) = e^{s(x,y)} / \int e^{s(x,z)} dz$.

    $$s(x, y) = d^{-1/2}\, Q v(x) \cdot K v(y) + \beta\bigl((x - y)/2\bigr)$$

    in each head, with a small network $\beta$ of the offset. The integrals are the cell's quadrature, so the
    operator is the same at every resolution. It is not linear in $v$.
    """

    linear = False

    def __init__(self, spec: PointAttention, in_channels: int, out_channels: int, *, dim: int, bias: bool) -> None:
        super().__init__(in_channels, out_channels, bias=bias, dim=dim)
        self.n_heads = math.gcd(spec.n_heads, in_channels, out_channels)
        self.query = nn.Linear(in_channels, in_channels, bias=False)
        self.key = nn.Linear(in_channels, in_channels, bias=False)
        self.value = nn.Linear(in_channels, out_channels, bias=False)
        self.offset_bias = nn.Sequential(
            nn.Linear(dim, in_channels), nn.GELU(), nn.Linear(in_channels, self.n_heads, bias=False)
        )

    def heads(self, v: Float[Tensor, "row point channel"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (scaled), keys and values, each `(row, head, point, channel)`."""
        scale = (self.in_channels // self.n_heads) ** -0.5
        projected = (self.query(v) * scale, self.key(v), self.value(v))
        q, k, value = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in projected)
        return q, k, value

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        q, k, value = self.heads(v.flatten(0, 1).mT)
        offset = (cell.coordinates[:, None] - cell.coordinates[None, :]) / 2
        score = torch.einsum("rhxd,rhyd->rhxy", q, k) + self.offset_bias(offset).permute(2, 0, 1)
        density = torch.exp(score - score.amax(dim=-1, keepdim=True))
        density = density / (density * cell.weights).sum(dim=-1, keepdim=True)
        u = torch.einsum("y,rhxy,rhyd->rxhd", cell.weights, density, value).flatten(2)
        return self.add_bias(u.mT.unflatten(0, v.shape[:2]))

    def evaluate(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        q, k, value = self.heads(v.flatten(0, 1).mT)
        bias = offset_table(self.offset_bias, cell) + cell.weights.log()
        with differentiable_attention():
            u = F.scaled_dot_product_attention(q, k, value, attn_mask=bias[None], scale=1.0)
        return self.add_bias(u.transpose(1, 2).flatten(2).mT.unflatten(0, v.shape[:2]))


class PointAttentionFeedForward(nn.Module):
    """Attention between the points of a cell, then a network at each point."""

    def __init__(self, attention: SubdomainOperator, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.attention = attention
        self.first = nn.Linear(hidden_channels, hidden_channels)
        self.second = nn.Linear(hidden_channels, out_channels)

    def forward(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        return self.second(F.gelu(self.first(self.attention(v, cell).mT))).mT


def offset_table(network: nn.Module, cell: Cell) -> Float[Tensor, "head x y"]:
    """A network of the offset `(x - y) / 2` for all pairs, evaluated once per distinct offset."""
    offsets, index = _offsets(cell.points, cell.weights.dtype, cell.weights.device)
    return network(offsets)[index].permute(2, 0, 1).contiguous()  # fused GPU kernels need it contiguous


@constant
def _offsets(
    points: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "offset axis"], Int[Tensor, "x y"]]:
    """All distinct offsets, and the index of the one between each pair of points."""
    reach = [torch.arange(1 - n, n, dtype=torch.float64, device=device) / n for n in points]
    offsets = product_points(reach)
    position = product_points([torch.arange(n, device=device) for n in points])
    index = torch.zeros(len(position), len(position), dtype=torch.long, device=device)
    for axis, n in enumerate(points):
        index = index * (2 * n - 1) + position[:, None, axis] - position[None, :, axis] + n - 1
    return offsets.to(dtype), index
