"""A box cut into equal subdomains: the cells, the lattice they form, and the staggered decomposition."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from mondrian.grid import Grid
from mondrian.support.tensors import product_points


@dataclass(frozen=True)
class Lattice:
    """The lattice of the cells: their number along each axis, and which axes are periodic.

    >>> Lattice(counts=(4,), periodic=(True,)).neighbours(1)
    [[0, 1, 3], [0, 1, 2], [1, 2, 3], [0, 2, 3]]
    """

    counts: tuple[int, ...]
    periodic: tuple[bool, ...]

    @property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.counts)

    def positions(self, device: torch.device | None = None) -> Int[Tensor, "cell axis"]:
        """The position of each cell, counted in cells along each axis."""
        return product_points([torch.arange(n, device=device) for n in self.counts])

    def offsets(self, device: torch.device | None = None) -> Int[Tensor, "cell cell axis"]:
        """The offset from the first cell to the second, the shorter one on a periodic axis.

        On a ring of `n` cells it lies in `-n//2 ... (n-1)//2` and depends on the difference only.
        """
        position = self.positions(device)
        return self.between(position, position)

    def between(
        self, first: Int[Tensor, "first axis"], second: Int[Tensor, "second axis"]
    ) -> Int[Tensor, "first second axis"]:
        """The offsets from the first positions to the second ones, the shorter ones on a periodic axis."""
        offset = second[None, :, :] - first[:, None, :]
        for axis, (count, ring) in enumerate(zip(self.counts, self.periodic, strict=True)):
            if ring:
                offset[..., axis] = shorter_offset(offset[..., axis], count)
        return offset

    @property
    def reach(self) -> tuple[int, ...]:
        """The largest offset along each axis."""
        return tuple(n // 2 if ring else n - 1 for n, ring in zip(self.counts, self.periodic, strict=True))

    def near(self, radius: int, device: torch.device | None = None) -> Bool[Tensor, "cell cell"]:
        """Whether two cells lie within `radius` cells of each other along every axis."""
        return self.offsets(device).abs().amax(dim=-1) <= radius

    def neighbours(self, radius: int) -> list[list[int]]:
        """For each cell the cells within `radius`, itself included, in ascending order."""
        return [row.nonzero().flatten().tolist() for row in self.near(radius)]


def shorter_offset(offset: Shaped[Tensor, "*shape"], count: int) -> Shaped[Tensor, "*shape"]:
    """An offset on a ring of `count` cells, by the shorter way round.

    >>> shorter_offset(torch.tensor([1, 3, 5]), 6)
    tensor([ 1, -3, -1])
    """
    half = count // 2
    return (offset + half) % count - half


@dataclass(frozen=True)
class Decomposition:
    r"""A grid cut into equal subdomains $\Omega_i$; functions on all of them live on one reference cell.

    `cut` takes `(batch, channel, *space)` to `(batch, cell, channel, point)`; `join` is its inverse. Cells and
    the points of a cell are flattened in axis order.

    >>> halves = Decomposition(Grid(extent=(1.0,), points=(4,)), subdomains=(2,))
    >>> halves.cut(torch.arange(4.0).reshape(1, 1, 4))
    tensor([[[[0., 1.]],
    <BLANKLINE>
             [[2., 3.]]]])
    """

    grid: Grid
    subdomains: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "subdomains", tuple(self.subdomains))
        if len(self.subdomains) != self.grid.dim:
            raise ValueError(
                f"subdomains={self.subdomains} has {len(self.subdomains)} axes; the grid has {self.grid.dim}"
            )
        if any(isinstance(count, bool | float) or count < 1 for count in self.subdomains):
            raise ValueError(f"subdomains={self.subdomains} must hold whole numbers of at least 1")
        self.grid.spacing  # noqa: B018 -- a grid without points says so here
        if not self.grid.is_cell_centred:
            raise ValueError(f"grid has ends={self.grid.ends}; needed cell-centred points, see mondrian.resampling")
        if any(n % count for n, count in zip(self.grid.points, self.subdomains, strict=True)):
            raise ValueError(
                f"subdomains={self.subdomains} do not divide the points={self.grid.points} of the grid; "
                "needed a whole number of points per subdomain along each axis"
            )

    @staticmethod
    def by_size(grid: Grid, size: tuple[float, ...]) -> Decomposition:
        """Cut into subdomains of a physical size, which must divide the extent."""
        return Decomposition(grid, counts_by_size(grid, size))

    @property
    def lattice(self) -> Lattice:
        """The arrangement of the cells."""
        return Lattice(self.subdomains, self.grid.periodic)

    @property
    def cell_points(self) -> tuple[int, ...]:
        """Points of a cell along each axis."""
        return tuple(n // count for n, count in zip(self.grid.points, self.subdomains, strict=True))

    @property
    def size(self) -> tuple[float, ...]:
        """Physical size of a subdomain."""
        return tuple(length / count for length, count in zip(self.grid.extent, self.subdomains, strict=True))

    def cut(self, u: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch cell channel point"]:
        """The restrictions of a function to the subdomains."""
        self._check(u)
        return cut(u, self.subdomains)

    def join(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch channel *space"]:
        """The function with these restrictions: the sum of their extensions by zero."""
        if (cells.shape[1], cells.shape[3]) != (self.lattice.size, math.prod(self.cell_points)):
            raise ValueError(
                f"cells has shape {tuple(cells.shape)}; needed {self.lattice.size} cells of {self.cell_points} points"
            )
        return join(cells, self.subdomains, self.cell_points)

    def shift(
        self, u: Float[Tensor, "batch channel *space"], amount: tuple[float, ...]
    ) -> Float[Tensor, "batch channel *space"]:
        """Move a function cyclically by a physical amount, a whole number of points along each axis."""
        self._check(u)
        if len(amount) != self.grid.dim or not all(math.isfinite(length) for length in amount):
            raise ValueError(f"amount={amount} must hold {self.grid.dim} finite lengths")
        steps = [length / spacing for length, spacing in zip(amount, self.grid.spacing, strict=True)]
        if any(abs(step - round(step)) > 1e-6 for step in steps):
            raise ValueError(f"amount={amount} must be a whole number of spacings, {self.grid.spacing}")
        return torch.roll(u, [round(step) for step in steps], dims=list(range(2, u.ndim)))

    def staggered(self) -> StaggeredDecomposition:
        """The decomposition shifted by half a subdomain along every axis."""
        return StaggeredDecomposition(self)

    def _check(self, u: Tensor) -> None:
        if tuple(u.shape[2:]) != self.grid.points:
            raise ValueError(f"u has shape {tuple(u.shape)}; needed (batch, channel, *{self.grid.points})")


@dataclass(frozen=True)
class StaggeredDecomposition:
    r"""A decomposition shifted by half a subdomain, so that every interface becomes an interior.

    On a periodic axis the cells shift round the ring. On another axis there is one more cell; the two at the walls
    are filled up with the mirror image of the function, $u(-x) = u(x)$, so that opposite sides never meet. `back`
    drops the mirror images.

    Points move to points: with an odd number of points per cell the shift is half a spacing less than half a subdomain.
    Nothing is interpolated, and `back(move(u)) == u` at every resolution.
    """

    base: Decomposition

    @property
    def lattice(self) -> Lattice:
        """The arrangement of the moved cells."""
        rings = self.base.grid.periodic
        counts = tuple(n if ring else n + 1 for n, ring in zip(self.base.subdomains, rings, strict=True))
        return Lattice(counts, rings)

    def move(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch moved channel point"]:
        """From the cells of the base to the moved cells."""
        u = self.base.join(cells)
        for axis, (points, ring) in enumerate(zip(self.base.cell_points, self.base.grid.periodic, strict=True)):
            u = move_axis(u, axis, points, ring=ring)
        return cut(u, self.lattice.counts)

    def back(self, cells: Float[Tensor, "batch moved channel point"]) -> Float[Tensor, "batch cell channel point"]:
        """From the moved cells to the cells of the base."""
        u = join(cells, self.lattice.counts, self.base.cell_points)
        for axis, (points, ring) in enumerate(zip(self.base.cell_points, self.base.grid.periodic, strict=True)):
            u = back_axis(u, axis, points, ring=ring)
        return self.base.cut(u)


def move_axis(
    u: Float[Tensor, "batch channel *space"], axis: int, points: int, *, ring: bool
) -> Float[Tensor, "batch channel *moved"]:
    """Shift a function by half a cell of `points` points along one axis: round a ring, or into mirror images."""
    dim, half = axis + 2, points // 2
    if ring:
        return torch.roll(u, -half, dims=dim)
    start, end = u.narrow(dim, 0, points - half), u.narrow(dim, u.shape[dim] - half, half)
    return torch.cat([start.flip(dim), u, end.flip(dim)], dim=dim)


def back_axis(
    u: Float[Tensor, "batch channel *moved"], axis: int, points: int, *, ring: bool
) -> Float[Tensor, "batch channel *space"]:
    """The inverse of `move_axis`."""
    dim, half = axis + 2, points // 2
    if ring:
        return torch.roll(u, half, dims=dim)
    return u.narrow(dim, points - half, u.shape[dim] - points)


def counts_by_size(grid: Grid, size: tuple[float, ...]) -> tuple[int, ...]:
    """The number of subdomains of a physical size along each axis; the size must divide the extent."""
    if len(size) != grid.dim or not all(math.isfinite(length) and length > 0 for length in size):
        raise ValueError(f"size={size} must hold {grid.dim} finite positive lengths")
    counts = tuple(round(length / part) for length, part in zip(grid.extent, size, strict=True))
    for count, part, length in zip(counts, size, grid.extent, strict=True):
        if count < 1 or abs(count * part - length) > 1e-6 * length:
            raise ValueError(f"size={size} does not divide extent={grid.extent}; needed a whole number of subdomains")
    return counts


def cut(u: Float[Tensor, "batch channel *space"], counts: tuple[int, ...]) -> Float[Tensor, "batch cell channel point"]:
    """`(batch, channel, *space)` to `(batch, cell, channel, point)` for counts that divide the space."""
    batch, channels, *space = u.shape
    dim = len(counts)
    paired = [size for n, count in zip(space, counts, strict=True) for size in (count, n // count)]
    cells, points = [2 + 2 * a for a in range(dim)], [3 + 2 * a for a in range(dim)]
    split = u.reshape(batch, channels, *paired).permute(0, *cells, 1, *points)
    return split.reshape(batch, math.prod(counts), channels, -1)


def join(
    cells: Float[Tensor, "batch cell channel point"], counts: tuple[int, ...], points: tuple[int, ...]
) -> Float[Tensor, "batch channel *space"]:
    """The inverse of `cut`."""
    batch, _, channels, _ = cells.shape
    dim = len(counts)
    paired = [axis for a in range(dim) for axis in (1 + a, 2 + dim + a)]
    split = cells.reshape(batch, *counts, channels, *points).permute(0, 1 + dim, *paired)
    return split.reshape(batch, channels, *(n * count for n, count in zip(points, counts, strict=True)))
