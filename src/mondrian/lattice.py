"""Some rows of a lattice, along its first axis: what one process, or one pass over a large field, holds of it."""

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
    """The cells of the rows `start ... stop - 1` of a lattice, in their order. On a ring they may run past either end.

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
            raise ValueError(f"rows {self.start} to {self.stop} must be at least 1 and at most the {count} there are")
        if not self.lattice.periodic[0] and not 0 <= self.start < self.stop <= count:
            raise ValueError(f"rows {self.start} to {self.stop} reach over an end of the {count} rows; needed a ring")

    @staticmethod
    def within(lattice: Lattice, start: int, stop: int) -> Rows:
        """As many of these rows as there are: up to the walls, or once round the ring."""
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
    def all_there_are(self) -> bool:
        """Whether these are all rows of the lattice."""
        return self.number == self.counts[0]

    @property
    def size(self) -> int:
        """Number of cells of the rows."""
        return self.number * self.cells_a_row

    @property
    def cells_a_row(self) -> int:
        """Number of cells of one row."""
        return math.prod(self.counts[1:])

    def place_of(self, row: Int[Tensor, "*rows"]) -> Int[Tensor, "*rows"]:
        """How many rows after the first one a row of the lattice comes; negative or too large where it is not held."""
        after = row - self.start
        return after % self.counts[0] if self.periodic[0] else after

    def positions(self, device: torch.device | None = None) -> Int[Tensor, "cell axis"]:
        """The place of each cell in the whole lattice."""
        place = Lattice((self.number, *self.counts[1:]), self.periodic).positions(device)
        place[:, 0] = (place[:, 0] + self.start) % self.counts[0]
        return place

    def cells(self, device: torch.device | None = None) -> Int[Tensor, " cell"]:
        """The number of each cell in the whole lattice."""
        row = torch.arange(self.start, self.stop, device=device) % self.counts[0]
        return (row[:, None] * self.cells_a_row + torch.arange(self.cells_a_row, device=device)).flatten()


@dataclass(frozen=True)
class Strip:
    """Rows that look, and the rows that are there to be looked at."""

    queries: Rows
    keys: Rows

    @staticmethod
    def of(lattice: Lattice | Strip) -> Strip:
        """A lattice is the strip of all its rows."""
        if isinstance(lattice, Strip):
            return lattice
        rows = Rows(lattice, 0, lattice.counts[0])
        return Strip(rows, rows)

    @property
    def lattice(self) -> Lattice:
        """The whole lattice."""
        return self.queries.lattice

    def offsets(self, device: torch.device | None = None) -> Int[Tensor, "query key axis"]:
        """The way from each cell that looks to each cell that is looked at."""
        return self.lattice.between(self.queries.positions(device), self.keys.positions(device))


@runtime_checkable
class Pattern(Protocol):
    """Who attends to whom, as far as rows are concerned."""

    def seen_by(self, rows: Rows) -> Rows:
        """All rows that hold something that a cell of `rows` attends to."""
        ...


@dataclass(frozen=True)
class Slab(Rows):
    """Rows that are worked on by themselves, as if there were nothing beside them."""

    @property
    def rows(self) -> Rows:
        """The rows alone."""
        return Rows(self.lattice, self.start, self.stop)

    def look(
        self, pattern: Pattern, *functions: Float[Tensor, "batch cell channel point"]
    ) -> tuple[Strip, tuple[Float[Tensor, "batch key channel point"], ...]]:
        """What the rows see of `functions`, given on the rows, and where that lies."""
        return Strip(self.rows, self.rows), functions


@runtime_checkable
class MovedSubdomains(Protocol):
    """A decomposition moved by half a subdomain."""

    @property
    def lattice(self) -> Lattice | Slab: ...

    def move(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch moved channel point"]: ...

    def back(self, cells: Float[Tensor, "batch moved channel point"]) -> Float[Tensor, "batch cell channel point"]: ...


@runtime_checkable
class Subdomains(Protocol):
    """What a model needs to know of a decomposition, be it of a whole box or of a slab of one."""

    @property
    def lattice(self) -> Lattice | Slab: ...

    @property
    def cell_points(self) -> tuple[int, ...]: ...

    def cut(self, u: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch cell channel point"]: ...

    def join(self, cells: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch channel *space"]: ...

    def staggered(self) -> MovedSubdomains: ...
