"""From the points of a cell to half as many along each axis and back: three transfers for a U-Net."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.quadrature import Cell
from mondrian.resampling.cross_attention import CrossAttention
from mondrian.resampling.cross_integral import CrossIntegral
from mondrian.resampling.learned import ResamplerSpec
from mondrian.resampling.stencils import lagrange
from mondrian.support.constants import constant
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Transfer(Spec):
    """Describes a map between two sets of points of the same cell; the same spec serves both directions."""

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2) -> TransferLayer:
        raise NotImplementedError


class TransferLayer(nn.Module):
    """Maps `(batch, cell, in_channels, given)` to `(batch, cell, out_channels, wanted)`, cell by cell.

    The function may jump at the cuts that divide the cell into `pieces` along each axis.
    """

    def forward(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Cell, pieces: int = 1
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        raise NotImplementedError


@dataclass(frozen=True)
class SmoothTransfer(Transfer):
    """Down: means over pairs of points. Up: polynomials with these means, of an odd `order`. No parameters.

    Polynomials do not reach across a cut of a finer level, as far as its points allow, unless `across_cuts`.

    >>> layer = SmoothTransfer().build(1, 1, dim=1)
    >>> from mondrian import Midpoint
    >>> fine, coarse = (Cell.build((n,), Midpoint()) for n in (4, 2))
    >>> layer(torch.tensor([[[[1.0, 3.0, 5.0, 7.0]]]]), fine, coarse)
    tensor([[[[2., 6.]]]])
    """

    order: int = 3
    across_cuts: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order < 1 or self.order % 2 == 0:
            raise ValueError(f"order={self.order} must be odd and at least 1: as many points on either side of a mean")

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2) -> SmoothTransferLayer:
        return SmoothTransferLayer(self, in_channels, out_channels)


class SmoothTransferLayer(TransferLayer):
    r"""Down: $w_j = \tfrac12 (v_{2j} + v_{2j+1})$ along each axis. Up: $v_k = 2 \int_{k/2}^{(k+1)/2} p(s)\, ds$.

    $p$ is the polynomial of degree `order - 1` whose means over the nearest `order` points of the same piece (or all of
    them, if there are fewer) are the given values. Both directions keep the mean over a piece exactly. Down after up is
    the identity; up after down is exact for polynomials of that degree and of that order for smooth functions.
    `order=1` repeats each value.

    The output of a finer level may jump at its cuts, some of which lie inside a larger subdomain. `across_cuts` ignores
    them: this is smoother where a piece has few points, but then the model converges only at first order as its points
    are refined. The same holds where staggered blocks create jumps inside the pieces.

    If the numbers of channels differ, a matrix is applied at each point of the coarser side.
    """

    def __init__(self, spec: SmoothTransfer, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.spec = spec
        self.plain = False
        self.mix = None if in_channels == out_channels else nn.Linear(in_channels, out_channels, bias=False)

    def forward(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Cell, pieces: int = 1
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        if given.points == tuple(2 * n for n in wanted.points):
            return self._mixed(self._sampled(v, given, [mean_matrix(n, v.dtype, v.device) for n in wanted.points]))
        if wanted.points == tuple(2 * n for n in given.points):
            parts = [1 if self.spec.across_cuts else math.gcd(pieces, n) for n in given.points]
            mixed = self._mixed(v)  # under autocast its dtype differs from that of its input
            matrices = [
                refinement_matrix(n, self.spec.order, k, mixed.dtype, mixed.device)
                for n, k in zip(given.points, parts, strict=True)
            ]
            return self._sampled(mixed, given, matrices)
        raise ValueError(
            f"wanted has {wanted.points} points a cell, given {given.points}; needed half or twice as many"
        )

    def _sampled(
        self, v: Float[Tensor, "batch cell channel given"], given: Cell, matrices: list[Tensor]
    ) -> Float[Tensor, "batch cell channel wanted"]:
        """Apply the matrix of each axis, one axis after the other; with `plain`, their Kronecker product at once."""
        with torch.autocast(v.device.type, enabled=False):  # half precision would lose digits without saving time
            if self.plain:
                product = torch.ones_like(matrices[0][:1, :1])
                for matrix in matrices:
                    product = torch.kron(product, matrix)
                return v @ product.mT
            u = v.unflatten(3, given.points)
            for axis, matrix in enumerate(matrices):
                u = (u.movedim(3 + axis, -1) @ matrix.mT).movedim(-1, 3 + axis)
            return u.flatten(3)

    def _mixed(self, v: Float[Tensor, "batch cell channel_in point"]) -> Float[Tensor, "batch cell channel_out point"]:
        return v if self.mix is None else self.mix(v.mT).mT


@dataclass(frozen=True)
class CrossAttentionTransfer(Transfer):
    """Cross attention inside each cell: queries at the wanted points, keys and values at the given ones."""

    attention: CrossAttention = CrossAttention()

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2) -> TransferLayer:
        return LearnedTransferLayer(self.attention, None, in_channels, out_channels, dim=dim)


@dataclass(frozen=True)
class OperatorTransfer(Transfer):
    """A subdomain operator from the given to the wanted points; with `skip`, plus a 1x1 map of the smooth transfer."""

    operator: CrossIntegral = CrossIntegral(ridges=8)
    skip: bool = True

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2) -> TransferLayer:
        skip = SmoothTransfer() if self.skip else None
        return LearnedTransferLayer(self.operator, skip, in_channels, out_channels, dim=dim)


class LearnedTransferLayer(TransferLayer):
    r"""$(T v)(x) = (R v)(x) + (S P v)(x)$ with a learned resampler $R$ of the cell.

    $P$ is a `SmoothTransfer` and $S$ a matrix; without `skip` the second term is absent.
    """

    def __init__(
        self, resampler: ResamplerSpec, skip: SmoothTransfer | None, in_channels: int, out_channels: int, *, dim: int
    ) -> None:
        super().__init__()
        self.resampler = resampler.build(in_channels, out_channels, dim=dim)
        self.smooth = None if skip is None else skip.build(in_channels, in_channels, dim=dim)
        self.skip = None if skip is None else nn.Linear(in_channels, out_channels, bias=False)

    def forward(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Cell, pieces: int = 1
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        u = self.resampler.between(v, given, wanted)
        if self.smooth is None or self.skip is None:
            return u
        return u + self.skip(self.smooth(v, given, wanted, pieces).mT).mT


@constant
def mean_matrix(points: int, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "wanted given"]:
    """From `2 * points` values to the means of adjacent pairs."""
    identity = torch.eye(points, dtype=torch.float64, device="cpu")
    return identity.repeat_interleave(2, dim=1).div(2).to(device, dtype)


@constant
def refinement_matrix(
    points: int, order: int, pieces: int, dtype: torch.dtype, device: torch.device
) -> Float[Tensor, "wanted given"]:
    r"""From the means over `points` equal parts of a cell to those over twice as many, piece by piece.

    The integral $U$ from the start of a piece is known at the ends of the parts and interpolated half-way between
    them; the means are its differences.

    >>> 8 * refinement_matrix(4, 3, 1, torch.float64, torch.device("cpu"))[2:4]
    tensor([[ 1.,  8., -1.,  0.],
            [-1.,  8.,  1.,  0.]], dtype=torch.float64)
    """
    kind: dict[str, Any] = {"dtype": torch.float64, "device": "cpu"}
    size = points // pieces
    taps = min(order, size) + 1
    ends = torch.arange(2 * size + 1, **kind) / 2
    first = torch.ceil(ends - taps / 2).clamp(0, size + 1 - taps)
    place = first.long()[:, None] + torch.arange(taps, device="cpu")
    between = torch.zeros(len(ends), size + 1, **kind).scatter(1, place, lagrange(ends - first, taps))
    integral = torch.ones(size + 1, size, **kind).tril(-1)  # at the end of a part: the sum of all up to there
    piece = 2 * (between @ integral).diff(dim=0)
    return torch.kron(torch.eye(pieces, **kind), piece).to(device, dtype)
