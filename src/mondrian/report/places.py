"""Where errors belong: a resolution, and of meshes the part of the data set that has it."""

from __future__ import annotations

import math
from collections.abc import Iterable

from mondrian.evaluation.entries import Place


def in_order(places: Iterable[Place]) -> list[Place]:
    """The different ones, coarsest first."""
    return sorted(set(places), key=lambda place: (math.prod(place[1]), place))


def name_of(place: Place) -> str:
    """A resolution, and of meshes the part that has it."""
    part, points = place
    return f"{part}, {size(points)}" if part else size(points)


def size(points: tuple[int, ...]) -> str:
    """`(32, 32)` as it is read: `32 × 32`."""
    return " × ".join(map(str, points))
