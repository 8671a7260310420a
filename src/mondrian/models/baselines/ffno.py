"""The factorised Fourier neural operator (Tran et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mondrian.artefact import OperatorModel
from mondrian.grid import Grid
from mondrian.models.baselines.base import BaselineSettings, BaselineSpec, mlp
from mondrian.models.baselines.fourier import check_spectrum, crop_domain, fourier_multiply, pad_domain
from mondrian.support.checks import positive


@dataclass(frozen=True)
class FFNOSpec(BaselineSpec):
    """An FFNO that keeps the frequencies 0 to `modes - 1` of each axis.

    `padding` is the part of its length by which an axis that is not periodic is continued.
    """

    hidden_channels: int = 32
    n_layers: int = 5
    modes: tuple[int, ...] = (16, 16)
    padding: float = 0.25
    layer_norm: bool = True
    edge_channels: int = 128  # hidden width of the lift and of the projection

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(edge_channels=self.edge_channels)
        check_spectrum(self.modes, self.padding)

    @property
    def dim(self) -> int:
        return len(self.modes)

    def build(self) -> FFNO:
        return FFNO(self)


class FFNOSettings(BaselineSettings, total=False):
    """The fields of `FFNOSpec`."""

    modes: tuple[int, ...]
    padding: float
    layer_norm: bool
    edge_channels: int


def ffno(in_channels: int, out_channels: int, **settings: Unpack[FFNOSettings]) -> FFNO:
    """FFNO from its settings.

    >>> model = ffno(in_channels=2, out_channels=1, hidden_channels=32, n_layers=5, modes=(16, 16))
    >>> sum(p.numel() for p in model.parameters())
    357825
    """
    return FFNOSpec(in_channels, out_channels, **settings).build()


class FFNO(OperatorModel):
    r"""Factorised FNO: $v_{t+1} = v_t + F_t\bigl(\sum_a K_t^{(a)} v_t\bigr)$ between a pointwise lift and projection.

    $K^{(a)}$ is a convolution along axis $a$ alone, $F$ a pointwise network of twice the width, then a layer norm.
    Takes `(batch, in_channels, *space)` to `(batch, out_channels, *space)` at any resolution.

    >>> model = ffno(in_channels=1, out_channels=1, hidden_channels=4, modes=(4, 4, 4))
    >>> model(torch.zeros(2, 1, 8, 4, 6)).shape
    torch.Size([2, 1, 8, 4, 6])
    """

    spec: FFNOSpec

    def __init__(self, spec: FFNOSpec) -> None:
        super().__init__()
        self.spec = spec
        width = spec.hidden_channels
        self.lift = mlp(spec.in_channels, spec.edge_channels, width)
        self.blocks = nn.ModuleList(FactorizedBlock(width, spec.modes, spec.layer_norm) for _ in range(spec.n_layers))
        self.projection = mlp(width, spec.edge_channels, spec.out_channels)

    def forward(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid | None = None
    ) -> Float[Tensor, "batch out_channels *space"]:
        box = self.spec.box(x, grid, self)
        v = self.lift(x.movedim(1, -1)).movedim(-1, 1)
        v = pad_domain(v, box.periodic, self.spec.padding)
        for block in self.blocks:
            v = block(v)
        v = crop_domain(v, box.points)
        return self.projection(v.movedim(1, -1)).movedim(-1, 1)


class FactorizedBlock(nn.Module):
    r"""$v \mapsto v + N F\bigl(\sum_a K^{(a)} v\bigr)$."""

    def __init__(self, channels: int, modes: tuple[int, ...], layer_norm: bool) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(AxisConvolution(channels, n, axis) for axis, n in enumerate(modes))
        self.feed_forward = mlp(channels, 2 * channels, channels)
        self.norm = nn.LayerNorm(channels) if layer_norm else nn.Identity()

    def forward(self, v: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        mixed = sum(convolution(v) for convolution in self.convolutions)
        assert isinstance(mixed, Tensor)
        return v + self.norm(self.feed_forward(mixed.movedim(1, -1))).movedim(-1, 1)


class AxisConvolution(nn.Module):
    r"""$(K^{(a)} v)(x) = \sum_k e^{2\pi i k x_a} W_k \hat v_k$ with the transform along axis $a$ alone."""

    def __init__(self, channels: int, modes: int, axis: int) -> None:
        super().__init__()
        self.axis = axis
        self.weight = nn.Parameter(torch.randn(channels, channels, modes, 2) * channels**-0.5)

    def forward(self, v: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        lines = v.movedim(2 + self.axis, -1).movedim(1, -2)  # batch, the other axes, channel, points of the axis
        u = fourier_multiply(lines.flatten(0, -3), self.weight).reshape(lines.shape)
        return u.movedim(-2, 1).movedim(-1, 2 + self.axis)
