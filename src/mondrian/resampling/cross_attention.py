"""Localised cross attention inside a cell: queries from the target points, keys and values from the source points."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.points.tiles import Tiles
from mondrian.quadrature import Cell
from mondrian.resampling.learned import LearnedResampler, ResamplerSpec, squared_distances
from mondrian.support.checks import positive


@dataclass(frozen=True)
class CrossAttention(ResamplerSpec):
    """Softmax attention from points to points inside each cell.

    The heads learn their reach, initially from `reach` to `4 * reach` half sides of the cell in geometric steps. If
    `n_heads` does not divide the channels, their greatest common divisor is the number of heads.

    >>> CrossAttention(n_heads=4).build(2, 32).n_heads
    4
    """

    n_heads: int = 4
    features: int = 8  # per head, of queries and keys
    hidden: int = 32  # of the networks of queries and keys
    reach: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(n_heads=self.n_heads, features=self.features, hidden=self.hidden)
        if not (math.isfinite(self.reach) and self.reach > 0):
            raise ValueError(f"reach={self.reach} must be finite and positive")

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2) -> LearnedResampler:
        return CrossAttentionResampler(self, in_channels, out_channels, dim=dim)


class CrossAttentionResampler(LearnedResampler):
    r"""$u(x) = O \int p(x, y)\, V v(y)\, dy + b$, $\; p(x, y) = e^{s(x,y)} / \int e^{s(x,z)} dz$.

    $$s(x, y) = d^{-1/2}\, Q(x) \cdot K(v(y), y) - |x - y|^2 / 2 \ell^2$$

    in each head, with small networks $Q$ and $K$ and a learned reach $\ell$. $Q$ depends on the target point alone: no
    value is known there. The integrals are quadratures over the source points, so that refining them converges. $p$
    integrates to one: a constant is resampled exactly. In the limit $\ell \to 0$ the output is the value at the nearest
    point. A cell without points gives $b$.
    """

    def __init__(self, spec: CrossAttention, in_channels: int, out_channels: int, *, dim: int) -> None:
        super().__init__(in_channels, out_channels)
        self.n_heads = heads = math.gcd(spec.n_heads, out_channels)
        width = heads * spec.features
        self.query = nn.Sequential(nn.Linear(dim, spec.hidden), nn.GELU(), nn.Linear(spec.hidden, width))
        self.key = nn.Sequential(
            nn.Linear(in_channels + dim, spec.hidden), nn.GELU(), nn.Linear(spec.hidden, width, bias=False)
        )
        self.value = nn.Linear(in_channels, out_channels, bias=False)
        self.out = nn.Linear(out_channels, out_channels)
        steps = torch.linspace(0, math.log(4), heads) if heads > 1 else torch.zeros(1)
        self.log_reach = nn.Parameter(math.log(spec.reach) + steps)

    def queries(self, x: Float[Tensor, "... target axis"]) -> Float[Tensor, "... target head feature"]:
        """$d^{-1/2} Q(x)$."""
        q = self.query(x).unflatten(-1, (self.n_heads, -1))
        return q * q.shape[-1] ** -0.5

    def keys(
        self, v: Float[Tensor, "batch ... source channel_in"], y: Float[Tensor, "... source axis"]
    ) -> Float[Tensor, "batch ... source head feature"]:
        """$K(v(y), y)$."""
        return self.key(torch.cat([v, y.expand(*v.shape[:-1], -1)], dim=-1)).unflatten(-1, (self.n_heads, -1))

    def values(self, v: Float[Tensor, "batch ... source channel_in"]) -> Float[Tensor, "batch ... source head channel"]:
        """$V v(y)$ by head."""
        return self.value(v).unflatten(-1, (self.n_heads, -1))

    def nearness(
        self, x: Float[Tensor, "... target axis"], y: Float[Tensor, "... source axis"]
    ) -> Float[Tensor, "... head target source"]:
        r"""$-|x - y|^2 / 2 \ell^2$ in each head."""
        return squared_distances(x, y)[..., None, :, :] * (-0.5 * torch.exp(-2 * self.log_reach))[:, None, None]

    def definition(
        self,
        v: Float[Tensor, "row source channel_in"],
        y: Float[Tensor, "source axis"],
        weights: Float[Tensor, " source"],
        x: Float[Tensor, "target axis"],
    ) -> Float[Tensor, "row target channel_out"]:
        if not bool((weights > 0).any()):
            return self.out(v.new_zeros(len(v), len(x), self.out_channels))
        score = torch.einsum("xhf,ryhf->rhxy", self.queries(x), self.keys(v, y)) + self.nearness(x, y)
        density = torch.exp(score - score.amax(dim=-1, keepdim=True))
        density = density / (density * weights).sum(dim=-1, keepdim=True)
        return self.out(torch.einsum("y,rhxy,ryhc->rxhc", weights, density, self.values(v)).flatten(2))

    def evaluate_between(
        self, v: Float[Tensor, "batch cell channel_in source"], source: Cell, target: Cell
    ) -> Float[Tensor, "batch cell channel_out target"]:
        rows = v.flatten(0, 1).mT
        k, value = (
            part.transpose(1, 2) for part in (self.keys(rows, source.coordinates), self.values(rows))
        )  # row head source feature
        q = self.queries(target.coordinates).transpose(0, 1).expand(len(rows), -1, -1, -1)
        mask = self.nearness(target.coordinates, source.coordinates) + source.weights.log()
        u = F.scaled_dot_product_attention(q, k, value, attn_mask=mask[None].to(q.dtype), scale=1.0)
        return self.out(u.transpose(1, 2).flatten(2)).mT.unflatten(0, v.shape[:2])

    def evaluate_encode(
        self, v: Float[Tensor, "batch tile slot channel_in"], source: Tiles, target: Cell
    ) -> Float[Tensor, "batch cell channel_out target"]:
        """Products inside each tile; the softmax over a cell combines those of its tiles."""
        k, value = (
            part.transpose(2, 3) for part in (self.keys(v, source.coordinates), self.values(v))
        )  # batch tile head slot feature
        q = self.queries(target.coordinates).transpose(0, 1)  # head target feature
        mask = self.nearness(target.coordinates, source.coordinates) + source.weights.log()[:, None, None, :]
        score = q @ k.mT + mask  # batch tile head target slot
        with torch.no_grad():  # a shift by the largest score keeps the exponentials in range
            top = source.max_by_cell(score.amax(dim=-1)).nan_to_num(neginf=0.0)
        density = torch.exp(score - source.of_cells(top)[..., None])
        sums = source.sum_by_cell(density.to(value.dtype) @ value)  # batch cell head target channel
        measure = source.sum_by_cell(density.sum(dim=-1))[..., None]
        u = sums / torch.where(measure > 0, measure, 1.0)
        return self.out(u.transpose(2, 3).flatten(3)).mT

    def evaluate_decode(
        self, v: Float[Tensor, "batch cell channel_in source"], source: Cell, target: Tiles
    ) -> Float[Tensor, "batch tile slot channel_out"]:
        """With several samples the tiles lie in the head axis, so that one mask serves all samples.

        With one sample, which may be many meshes, they lie in the batch axis: GPU kernels limit the number of heads.
        """
        rows = v.mT
        k, value = (
            target.of_cells(part.transpose(2, 3)) for part in (self.keys(rows, source.coordinates), self.values(rows))
        )  # batch tile head source feature
        q = self.queries(target.coordinates).transpose(1, 2)  # tile head slot feature
        mask = (self.nearness(target.coordinates, source.coordinates) + source.weights.log()).to(q.dtype)
        if len(v) == 1:
            u = F.scaled_dot_product_attention(q, k[0], value[0], attn_mask=mask, scale=1.0)[None]
        else:
            queries = q.flatten(0, 1).expand(len(v), -1, -1, -1)
            u = F.scaled_dot_product_attention(
                queries, k.flatten(1, 2), value.flatten(1, 2), attn_mask=mask.flatten(0, 1)[None], scale=1.0
            ).unflatten(1, (-1, self.n_heads))
        return self.out(u.transpose(2, 3).flatten(3))
