"""An integral operator from the source points of a cell to its target points."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.points.tiles import Tiles
from mondrian.quadrature import Cell
from mondrian.resampling.learned import LearnedResampler, ResamplerSpec
from mondrian.support.checks import positive


@dataclass(frozen=True)
class CrossIntegral(ResamplerSpec):
    """An integral operator between two sets of points of a cell, with a kernel of `ridges` ridge functions.

    >>> CrossIntegral(ridges=8).build(2, 32).matrices.shape
    torch.Size([9, 2, 32])
    """

    ridges: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(ridges=self.ridges)

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2) -> LearnedResampler:
        return CrossIntegralResampler(self, in_channels, out_channels, dim=dim)


class CrossIntegralResampler(LearnedResampler):
    r"""$u(x) = \int \Bigl[\sum_h g_h(x, y) A_h + A_0\Bigr]^T v(y)\, dy + b$ with ridges $g_h$ of two points.

    $$g_h(x, y) = \operatorname{gelu}(a_h \cdot x + b_h \cdot y + c_h)$$

    The integral is over the part of the cell that belongs to the domain, where the whole cell has measure one. The
    operator is linear in $v$ and depends on that part's measure. A cell without points gives $b$.
    """

    def __init__(self, spec: CrossIntegral, in_channels: int, out_channels: int, *, dim: int) -> None:
        super().__init__(in_channels, out_channels)
        self.wanted_part = nn.Linear(dim, spec.ridges)
        self.given_part = nn.Linear(dim, spec.ridges, bias=False)
        self.matrices = nn.Parameter(torch.randn(spec.ridges + 1, in_channels, out_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        with torch.no_grad():
            self.given_part.weight.mul_(2)  # so that the ridges bend inside the cell
            self.wanted_part.weight.mul_(2)
            self.matrices.mul_(2 / ((spec.ridges + 1) * in_channels) ** 0.5)

    def ridges(
        self, x: Float[Tensor, "... target axis"], y: Float[Tensor, "... source axis"]
    ) -> Float[Tensor, "... target source ridge"]:
        """$g_h(x, y)$ and, last, the constant 1."""
        arguments = self.wanted_part(x)[..., :, None, :] + self.given_part(y)[..., None, :, :]
        return F.pad(F.gelu(arguments), (0, 1), value=1)

    def definition(
        self,
        v: Float[Tensor, "row source channel_in"],
        y: Float[Tensor, "source axis"],
        weights: Float[Tensor, " source"],
        x: Float[Tensor, "target axis"],
    ) -> Float[Tensor, "row target channel_out"]:
        kernel = torch.einsum("xyh,hio->xyio", self.ridges(x, y), self.matrices)
        return torch.einsum("y,xyio,ryi->rxo", weights, kernel, v) + self.bias

    def evaluate_between(
        self, v: Float[Tensor, "batch cell channel_in source"], source: Cell, target: Cell
    ) -> Float[Tensor, "batch cell channel_out target"]:
        ridges = self.ridges(target.coordinates, source.coordinates).permute(1, 2, 0)  # source ridge target
        moments = (v * source.weights) @ ridges.flatten(1)  # batch cell channel (ridge target)
        return self._mix(moments.unflatten(3, (-1, target.size)).transpose(2, 3))

    def evaluate_encode(
        self, v: Float[Tensor, "batch tile slot channel_in"], source: Tiles, target: Cell
    ) -> Float[Tensor, "batch cell channel_out target"]:
        ridges = self.ridges(target.coordinates, source.coordinates) * source.weights[:, None, :, None]
        moments = ridges.permute(0, 3, 1, 2).flatten(1, 2) @ v  # batch tile (ridge target) channel
        return self._mix(source.sum_by_cell(moments).unflatten(2, (-1, target.size)).mT)

    def evaluate_decode(
        self, v: Float[Tensor, "batch cell channel_in source"], source: Cell, target: Tiles
    ) -> Float[Tensor, "batch tile slot channel_out"]:
        """Channels are mixed at the reference points, which are fewer."""
        mixed = torch.einsum("bciy,hio->bcyho", v * source.weights, self.matrices).flatten(2, 3)
        ridges = self.ridges(target.coordinates, source.coordinates)  # tile slot source ridge
        return ridges.flatten(2) @ target.of_cells(mixed) + self.bias

    def _mix(
        self, moments: Float[Tensor, "batch cell ridge channel_in target"]
    ) -> Float[Tensor, "batch cell channel_out target"]:
        return self.matrices.flatten(0, 1).mT @ moments.flatten(2, 3) + self.bias[:, None]
