"""The Fourier neural operator (Li et al. 2021), with the layers of the library `neuraloperator`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Unpack

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.artefact import OperatorModel
from mondrian.grid import Grid
from mondrian.models.baselines.base import BaselineSettings, BaselineSpec
from mondrian.models.baselines.fourier import check_spectrum, crop_domain, fourier_multiply, pad_domain
from mondrian.support.checks import positive
from mondrian.support.libraries import library


@dataclass(frozen=True)
class FNOSpec(BaselineSpec):
    """An FNO with `modes` frequencies an axis, counted as in the library: 16 are -8 to 7, and 0 to 8 on the last.

    `padding` is the part of its length by which an axis that is not periodic is continued.
    """

    hidden_channels: int = 32
    modes: tuple[int, ...] = (16, 16)
    padding: float = 0.25
    edge_channels: int = 256  # hidden width of the lift and of the projection

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(edge_channels=self.edge_channels)
        check_spectrum(self.modes, self.padding)

    @property
    def dim(self) -> int:
        return len(self.modes)

    def build(self) -> FNO:
        return FNO(self)


class FNOSettings(BaselineSettings, total=False):
    """The fields of `FNOSpec`."""

    modes: tuple[int, ...]
    padding: float
    edge_channels: int


def fno(in_channels: int, out_channels: int, **settings: Unpack[FNOSettings]) -> FNO:
    """FNO from its settings.

    >>> model = fno(in_channels=2, out_channels=1, hidden_channels=32, modes=(16, 16))
    >>> sum(p.numel() for p in model.parameters())
    1201825
    """
    return FNOSpec(in_channels, out_channels, **settings).build()


class FNO(OperatorModel):
    r"""Fourier neural operator: $v_{t+1} = \sigma(N(K_t v_t + b_t) + W_t v_t)$ between a pointwise lift and projection.

    $K_t$ is a convolution that keeps the lowest frequencies, $N$ a group norm with one group, $\sigma$ GELU (absent
    after the last layer). Takes `(batch, in_channels, *space)` to `(batch, out_channels, *space)` at any resolution.

    >>> model = fno(in_channels=1, out_channels=1, hidden_channels=4, modes=(4,))
    >>> model(torch.zeros(2, 1, 17)).shape
    torch.Size([2, 1, 17])
    """

    spec: FNOSpec

    def __init__(self, spec: FNOSpec) -> None:
        super().__init__()
        self.spec = spec
        width, edge, layers = spec.hidden_channels, spec.edge_channels, neuraloperator()
        self.lift = layers.ChannelMLP(spec.in_channels, width, hidden_channels=edge)
        self.blocks = nn.ModuleList(FourierBlock(width, spec.modes) for _ in range(spec.n_layers))
        self.projection = layers.ChannelMLP(width, spec.out_channels, hidden_channels=edge)

    def forward(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid | None = None
    ) -> Float[Tensor, "batch out_channels *space"]:
        box = self.spec.box(x, grid, self)
        v = pad_domain(self.lift(x), box.periodic, self.spec.padding)
        for index, block in enumerate(self.blocks):
            v = F.gelu(block(v)) if index + 1 < len(self.blocks) else block(v)
        return self.projection(crop_domain(v, box.points))


class FourierBlock(nn.Module):
    r"""$v \mapsto N(Kv + b) + Wv$.

    Weights are those of the library's `SpectralConv`, stored as real numbers: complex parameters lose their
    imaginary part in `model.to(torch.float64)`. The convolution itself is `fourier_multiply`, since the library's
    mixes up the frequencies of an axis with an odd number of points and rounds to single precision.
    """

    def __init__(self, channels: int, modes: tuple[int, ...]) -> None:
        super().__init__()
        layers = neuraloperator()
        convolution = layers.SpectralConv(channels, channels, modes)
        self.weight = nn.Parameter(torch.view_as_real(convolution.weight.to_tensor().detach()).clone())
        self.bias = nn.Parameter(convolution.bias.detach())
        self.norm = nn.GroupNorm(1, channels)
        self.skip = layers.skip_connection(channels, channels, n_dim=len(modes), skip_type="linear")

    def forward(self, v: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        return self.norm(fourier_multiply(v, self.weight) + self.bias) + self.skip(v)


def neuraloperator() -> SimpleNamespace:
    """The layers from `neuraloperator`, an optional dependency."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlp, skips, spectral = (
            library(f"neuralop.layers.{module}", extra="baselines")
            for module in ("channel_mlp", "skip_connections", "spectral_convolution")
        )
    return SimpleNamespace(
        ChannelMLP=mlp.ChannelMLP, SpectralConv=spectral.SpectralConv, skip_connection=skips.skip_connection
    )
