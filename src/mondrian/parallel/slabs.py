"""A decomposition of which each rank holds a slab: some rows of subdomains, whole along the other axes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.decomposition import Decomposition, Lattice, back_axis, cut, join, move_axis
from mondrian.lattice import LatticeRows, Pattern, Rows, Slab
from mondrian.parallel.exchange import Processes, fetch
from mondrian.parallel.partition import Partition


@dataclass(frozen=True)
class SharedSlab(Slab):
    """The rows of a lattice that this rank holds; other ranks hold the rest."""

    partition: Partition
    processes: Processes

    @staticmethod
    def of(lattice: Lattice, partition: Partition, processes: Processes) -> SharedSlab:
        return SharedSlab(lattice, *partition.owned(processes.rank), partition, processes)

    def gather(
        self, pattern: Pattern, *functions: Float[Tensor, "batch cell channel point"]
    ) -> tuple[LatticeRows, tuple[Float[Tensor, "batch key channel point"], ...]]:
        """Fetch the rows that these attend to from other ranks."""
        keys = seen_rows(pattern, self.lattice, self.partition)  # type: ignore[arg-type]  # patterns are frozen
        wanted = tuple((rows.start, rows.stop) for rows in keys)
        rows = fetch(functions, self.processes, self.partition, wanted, dim=1, width=self.cells_per_row)
        return LatticeRows(self.rows, keys[self.processes.rank]), rows


@lru_cache(maxsize=256)
def seen_rows(pattern: Pattern, lattice: Lattice, partition: Partition) -> tuple[Rows, ...]:
    """The rows that each rank attends to."""
    return tuple(pattern.seen_by(Rows(lattice, *owned)) for owned in partition.all_owned())


@dataclass(frozen=True)
class SlabDecomposition:
    """The part of a decomposition that this rank holds. Its functions are given on its slab of the box."""

    whole: Decomposition
    partition: Partition
    processes: Processes

    def __post_init__(self) -> None:
        rows = self.whole.subdomains[0]
        if self.partition.bounds[0] or self.partition.bounds[-1] != rows:
            raise ValueError(
                f"the partition has bounds={self.partition.bounds}; needed 0 to {rows}, the rows of subdomains"
            )
        if self.partition.ring != self.whole.grid.periodic[0]:
            raise ValueError(
                f"ring={self.partition.ring} of the partition is not that of the first axis of {self.whole.grid}"
            )
        if self.partition.processes != self.processes.number:
            raise ValueError(
                f"the partition is for {self.partition.processes} ranks; there are {self.processes.number}"
            )

    @property
    def lattice(self) -> SharedSlab:
        return SharedSlab.of(self.whole.lattice, self.partition, self.processes)

    @property
    def cell_points(self) -> tuple[int, ...]:
        return self.whole.cell_points

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of subdomains of the slab along each axis."""
        return (self.lattice.number, *self.whole.subdomains[1:])

    def cut(self, u: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch cell channel point"]:
        space = tuple(n * count for n, count in zip(self.cell_points, self.counts, strict=True))
        if tuple(u.shape[2:]) != space:
            raise ValueError(f"u has shape {tuple(u.shape)}; the slab of rank {self.processes.rank} is {space}")
        return cut(u, self.counts)

    def join(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch channel *space"]:
        return join(cells, self.counts, self.cell_points)

    def staggered(self) -> StaggeredSlab:
        return StaggeredSlab(self)


@dataclass(frozen=True)
class StaggeredSlab:
    """A slab of the decomposition moved by half a subdomain.

    Moved row `i` begins in the middle of row `i` of the base and ends in the middle of row `i + 1`: each rank receives
    half a row of subdomains from the next one, and returns it afterwards. Between walls there is one more moved row;
    the first one, half of it a mirror image, belongs to the first rank.
    """

    base: SlabDecomposition

    @property
    def lattice(self) -> SharedSlab:
        moved = self.base.whole.staggered().lattice
        return SharedSlab.of(moved, self.base.partition.staggered(), self.base.processes)

    def move(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch moved channel point"]:
        """From the cells of the base to the moved cells."""
        u = self._redistributed(self.base.join(cells), self._owned, self._moved)
        before, after = self._mirrored
        start, end = u.narrow(2, 0, before), u.narrow(2, u.shape[2] - after, after)
        u = torch.cat([start.flip(2), u, end.flip(2)], dim=2)
        for axis, ring in self._other_axes:
            u = move_axis(u, axis, self.base.cell_points[axis], ring=ring)
        return cut(u, self._counts)

    def back(self, cells: Float[Tensor, "batch moved channel point"]) -> Float[Tensor, "batch cell channel point"]:
        """From the moved cells to the cells of the base."""
        u = join(cells, self._counts, self.base.cell_points)
        for axis, ring in self._other_axes:
            u = back_axis(u, axis, self.base.cell_points[axis], ring=ring)
        before, after = self._mirrored
        u = u.narrow(2, before, u.shape[2] - before - after)
        return self.base.cut(self._redistributed(u, self._moved, self._owned))

    def _redistributed(self, u: Tensor, given: Partition, wanted: Partition) -> Tensor:
        return fetch([u], self.base.processes, given, wanted.all_owned(), dim=2)[0]

    @property
    def _owned(self) -> Partition:
        """The owners of rows of points, by the cells of the base."""
        return self.base.partition.scaled(self.base.cell_points[0])

    @property
    def _moved(self) -> Partition:
        """The owners of rows of points, by the moved cells, without the mirror images."""
        return self.base.partition.moved_points(self.base.cell_points[0])

    @property
    def _mirrored(self) -> tuple[int, int]:
        """Rows of points that are mirror images: before the first of the slab, and after its last."""
        points, processes = self.base.cell_points[0], self.base.processes
        if self.base.partition.ring:
            return 0, 0
        first, last = processes.rank == 0, processes.rank == processes.number - 1
        return (points - points // 2) * first, points // 2 * last

    @property
    def _counts(self) -> tuple[int, ...]:
        lattice = self.lattice
        return (lattice.number, *lattice.counts[1:])

    @property
    def _other_axes(self) -> list[tuple[int, bool]]:
        return list(enumerate(self.base.whole.grid.periodic))[1:]
