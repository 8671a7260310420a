"""The Galerkin transformer (Cao 2021) in its pure form: blocks of linear attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mondrian.artefact import OperatorModel
from mondrian.grid import Grid
from mondrian.models.baselines.base import BaselineSettings, BaselineSpec, check_heads, mlp, unit_coordinates
from mondrian.support.checks import positive
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Coordinates(Spec):
    """Base of the ways to provide coordinates, from 0 to 1 along each axis."""


@dataclass(frozen=True)
class ConcatCoordinates(Coordinates):
    """The coordinates are additional input channels."""


@dataclass(frozen=True)
class AddCoordinates(Coordinates):
    """A network of the coordinates, shared by all blocks, is added before each block."""


@dataclass(frozen=True)
class GalerkinSpec(BaselineSpec):
    """A Galerkin transformer in `dim` dimensions."""

    hidden_channels: int = 256
    n_heads: int = 4
    dim: int = 2
    position: Coordinates = AddCoordinates()

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(dim=self.dim)
        check_heads(self.hidden_channels, self.n_heads)

    def build(self) -> GalerkinTransformer:
        return GalerkinTransformer(self)


class GalerkinSettings(BaselineSettings, total=False):
    """The fields of `GalerkinSpec`."""

    n_heads: int
    dim: int
    position: Coordinates


def galerkin_transformer(
    in_channels: int, out_channels: int, **settings: Unpack[GalerkinSettings]
) -> GalerkinTransformer:
    """The Galerkin transformer from its settings.

    >>> model = galerkin_transformer(in_channels=2, out_channels=1, hidden_channels=256, n_heads=4, n_layers=4)
    >>> sum(p.numel() for p in model.parameters())
    2236673
    """
    return GalerkinSpec(in_channels, out_channels, **settings).build()


class GalerkinTransformer(OperatorModel):
    r"""Blocks $v \leftarrow v + p$, $v \leftarrow v + Av$, $v \leftarrow v + F(Nv)$ on all points of the grid.

    $A$ is `GalerkinAttention`, $F$ a pointwise network of twice the width, $N$ a layer norm and $p$ what
    `AddCoordinates` adds. Takes `(batch, in_channels, *space)` to `(batch, out_channels, *space)` at
    any resolution; the cost is linear in the number of points.

    >>> model = galerkin_transformer(in_channels=1, out_channels=2, hidden_channels=8, dim=1)
    >>> model(torch.zeros(3, 1, 10)).shape
    torch.Size([3, 2, 10])
    """

    spec: GalerkinSpec

    def __init__(self, spec: GalerkinSpec) -> None:
        super().__init__()
        self.spec = spec
        width, concat = spec.hidden_channels, isinstance(spec.position, ConcatCoordinates)
        self.lift = nn.Linear(spec.in_channels + (spec.dim if concat else 0), width)
        self.position = None if concat else mlp(spec.dim, width, width)
        self.blocks = nn.ModuleList(GalerkinBlock(width, spec.n_heads) for _ in range(spec.n_layers))
        self.projection = mlp(width, width, spec.out_channels)

    def forward(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid | None = None
    ) -> Float[Tensor, "batch out_channels *space"]:
        box = self.spec.box(x, grid, self)
        coordinates = unit_coordinates(x)
        if self.position is None:
            x = torch.cat([x, coordinates], dim=1)
        v = self.lift(x.flatten(2).mT)
        where = 0 if self.position is None else self.position(coordinates[:1].flatten(2).mT)
        for block in self.blocks:
            v = block(v + where)
        return self.projection(v).mT.unflatten(-1, box.points)


class GalerkinBlock(nn.Module):
    """Attention, then a feed-forward network, each with a residual connection."""

    def __init__(self, channels: int, n_heads: int) -> None:
        super().__init__()
        self.attention = GalerkinAttention(channels, n_heads)
        self.norm = nn.LayerNorm(channels)
        self.feed_forward = mlp(channels, 2 * channels, channels)

    def forward(self, v: Float[Tensor, "batch point channel"]) -> Float[Tensor, "batch point channel"]:
        v = v + self.attention(v)
        return v + self.feed_forward(self.norm(v))


class GalerkinAttention(nn.Module):
    r"""Attention without softmax: $(Av)(x) = W q(x) \cdot \int \tilde k(y)\, \tilde v(y)^\top dy$ in each head.

    $\tilde k$ and $\tilde v$ are layer-normalised over the channels of a head, the integral is the mean over the
    points: $Q (\tilde K^\top \tilde V) / n$. With `plain` set the quadratic form $(Q \tilde K^\top) \tilde V / n$
    runs, which is the same.
    """

    def __init__(self, channels: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.plain = False
        self.project = nn.Linear(channels, 3 * channels, bias=False)
        self.key_norm = nn.LayerNorm(channels // n_heads)
        self.value_norm = nn.LayerNorm(channels // n_heads)
        self.out = nn.Linear(channels, channels, bias=False)
        with torch.no_grad():  # initialised as by Cao: close to a small multiple of the identity
            for matrix in self.project.weight.chunk(3):
                nn.init.xavier_uniform_(matrix, gain=0.01)
                matrix += 0.01 * torch.eye(channels)

    def forward(self, v: Float[Tensor, "batch point channel"]) -> Float[Tensor, "batch point channel"]:
        heads = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in self.project(v).chunk(3, dim=-1))
        q, k, u = heads  # batch head point channel
        k, u = self.key_norm(k), self.value_norm(u)
        u = u / v.shape[1]  # before the sum over points, which would overflow in half precision
        mixed = (q @ k.mT) @ u if self.plain else q @ (k.mT @ u)
        return self.out(mixed.transpose(1, 2).flatten(2))
