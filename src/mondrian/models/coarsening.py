"""Two ways to halve the resolution: larger subdomains, or fewer points in each."""

from __future__ import annotations

from dataclasses import dataclass

from mondrian.decomposition import Decomposition
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Coarsening(Spec):
    """How one level leads to the next coarser one, whose grid has half the points along each axis."""

    def subdomains(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Number of subdomains of the next level along each axis."""
        raise NotImplementedError

    def divisor(self, level: int, heads: int) -> int:
        """A number that must divide the points of a finest cell along an axis, so `heads` divides those of `level`."""
        raise NotImplementedError

    def pieces(self, level: int) -> int:
        """How many finest subdomains make up a subdomain of `level` along each axis."""
        raise NotImplementedError

    def coarser(self, fine: Decomposition) -> Decomposition:
        """The next level."""
        grid = fine.grid.with_points(tuple(n // 2 for n in fine.grid.points))
        return Decomposition(grid, self.subdomains(fine.subdomains))


@dataclass(frozen=True)
class LargerSubdomains(Coarsening):
    """Two subdomains along each axis merge into one with as many points as each of them had.

    >>> LargerSubdomains().subdomains((8, 4))
    (4, 2)
    """

    def subdomains(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        if any(count % 2 for count in counts):
            raise ValueError(f"subdomains={counts} cannot be halved for a coarser level; needed even counts")
        return tuple(count // 2 for count in counts)

    def divisor(self, level: int, heads: int) -> int:
        return heads

    def pieces(self, level: int) -> int:
        return int(2**level)


@dataclass(frozen=True)
class FewerPoints(Coarsening):
    """The same subdomains with half the points along each axis.

    >>> FewerPoints().subdomains((8, 4))
    (8, 4)
    """

    def subdomains(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        return counts

    def divisor(self, level: int, heads: int) -> int:
        return int(2**level) * heads

    def pieces(self, level: int) -> int:
        return 1
