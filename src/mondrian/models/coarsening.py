"""What half the resolution means: subdomains twice as large, or half the points in each."""

from __future__ import annotations

from dataclasses import dataclass

from mondrian.decomposition import Decomposition
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Coarsening(Spec):
    """How the subdomains of a level become those of the next coarser one, whose grid has half the points an axis."""

    def subdomains(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Number of subdomains of the next level along each axis."""
        raise NotImplementedError

    def divisor(self, level: int, heads: int) -> int:
        """What must divide the points of a finest cell along an axis, so that `heads` divide those of `level`."""
        raise NotImplementedError

    def pieces(self, level: int) -> int:
        """How many finest subdomains a subdomain of `level` consists of along each axis."""
        raise NotImplementedError

    def coarser(self, fine: Decomposition) -> Decomposition:
        """The next level."""
        grid = fine.grid.with_points(tuple(n // 2 for n in fine.grid.points))
        return Decomposition(grid, self.subdomains(fine.subdomains))


@dataclass(frozen=True)
class LargerSubdomains(Coarsening):
    """Two subdomains an axis become one, with as many points as each of them had.

    >>> LargerSubdomains().subdomains((8, 4))
    (4, 2)
    """

    def subdomains(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        if any(count % 2 for count in counts):
            raise ValueError(f"subdomains={counts} cannot be halved for a coarser level; needed even numbers")
        return tuple(count // 2 for count in counts)

    def divisor(self, level: int, heads: int) -> int:
        return heads

    def pieces(self, level: int) -> int:
        return int(2**level)


@dataclass(frozen=True)
class FewerPoints(Coarsening):
    """The same subdomains with half the points an axis.

    >>> FewerPoints().subdomains((8, 4))
    (8, 4)
    """

    def subdomains(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        return counts

    def divisor(self, level: int, heads: int) -> int:
        return int(2**level) * heads

    def pieces(self, level: int) -> int:
        return 1
