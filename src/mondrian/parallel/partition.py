"""Consecutive rows and the ranks that own them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple


class Piece(NamedTuple):
    """Consecutive rows of one owner, counted from the first row that it owns."""

    owner: int
    start: int
    number: int


@dataclass(frozen=True)
class Partition:
    """Rank `r` owns the rows `bounds[r] ... bounds[r + 1] - 1`. On a ring the last row is followed by the first.

    >>> Partition.even(10, 4).bounds, Partition.even(12, 2, unit=4).bounds
    ((0, 2, 5, 7, 10), (0, 4, 12))
    >>> Partition((0, 4, 8), ring=True).pieces(-1, 5)
    [Piece(owner=1, start=3, number=1), Piece(owner=0, start=0, number=4), Piece(owner=1, start=0, number=1)]
    """

    bounds: tuple[int, ...]
    ring: bool = False

    def __post_init__(self) -> None:
        if len(self.bounds) < 2 or any(start >= stop for start, stop in pairwise(self.bounds)):
            raise ValueError(f"bounds={self.bounds} must increase: each rank needs at least one row")

    @staticmethod
    def even(rows: int, processes: int, *, unit: int = 1, ring: bool = False) -> Partition:
        """As equal as possible, in multiples of `unit` where there are enough of them."""
        if not 1 <= processes <= rows:
            raise ValueError(
                f"{rows} rows of subdomains cannot be shared by {processes} ranks; needed at least one row for each"
            )
        if rows % unit or rows // unit < processes:
            unit = 1
        units = rows // unit
        return Partition(tuple(units * number // processes * unit for number in range(processes + 1)), ring)

    @property
    def processes(self) -> int:
        """The number of ranks that share the rows."""
        return len(self.bounds) - 1

    @property
    def total(self) -> int:
        """The number of all rows."""
        return self.bounds[-1] - self.bounds[0]

    def owned(self, rank: int) -> tuple[int, int]:
        """The first row of a rank, and the one after its last."""
        return self.bounds[rank], self.bounds[rank + 1]

    def scaled(self, factor: int) -> Partition:
        """The partition in finer rows, `factor` in each: rows of points for rows of cells."""
        return Partition(tuple(bound * factor for bound in self.bounds), self.ring)

    def staggered(self) -> Partition:
        """The rows of the staggered decomposition: between walls there is one more, which the first rank owns."""
        first, *others = self.bounds
        return self if self.ring else Partition((first, *(bound + 1 for bound in others)))

    def moved_points(self, points: int) -> Partition:
        """The owners of the rows of points, `points` in each row of cells, in the staggered decomposition."""
        first, *inner, last = self.scaled(points).bounds
        half = points // 2
        if self.ring:
            return Partition((first + half, *(bound + half for bound in inner), last + half), ring=True)
        return Partition((first, *(bound + half for bound in inner), last))

    def all_owned(self) -> tuple[tuple[int, int], ...]:
        """The rows of each rank."""
        return tuple(pairwise(self.bounds))

    def pieces(self, start: int, stop: int) -> list[Piece]:
        """The owners of the rows `start ... stop - 1`, in their order."""
        first, last = self.bounds[0], self.bounds[-1]
        if not self.ring and not first <= start <= stop <= last:
            raise ValueError(f"rows {start} to {stop} are not among {first} to {last}")
        pieces = []
        while start < stop:
            row = first + (start - first) % self.total
            owner = bisect_right(self.bounds, row) - 1
            number = min(stop - start, self.bounds[owner + 1] - row)
            pieces.append(Piece(owner, row - self.bounds[owner], number))
            start += number
        return pieces
