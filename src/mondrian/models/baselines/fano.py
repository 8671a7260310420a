"""The Fourier attention neural operator (Calvello et al. 2024): attention between functions on patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.artefact import OperatorModel
from mondrian.decomposition import Decomposition
from mondrian.grid import Grid
from mondrian.models.baselines.base import BaselineSettings, BaselineSpec, check_heads, mlp, unit_coordinates
from mondrian.models.baselines.fourier import fourier_multiply
from mondrian.support.checks import positive


@dataclass(frozen=True)
class FANOSpec(BaselineSpec):
    """A FANO with `patches` along each axis; queries, keys and values see `modes` frequencies an axis of a patch.

    Frequencies are counted as in FNO: 6 are -3 to 2, and 0 to 3 along the last axis.
    """

    n_heads: int = 4
    patches: tuple[int, ...] = (4, 4)
    modes: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(modes=self.modes)
        check_heads(self.hidden_channels, self.n_heads)
        if not self.patches or any(n < 1 for n in self.patches):
            raise ValueError(f"patches={self.patches} must hold a number of at least 1 for each axis")

    @property
    def dim(self) -> int:
        return len(self.patches)

    def build(self) -> FANO:
        return FANO(self)


class FANOSettings(BaselineSettings, total=False):
    """The fields of `FANOSpec`."""

    n_heads: int
    patches: tuple[int, ...]
    modes: int


def fano(in_channels: int, out_channels: int, **settings: Unpack[FANOSettings]) -> FANO:
    """FANO from its settings.

    >>> model = fano(in_channels=2, out_channels=1, hidden_channels=16, patches=(2, 2))
    >>> model(torch.zeros(1, 2, 16, 24)).shape
    torch.Size([1, 1, 16, 24])
    """
    return FANOSpec(in_channels, out_channels, **settings).build()


class FANO(OperatorModel):
    r"""Blocks $v_i \leftarrow v_i + (Av)_i$ and $v_i \leftarrow v_i + F(Nv_i)$ on the patches of a function.

    $A$ is `PatchAttention` of the normalised function, $F$ a pointwise network and $N$ a pointwise layer norm. The
    coordinates are further channels of the input. Takes `(batch, in_channels, *space)` to
    `(batch, out_channels, *space)` at any resolution that the patches divide.

    >>> fano(in_channels=1, out_channels=1, hidden_channels=8, patches=(3,))(torch.zeros(1, 1, 8))
    Traceback (most recent call last):
    ...
    ValueError: x has (8,) points; needed a multiple of patches=(3,) along each axis
    """

    spec: FANOSpec

    def __init__(self, spec: FANOSpec) -> None:
        super().__init__()
        self.spec = spec
        width = spec.hidden_channels
        self.lift = nn.Linear(spec.in_channels + spec.dim, width)
        self.blocks = nn.ModuleList(PatchBlock(width, spec.n_heads, spec.modes, spec.dim) for _ in range(spec.n_layers))
        self.projection = mlp(width, width, spec.out_channels)

    def forward(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid | None = None
    ) -> Float[Tensor, "batch out_channels *space"]:
        box, patches = self.spec.box(x, grid, self), self.spec.patches
        if any(n % count for n, count in zip(box.points, patches, strict=True)):
            raise ValueError(f"x has {box.points} points; needed a multiple of patches={patches} along each axis")
        decomposition = Decomposition(box, patches)
        v = self.lift(torch.cat([x, unit_coordinates(x)], dim=1).movedim(1, -1)).movedim(-1, 1)
        v = decomposition.cut(v)
        for block in self.blocks:
            v = block(v, decomposition.cell_points)
        return decomposition.join(self.projection(v.mT).mT)


class PatchBlock(nn.Module):
    """Attention and feed-forward, each on the normalised function and added to it."""

    def __init__(self, channels: int, n_heads: int, modes: int, dim: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(channels)
        self.attention = PatchAttention(channels, n_heads, modes, dim)
        self.feed_forward_norm = nn.LayerNorm(channels)
        self.feed_forward = mlp(channels, 2 * channels, channels)

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], points: tuple[int, ...]
    ) -> Float[Tensor, "batch cell channel point"]:
        v = v + self.attention(self.attention_norm(v.mT).mT, points)
        return v + self.feed_forward(self.feed_forward_norm(v.mT)).mT


class PatchAttention(nn.Module):
    r"""Attention with operators for queries, keys and values; the score is the $L_2$ inner product of patches.

    $$(Av)_i(x) = W \sum_j \operatorname{softmax}_j\Bigl(d^{-1/2} \int q_i(y) \cdot k_j(y)\,dy\Bigr)\, u_j(x), \qquad
    (q_i, k_i, u_i) = S v_i$$

    $S$ is a convolution on the patch, closed to a ring, given by its Fourier coefficients; $d$ is the number of
    channels a head, $W$ a matrix. A patch has unit measure, so the integral is the mean over its `points`. With
    `plain` set scores, softmax and sum are computed one after the other.
    """

    def __init__(self, channels: int, n_heads: int, modes: int, dim: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.plain = False
        shape = (channels, 3 * channels, *(modes,) * (dim - 1), modes // 2 + 1, 2)
        self.weight = nn.Parameter(torch.randn(shape) * channels**-0.5)
        self.out = nn.Linear(channels, channels)

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], points: tuple[int, ...]
    ) -> Float[Tensor, "batch cell channel point"]:
        q, k, u = self.functions(v, points)
        if self.plain:
            mixed = torch.einsum("bhij,bhjcx->bhicx", self.scores(q, k).softmax(dim=-1), u)
        else:
            measure = q.shape[-2] ** -0.5 / q.shape[-1]  # in q, not in scale: a scale recompiles for each resolution
            q, k, u = ((q * measure).flatten(3), k.flatten(3), u.flatten(3))
            mixed = F.scaled_dot_product_attention(q, k, u, scale=1.0)
        return self.out(mixed.transpose(1, 2).reshape(v.shape).mT).mT

    def functions(
        self, v: Float[Tensor, "batch cell channel point"], points: tuple[int, ...]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, each `(batch, head, cell, channel, point)`."""
        patches = v.flatten(0, 1).unflatten(-1, points)
        parts = fourier_multiply(patches, self.weight).reshape(*v.shape[:2], 3, self.n_heads, -1, v.shape[-1])
        q, k, u = parts.transpose(1, 3).unbind(dim=2)
        return q, k, u

    def scores(
        self, q: Float[Tensor, "batch head cell channel point"], k: Float[Tensor, "batch head cell channel point"]
    ) -> Float[Tensor, "batch head cell cell"]:
        r"""$d^{-1/2} \int q_i \cdot k_j$ for all pairs of patches."""
        return torch.einsum("bhicx,bhjcx->bhij", q, k) * (q.shape[-2] ** -0.5 / q.shape[-1])
