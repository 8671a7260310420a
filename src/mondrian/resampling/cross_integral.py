"""An integral operator from the given points of a cell to the wanted ones."""

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
    """An integral operator between two sets of points of a cell, its kernel made of `ridges` functions.

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

    The integral is over the part of the cell that belongs to the domain, and the measure of the whole cell is one:
    linear in $v$, and it knows how much of the cell there is. A cell without points gives $b$.
    """

    def __init__(self, spec: CrossIntegral, in_channels: int, out_channels: int, *, dim: int) -> None:
        super().__init__(in_channels, out_channels)
        self.wanted_part = nn.Linear(dim, spec.ridges)
        self.given_part = nn.Linear(dim, spec.ridges, bias=False)
        self.matrices = nn.Parameter(torch.randn(spec.ridges + 1, in_channels, out_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        with torch.no_grad():
            self.given_part.weight.mul_(2)  # ridges that bend inside the cell
            self.wanted_part.weight.mul_(2)
            self.matrices.mul_(2 / ((spec.ridges + 1) * in_channels) ** 0.5)

    def ridges(
        self, x: Float[Tensor, "... wanted axis"], y: Float[Tensor, "... given axis"]
    ) -> Float[Tensor, "... wanted given ridge"]:
        """$g_h(x, y)$ and, last, the constant 1."""
        arguments = self.wanted_part(x)[..., :, None, :] + self.given_part(y)[..., None, :, :]
        return F.pad(F.gelu(arguments), (0, 1), value=1)

    def definition(
        self,
        v: Float[Tensor, "row given channel_in"],
        y: Float[Tensor, "given axis"],
        weights: Float[Tensor, " given"],
        x: Float[Tensor, "wanted axis"],
    ) -> Float[Tensor, "row wanted channel_out"]:
        kernel = torch.einsum("xyh,hio->xyio", self.ridges(x, y), self.matrices)
        return torch.einsum("y,xyio,ryi->rxo", weights, kernel, v) + self.bias

    def evaluate_between(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Cell
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        ridges = self.ridges(wanted.coordinates, given.coordinates).permute(1, 2, 0)  # given ridge wanted
        moments = (v * given.weights) @ ridges.flatten(1)  # batch cell channel (ridge wanted)
        return self._mix(moments.unflatten(3, (-1, wanted.size)).transpose(2, 3))

    def evaluate_encode(
        self, v: Float[Tensor, "batch tile slot channel_in"], given: Tiles, wanted: Cell
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        ridges = self.ridges(wanted.coordinates, given.coordinates) * given.weights[:, None, :, None]
        moments = ridges.permute(0, 3, 1, 2).flatten(1, 2) @ v  # batch tile (ridge wanted) channel
        return self._mix(given.sum_by_cell(moments).unflatten(2, (-1, wanted.size)).mT)

    def evaluate_decode(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Tiles
    ) -> Float[Tensor, "batch tile slot channel_out"]:
        """Channels are mixed on the reference points, of which there are fewer."""
        mixed = torch.einsum("bciy,hio->bcyho", v * given.weights, self.matrices).flatten(2, 3)
        ridges = self.ridges(wanted.coordinates, given.coordinates)  # tile slot given ridge
        return ridges.flatten(2) @ wanted.of_cells(mixed) + self.bias

    def _mix(
        self, moments: Float[Tensor, "batch cell ridge channel_in wanted"]
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        return self.matrices.flatten(0, 1).mT @ moments.flatten(2, 3) + self.bias[:, None]
