"""FactFormer (Li, Shu and Farimani 2023): attention factorised over the axes of the grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mondrian.artefact import OperatorModel
from mondrian.grid import Grid
from mondrian.models.baselines.base import BaselineSettings, BaselineSpec, check_heads, fractions, mlp
from mondrian.models.baselines.updown import Down, Up
from mondrian.support.checks import positive


@dataclass(frozen=True)
class FactFormerSpec(BaselineSpec):
    """A FactFormer in `dim` dimensions.

    With a `resolution` (even numbers of points) learned blocks halve the grid before the attention and double it
    after: faster, and tied to that resolution. Without it any resolution will do.
    """

    n_heads: int = 4
    dim: int = 2
    resolution: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(dim=self.dim)
        check_heads(self.hidden_channels, self.n_heads)
        if self.hidden_channels < 2 * self.n_heads:
            raise ValueError(
                f"hidden_channels={self.hidden_channels} leaves n_heads={self.n_heads} without a pair of channels "
                "to turn; needed at least 2 channels a head"
            )
        if self.resolution and len(self.resolution) != self.dim:
            raise ValueError(f"resolution={self.resolution} has {len(self.resolution)} axes; needed dim={self.dim}")
        if any(n < 2 or n % 2 for n in self.resolution):
            raise ValueError(f"resolution={self.resolution} must hold even numbers: the down block halves them")

    def build(self) -> FactFormer:
        return FactFormer(self)


class FactFormerSettings(BaselineSettings, total=False):
    """The fields of `FactFormerSpec`."""

    n_heads: int
    dim: int
    resolution: tuple[int, ...]


def factformer(in_channels: int, out_channels: int, **settings: Unpack[FactFormerSettings]) -> FactFormer:
    """FactFormer from its settings.

    >>> model = factformer(in_channels=2, out_channels=1, hidden_channels=64, n_heads=4, n_layers=4)
    >>> model(torch.zeros(1, 2, 24, 16)).shape
    torch.Size([1, 1, 24, 16])
    """
    return FactFormerSpec(in_channels, out_channels, **settings).build()


class FactFormer(OperatorModel):
    r"""Blocks $v \leftarrow v + A(Nv)$, $v \leftarrow v + F(Nv)$ with `AxialAttention` $A$ and a pointwise network $F$.

    Takes `(batch, in_channels, *space)` to `(batch, out_channels, *space)`.

    >>> model = factformer(in_channels=1, out_channels=1, hidden_channels=8, dim=1, resolution=(16,))
    >>> model(torch.zeros(1, 1, 32))
    Traceback (most recent call last):
    ...
    ValueError: x has (32,) points; its learned down- and upsampling fixes this model to resolution=(16,)
    """

    spec: FactFormerSpec

    def __init__(self, spec: FactFormerSpec) -> None:
        super().__init__()
        self.spec = spec
        width, dim = spec.hidden_channels, spec.dim
        self.lift = nn.Linear(spec.in_channels, width)
        self.down = Down(width, dim) if spec.resolution else None
        self.blocks = nn.ModuleList(AxialBlock(width, spec.n_heads, dim) for _ in range(spec.n_layers))
        self.up = Up(width, dim) if spec.resolution else None
        self.projection = mlp(width, width, spec.out_channels)

    def forward(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid | None = None
    ) -> Float[Tensor, "batch out_channels *space"]:
        box = self.spec.box(x, grid, self)
        if self.spec.resolution and box.points != self.spec.resolution:
            raise ValueError(
                f"x has {box.points} points; its learned down- and upsampling fixes this model to "
                f"resolution={self.spec.resolution}"
            )
        fine = self.lift(x.movedim(1, -1))
        v = fine if self.down is None else self.down(fine.movedim(-1, 1), box.periodic).movedim(1, -1)
        for block in self.blocks:
            v = block(v, box.periodic)
        if self.up is not None:
            v = fine + self.up(v.movedim(-1, 1), box.periodic).movedim(1, -1)
        return self.projection(v).movedim(-1, 1)


class AxialBlock(nn.Module):
    """Attention and feed-forward, each on the normalised function and added to it."""

    def __init__(self, channels: int, n_heads: int, dim: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(channels)
        self.attention = AxialAttention(channels, n_heads, dim)
        self.feed_forward_norm = nn.LayerNorm(channels)
        self.feed_forward = mlp(channels, 2 * channels, channels)

    def forward(
        self, v: Float[Tensor, "batch *space channel"], periodic: tuple[bool, ...]
    ) -> Float[Tensor, "batch *space channel"]:
        v = v + self.attention(self.attention_norm(v), periodic)
        return v + self.feed_forward(self.feed_forward_norm(v))


class AxialAttention(nn.Module):
    r"""An integral whose kernel is a product over the axes, computed from the function itself.

    $$(Av)(x) = W N \int \prod_a \kappa_a(x_a, y_a)\, V v(y)\, dy, \qquad
    \kappa_a(s, t) = d^{-1/2}\, R_s q_a(s) \cdot R_t k_a(t)$$

    Queries and keys of axis $a$ come from a function of that coordinate alone: a network of the mean of a linear map
    of $v$ over all other axes. $R_s$ turns pairs of channels by angles proportional to the coordinate, $N$ is a group
    norm with a group for each of the heads of $d$ channels. One axis after the other is integrated; with `plain` set
    the kernel is one matrix over all pairs of points, which is the same.
    """

    def __init__(self, channels: int, n_heads: int, dim: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.plain = False
        self.value = nn.Linear(channels, channels, bias=False)
        self.kernels = nn.ModuleList(AxisKernel(channels, n_heads, axis) for axis in range(dim))
        self.norm = nn.GroupNorm(n_heads, channels)
        self.out = nn.Linear(channels, channels)

    def forward(
        self, v: Float[Tensor, "batch *space channel"], periodic: tuple[bool, ...]
    ) -> Float[Tensor, "batch *space channel"]:
        kernels = [kernel(v, ring) for kernel, ring in zip(self.kernels, periodic, strict=True)]
        u = self.value(v).unflatten(-1, (self.n_heads, -1)).movedim(-2, 1)  # batch head *space channel
        u = integrate_whole(u, kernels) if self.plain else integrate_axes(u, kernels)
        u = self.norm(u.movedim(-1, 2).flatten(1, 2))  # batch (head channel) *space
        return self.out(u.movedim(1, -1))


class AxisKernel(nn.Module):
    r"""$\kappa_a(s, t)$ at all pairs of points of axis $a$."""

    def __init__(self, channels: int, n_heads: int, axis: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.axis = axis
        self.reduce = nn.Linear(channels, channels, bias=False)
        self.norm = nn.LayerNorm(channels)
        self.network = mlp(channels, channels, channels)
        self.project = nn.Linear(channels, 2 * channels, bias=False)

    def forward(self, v: Float[Tensor, "batch *space channel"], ring: bool) -> Float[Tensor, "batch head row column"]:
        line = self.reduce(v).movedim(1 + self.axis, 1).flatten(2, -2).mean(dim=2) if v.ndim > 3 else self.reduce(v)
        function = self.network(self.norm(line))
        heads = (part.unflatten(-1, (self.n_heads, -1)) for part in self.project(function).chunk(2, dim=-1))
        q, k = (turn(part.transpose(1, 2), ring) for part in heads)  # batch head point channel
        return q @ k.mT * q.shape[-1] ** -0.5


def turn(u: Float[Tensor, "batch head point channel"], ring: bool) -> Float[Tensor, "batch head point channel"]:
    r"""Rotary encoding: turn pair $j$ of channels by the angle $\omega_j s$ at the coordinate $s \in [0, 1]$.

    So the product of two turned functions depends on the distance of their points. On a ring the frequencies are
    whole turns, $\omega_j = 2\pi(j + 1)$, elsewhere $\omega_j = 64 \cdot 10^{-4j/J}$. A last odd channel stays.
    """
    pairs = u.shape[-1] // 2
    step = torch.arange(pairs, dtype=torch.float64, device=u.device)
    frequencies = 2 * torch.pi * (step + 1) if ring else 64 * 10.0 ** (-4 * step / pairs)
    angles = fractions(u.shape[-2], device=u.device)[:, None] * frequencies
    cos, sin = angles.cos().to(u.dtype), angles.sin().to(u.dtype)
    first, second, rest = u.split([pairs, pairs, u.shape[-1] - 2 * pairs], dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos, rest], dim=-1)


def integrate_axes(
    u: Float[Tensor, "batch head *space channel"], kernels: list[Tensor]
) -> Float[Tensor, "batch head *space channel"]:
    """Integrate along one axis after the other, by means over the points."""
    for axis, kernel in enumerate(kernels):
        lines = u.movedim(2 + axis, 2)
        mixed = (kernel @ lines.flatten(3)) / kernel.shape[-1]
        u = mixed.reshape(lines.shape).movedim(2, 2 + axis)
    return u


def integrate_whole(
    u: Float[Tensor, "batch head *space channel"], kernels: list[Tensor]
) -> Float[Tensor, "batch head *space channel"]:
    """The same with the product of the kernels as one matrix of all pairs of points."""
    whole = kernels[0]
    for kernel in kernels[1:]:
        product = whole[..., :, None, :, None] * kernel[..., None, :, None, :]
        whole = product.flatten(-2).flatten(-3, -2)
    space = u.shape[2:-1]
    return (whole @ u.flatten(2, -2) / math.prod(space)).unflatten(2, space)
