"""Position encodings: absolute ones, and functions of the offset between two subdomains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Float, Float64, Int, Shaped
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.decomposition import Lattice
from mondrian.lattice import Rows
from mondrian.polynomials import total_degree
from mondrian.quadrature import Cell
from mondrian.support.spec import Spec

FLOOR = -60.0  # of a bias: weights below exp(-60) change no sum, but denormal numbers would be slow


@dataclass(frozen=True)
class Position(Spec):
    """Base of the position encodings."""


@dataclass(frozen=True)
class LearnedPosition(Position):
    r"""A learned function for each subdomain, added once after the lift: $v_i(x) + p_i(x)$.

    With `degree=0` it is one vector per subdomain, as in the paper's experiments; otherwise a polynomial of that total
    degree on the cell. With `tile` the functions repeat over the lattice (Swin: one for each position in a window), so
    that any number of subdomains works.
    """

    degree: int = 0
    tile: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree < 0 or any(n < 1 for n in self.tile):
            raise ValueError(f"degree={self.degree} must be at least 0 and tile={self.tile} positive")

    def check(self, dim: int) -> None:
        """Raise `ValueError` if the tile has another dimension."""
        if len(self.tile) not in (0, dim):
            raise ValueError(f"tile={self.tile} of a LearnedPosition must have {dim} entries")

    def build(self, channels: int, counts: tuple[int, ...]) -> PositionFunctions:
        return PositionFunctions(self, channels, counts)


class PositionFunctions(nn.Module):
    r"""$(P_i v)(x) = v(x) + \sum_k \theta_{ik} P_k(x)$ with the Legendre products $P_k$ of the cell."""

    def __init__(self, spec: LearnedPosition, channels: int, counts: tuple[int, ...]) -> None:
        super().__init__()
        self.spec = spec
        self.counts = spec.tile or counts
        size = len(total_degree(len(self.counts), spec.degree + 1))
        self.table = nn.Parameter(0.02 * torch.randn(math.prod(self.counts), channels, size))

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, lattice: Lattice | Rows
    ) -> Float[Tensor, "batch cell channel point"]:
        if not self.spec.tile and lattice.counts != self.counts:
            raise ValueError(
                f"subdomains={lattice.counts}, but LearnedPosition has functions for {self.counts}; for others choose "
                "RelativeBias, Gaze, Rotary, or LearnedPosition(tile=...)"
            )
        functions = self.table @ cell.basis(self.spec.degree + 1).mT
        if isinstance(lattice, Lattice) and lattice.counts == self.counts:
            return v + functions
        place = lattice.positions(v.device)
        index = torch.zeros_like(place[:, 0])
        for axis, count in enumerate(self.counts):
            index = index * count + place[:, axis] % count
        return v + functions[index]


@dataclass(frozen=True)
class OffsetPosition(Position):
    r"""Base of the encodings that add a function of the offset to the scores: $S_{ij} + \beta(j - i)$."""

    def build(self, channels: int, n_heads: int, dim: int) -> OffsetBias:
        raise NotImplementedError


class OffsetBias(nn.Module):
    """A function of the offset in subdomains, which need not be an integer; one value per head."""

    def forward(
        self, offsets: Int[Tensor, "row column axis"], reach: tuple[int, ...], rings: tuple[int, ...] = ()
    ) -> Float[Tensor, "head row column"]:
        """The bias for a table of offsets up to `reach`, evaluated once for each distinct offset.

        `rings` has the number of subdomains along each periodic axis that attention spans entirely, 0 for others.
        """
        axes = [torch.arange(-n, n + 1, device=offsets.device) for n in reach]
        different = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(reach))
        index = torch.zeros_like(offsets[..., 0])
        for axis, n in enumerate(reach):
            index = index * (2 * n + 1) + offsets[..., axis] + n
        return self.at(different, rings)[index].permute(2, 0, 1).contiguous()  # as fused GPU kernels require

    def at(self, offsets: Shaped[Tensor, "*place axis"], rings: tuple[int, ...] = ()) -> Float[Tensor, "*place head"]:
        """The values at some offsets; on rings the shorter way round counts."""
        raise NotImplementedError


@dataclass(frozen=True)
class RelativeBias(OffsetPosition):
    r"""A learned function $\beta$ of the offset: a small network on a logarithmic scale.

    It is defined for any number of subdomains. `hidden=0` uses the width of the model.
    """

    hidden: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden < 0:
            raise ValueError(f"hidden={self.hidden} must be at least 0")

    def build(self, channels: int, n_heads: int, dim: int) -> OffsetNetwork:
        return OffsetNetwork(dim, self.hidden or channels, n_heads)


class OffsetNetwork(OffsetBias):
    """The network of `RelativeBias`, one output per head."""

    def __init__(self, dim: int, hidden: int, n_heads: int) -> None:
        super().__init__()
        self.first = nn.Linear(dim, hidden)
        self.second = nn.Linear(hidden, n_heads, bias=False)

    def at(self, offsets: Shaped[Tensor, "*place axis"], rings: tuple[int, ...] = ()) -> Float[Tensor, "*place head"]:
        offset = offsets.to(self.first.weight.dtype)
        return self.second(F.gelu(self.first(offset.sign() * torch.log2(1 + offset.abs()) / 3)))


@dataclass(frozen=True)
class Gaze(OffsetPosition):
    r"""Each head starts by attending to one neighbour: $\beta(d) = -s\,|d - c|^2$ with learned $c$ and $s$.

    Without it attention would first have to learn which subdomains are adjacent. The centres $c$ start at the
    neighbours along the axes, then those across corners, then the first again; the sharpness $s$ starts at
    `sharpness`. Where attention spans a whole periodic axis, $d - c$ is taken the shorter way round. $\beta$ is at
    least `FLOOR`.
    """

    sharpness: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.sharpness < math.inf:
            raise ValueError(f"sharpness={self.sharpness} must be positive and finite")

    def build(self, channels: int, n_heads: int, dim: int) -> GazeBias:
        return GazeBias(self.sharpness, n_heads, dim)


class GazeBias(OffsetBias):
    """The centres and sharpnesses of `Gaze`, one of each per head."""

    def __init__(self, sharpness: float, n_heads: int, dim: int) -> None:
        super().__init__()
        near = sorted(filter(any, product((-1, 0, 1), repeat=dim)), key=lambda offset: sum(map(abs, offset)))
        self.place = nn.Parameter(torch.tensor([near[head % len(near)] for head in range(n_heads)]) * 1.0)
        self.log_sharpness = nn.Parameter(torch.full((n_heads,), math.log(sharpness)))

    def at(self, offsets: Shaped[Tensor, "*place axis"], rings: tuple[int, ...] = ()) -> Float[Tensor, "*place head"]:
        way = offsets.to(self.place.dtype)[..., None, :] - self.place
        if any(rings):
            along = zip(way.unbind(dim=-1), rings, strict=True)
            way = torch.stack([step - n * (step / n).round() if n else step for step, n in along], dim=-1)
        return (-self.log_sharpness.exp() * way.square().sum(dim=-1)).clamp_min(FLOOR)


@dataclass(frozen=True)
class Rotary(Position):
    r"""Rotary encoding of channels: pairs of them turn by an angle proportional to the position of the subdomain.

    The score of two rotated functions depends only on the offset of their subdomains. On a periodic axis the
    frequencies are integer multiples of one turn around the ring.
    """

    base: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.base > 1:
            raise ValueError(f"base={self.base} must be greater than 1")

    def angles(self, pairs: int, lattice: Lattice | Rows, device: torch.device) -> Float64[Tensor, "cell pair"]:
        """The angle of each pair of channels in each cell; pairs left over by the axes do not turn.

        In float64: angles grow with the lattice, and only their value modulo one turn matters.
        """
        dim = len(lattice.counts)
        each = pairs // dim
        if each == 0:
            raise ValueError(f"Rotary needs {2 * dim} channels a head in {dim} dimensions; got {2 * pairs}")
        place = lattice.positions(device).to(torch.float64)
        columns = []
        for axis, (count, ring) in enumerate(zip(lattice.counts, lattice.periodic, strict=True)):
            step = torch.arange(each, dtype=torch.float64, device=device)
            frequencies = 2 * torch.pi / count * (1 + step) if ring else self.base ** (-step / each)
            columns.append(place[:, axis, None] * frequencies)
        angles = torch.cat(columns, dim=1)
        return F.pad(angles, (0, pairs - dim * each))


def rotate(
    u: Float[Tensor, "batch cell head channel point"], angles: Float64[Tensor, "cell pair"]
) -> Float[Tensor, "batch cell head channel point"]:
    """Rotate channel `2j` towards channel `2j + 1` by angle `j` of the cell; an odd last channel stays."""
    pairs = angles.shape[1]
    turning, rest = u[..., : 2 * pairs, :], u[..., 2 * pairs :, :]
    even, odd = turning.unflatten(-2, (pairs, 2)).unbind(dim=-2)
    cos, sin = (part.to(u.dtype)[:, None, :, None] for part in (angles.cos(), angles.sin()))
    turned = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-2).flatten(-3, -2)
    return torch.cat([turned, rest], dim=-2)
