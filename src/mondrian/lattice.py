"""Rows of a lattice along its first axis: the part that one rank holds, or that one step of streaming computes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mondrian.decomposition import Lattice


@dataclass(frozen=True)
class Rows:
    """The cells of the rows `start ... stop - 1` of a lattice, in order. On a ring the rows may run past either end.

    >>> rows = Rows(Lattice((4, 2), (True, False)), -1, 1)
    >>> rows.cells().tolist()
    [6, 7, 0, 1]
    """

    lattice: Lattice
    start: int
    stop: int

    def __post_init__(self) -> None:
        count = self.lattice.counts[0]
        if not 0 < self.stop - self.start <= count:
            raise ValueError(
                f"rows {self.start} to {self.stop} are {self.stop - self.start}; needed at least 1 and at most {count}"
            )
        if not self.lattice.periodic[0] and not 0 <= self.start < self.stop <= count:
            raise ValueError(
                f"rows {self.start} to {self.stop} reach past an end of the {count} rows; needed a periodic first axis"
            )

    @staticmethod
    def within(lattice: Lattice, start: int, stop: int) -> Rows:
        """The rows `start ... stop - 1`, clipped to the walls, or to once round the ring."""
        count = lattice.counts[0]
        if lattice.periodic[0]:
            return Rows(lattice, start, min(stop, start + count))
        return Rows(lattice, max(start, 0), min(stop, count))

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of cells of the whole lattice along each axis."""
        return self.lattice.counts

    @property
    def periodic(self) -> tuple[bool, ...]:
        """Which axes of the whole lattice close into a ring."""
        return self.lattice.periodic

    @property
    def number(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows of the lattice."""
        return self.number == self.counts[0]

    @property
    def size(self) -> int:
        """Number of cells of the rows."""
        return self.number * self.cells_per_row

    @property
    def cells_per_row(self) -> int:
        """Number of cells of one row."""
        return math.prod(self.counts[1:])

    def local_row(self, row: Int[Tensor, "*rows"]) -> Int[Tensor, "*rows"]:
        """The number of a row of the lattice among these rows; negative or too large where it is not one of them."""
        after = row - self.start
        return after % self.counts[0] if self.periodic[0] else after

    def positions(self, device: torch.device | None = None) -> Int[Tensor, "cell axis"]:
        """The position of each cell in the whole lattice."""
        position = Lattice((self.number, *self.counts[1:]), self.periodic).positions(device)
        position[:, 0] = (position[:, 0] + self.start) % self.counts[0]
        return position

    def cells(self, device: torch.device | None = None) -> Int[Tensor, " cell"]:
        """The number of each cell in the whole lattice."""
        row = torch.arange(self.start, self.stop, device=device) % self.counts[0]
        return (row[:, None] * self.cells_per_row + torch.arange(self.cells_per_row, device=device)).flatten()


@dataclass(frozen=True)
class LatticeRows:
    """The rows of the queries of an attention layer, and the rows of its keys."""

    queries: Rows
    keys: Rows

    @staticmethod
    def of(lattice: Lattice | LatticeRows) -> LatticeRows:
        """All rows of a lattice, as queries and as keys."""
        if isinstance(lattice, LatticeRows):
            return lattice
        rows = Rows(lattice, 0, lattice.counts[0])
        return LatticeRows(rows, rows)

    @property
    def lattice(self) -> Lattice:
        """The whole lattice."""
        return self.queries.lattice

    def offsets(self, device: torch.device | None = None) -> Int[Tensor, "query key axis"]:
        """The offset from each query cell to each key cell, the shorter one on a periodic axis."""
        return self.lattice.between(self.queries.positions(device), self.keys.positions(device))


@runtime_checkable
class Pattern(Protocol):
    """An attention pattern, as far as rows are concerned."""

    def seen_by(self, rows: Rows) -> Rows:
        """All rows with a cell that some cell of `rows` attends to."""
        ...


@dataclass(frozen=True)
class Slab(Rows):
    """Rows that attend to themselves alone, as if the lattice ended there."""

    @property
    def rows(self) -> Rows:
        """The same rows without what a subclass adds."""
        return Rows(self.lattice, self.start, self.stop)

    def gather(
        self, pattern: Pattern, *functions: Float[Tensor, "batch cell channel point"]
    ) -> tuple[LatticeRows, tuple[Float[Tensor, "batch key channel point"], ...]]:
        """The key rows that `pattern` sees from these rows, and `functions`, given on these rows, on the key rows."""
        return LatticeRows(self.rows, self.rows), functions


@runtime_checkable
class MovedSubdomains(Protocol):
    """A decomposition moved by half a subdomain."""

    @property
    def lattice(self) -> Lattice | Slab: ...

    def move(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch moved channel point"]: ...

    def back(self, cells: Float[Tensor, "batch moved channel point"]) -> Float[Tensor, "batch cell channel point"]: ...


@runtime_checkable
class Subdomains(Protocol):
    """The part of a decomposition that a model needs, of a whole box or of a slab of one."""

    @property
    def lattice(self) -> Lattice | Slab: ...

    @property
    def cell_points(self) -> tuple[int, ...]: ...

    def cut(self, u: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch cell channel point"]: ...

    def join(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch channel *space"]: ...

    def staggered(self) -> MovedSubdomains: ...
