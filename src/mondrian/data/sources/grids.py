"""Grids of data files: from coordinates to a grid, and whether two grids agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Shaped

from mondrian.data.sources.base import Source
from mondrian.grid import Grid


def same_grid(sources: Mapping[str, Source], *, points: bool = True) -> Grid:
    """The common grid of all splits; `ValueError` names two that differ.

    With `points=False` only the boxes must agree: a test split may be finer than the training split.
    """
    (first, reference), *others = sources.items()
    for split, source in others:
        if not grids_agree(source.grid, reference.grid, points=points):
            raise ValueError(
                f"splits lie on different grids: {first} ({reference.name}) on {reference.grid}, "
                f"{split} ({source.name}) on {source.grid}; needed one grid"
            )
    return reference.grid


def grids_agree(one: Grid, other: Grid, *, points: bool = True) -> bool:
    """Whether two grids are equal up to the accuracy of float32 coordinates."""
    lengths = (*one.extent, *one.origin), (*other.extent, *other.origin)
    close = len(one.extent) == len(other.extent) and np.allclose(*lengths, rtol=1e-5, atol=1e-5 * max(one.extent))
    return close and one.periodic == other.periodic and (not points or one.points == other.points)


def grid_from_axes(
    axes: Sequence[Shaped[np.ndarray, "..."]],
    periodic: tuple[bool, ...],
    *,
    file: str,
    keys: Sequence[str],
) -> Grid:
    r"""The grid with the given coordinates as cell-centred points.

    Points $x_0 + j h$ are the centres of cells of width $h$: the box begins at $x_0 - h/2$. Coordinates must be uniform
    up to $10^{-3} h$, the accuracy of float32 files.
    """
    extent, origin = [], []
    for coordinates, key in zip(axes, keys, strict=True):
        if coordinates.ndim != 1 or len(coordinates) < 2:
            raise ValueError(f"{file}: {key} {coordinates.shape} must be a list of at least two coordinates")
        x = coordinates.astype(np.float64)
        h = (x[-1] - x[0]) / (len(x) - 1)
        if not h > 0 or np.abs(np.diff(x) - h).max() > 1e-3 * h:
            raise ValueError(f"{file}: {key} {coordinates.shape} is not uniform and increasing; needed a uniform grid")
        # files hold float32: digits after the seventh are noise
        extent.append(float(f"{h * len(x):.7g}"))
        origin.append(float(f"{x[0] - h / 2:.7g}") if abs(x[0] - h / 2) > 1e-6 * h * len(x) else 0.0)
    return Grid(extent=tuple(extent), points=tuple(len(x) for x in axes), periodic=periodic, origin=tuple(origin))
