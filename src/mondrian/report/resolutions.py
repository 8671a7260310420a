"""Resolutions as the page shows them, with the part of the data set on meshes."""

from __future__ import annotations

import math
from collections.abc import Iterable

from mondrian.evaluation.entries import Resolution


def in_order(resolutions: Iterable[Resolution]) -> list[Resolution]:
    """The different resolutions, coarsest first."""
    return sorted(set(resolutions), key=lambda resolution: (math.prod(resolution[1]), resolution))


def name_of(resolution: Resolution) -> str:
    """A resolution as text, after the part of the data set on meshes."""
    part, points = resolution
    return f"{part}, {size(points)}" if part else size(points)


def size(points: tuple[int, ...]) -> str:
    """`(32, 32)` as `32 × 32`."""
    return " × ".join(map(str, points))
