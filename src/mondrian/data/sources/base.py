"""What every data format becomes: named fields on one grid, read a window of one simulation at a time."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
from jaxtyping import Float, Shaped

from mondrian.data.arrays import Index, MemoryArray, PartialArray, StoredArray
from mondrian.grid import Grid
from mondrian.support.spec import Spec

_ALL = slice(None)


@dataclass(frozen=True)
class Files(Spec):
    """Where data lies, and how it is read: the base of all readers."""

    path: str

    def open(self) -> Source:
        """The simulations that are there."""
        raise NotImplementedError


class Axis(StrEnum):
    """What an axis of a stored array counts. `SPACE` stands once for each axis of the domain, in order."""

    SIMULATION = "simulation"
    TIME = "time"
    CHANNEL = "channel"
    SPACE = "space"


class Piece:
    """One array that holds a field for `simulations` simulations.

    An axis is named by `Axis`, or by the number of the spatial axis that it is. Axes that are left out do not
    matter: without `SIMULATION` all simulations share the values, without a spatial axis the field is
    constant along it. Several `CHANNEL` axes are flattened.
    """

    def __init__(self, array: StoredArray, axes: tuple[Axis | int, ...], *, dim: int, simulations: int) -> None:
        if len(axes) != len(array.shape):
            raise ValueError(f"{array} has rank {len(array.shape)}; needed axes {_names(axes)}")
        self.array, self.axes, self.dim, self.simulations = array, axes, dim, simulations
        count = self.length(Axis.SIMULATION)
        if count not in (None, simulations):
            raise ValueError(f"{array} holds {count} simulations; needed {simulations}")
        channels = [size for axis, size in zip(axes, array.shape, strict=True) if axis is Axis.CHANNEL]
        self.channels = math.prod(channels)
        self.changes = Axis.TIME in axes
        # What every read needs, worked out once.
        left = [axis for axis in axes if axis is not Axis.SIMULATION]
        order = sorted(range(len(left)), key=lambda n: _rank(left[n]))
        self._order = None if order == list(range(len(left))) else order
        self.space = tuple(self.length(axis) or 1 for axis in range(dim))

    def length(self, axis: Axis | int) -> int | None:
        """Length of one axis, `None` where it is left out."""
        return self.array.shape[self.axes.index(axis)] if axis in self.axes else None

    def read(self, simulation: int, steps: slice, rows: slice = _ALL) -> Shaped[np.ndarray, "step channel ..."]:
        """Values of some steps, `(step, channel, *space)`, with length 1 along axes that were left out.

        `rows` are those of the points along the first axis of space.
        """
        parts: dict[Axis | int, int | slice] = {Axis.SIMULATION: simulation, Axis.TIME: steps, 0: rows}
        index: Index = tuple(parts.get(axis, _ALL) for axis in self.axes)
        values = self.array.read(index)
        if self._order is not None:
            values = values.transpose(self._order)
        first = len(range(*rows.indices(self.space[0]))) if 0 in self.axes else 1
        return values.reshape(-1 if self.changes else 1, self.channels, first, *self.space[1:])

    def nbytes(self, simulations: Sequence[int]) -> int:
        """What some of its simulations take."""
        if Axis.SIMULATION not in self.axes:  # all share it
            return self.array.nbytes if simulations else 0
        return self.array.nbytes * len(simulations) // max(1, self.simulations)

    def load(self, simulations: Sequence[int]) -> Piece:
        """The same with some of its simulations in memory, which are then the only ones to be read."""
        array = self.array
        if not simulations or isinstance(array, PartialArray):
            return self
        if Axis.SIMULATION in self.axes and len(simulations) < self.simulations:
            loaded: StoredArray = PartialArray(array, axis=self.axes.index(Axis.SIMULATION), rows=simulations)
        else:
            loaded = MemoryArray(array.read((_ALL,) * len(self.axes)), file=array.file, key=array.key)
        return Piece(loaded, self.axes, dim=self.dim, simulations=self.simulations)


@dataclass(frozen=True, eq=False)
class Field:
    """A named field: its channels, and the pieces that hold it, simulation after simulation."""

    name: str
    channels: tuple[str, ...]
    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        for piece in self.pieces:
            if piece.channels != len(self.channels):
                raise ValueError(f"{piece.array} has {piece.channels} channels; needed {self.channels}")
            if piece.changes != self.changes:
                raise ValueError(f"{piece.array} and {self.pieces[0].array} must both change in time, or neither")

    @property
    def changes(self) -> bool:
        """Whether the field changes in time."""
        return self.pieces[0].changes

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """The first simulation of each piece, and how many there are."""
        return (0, *accumulate(piece.simulations for piece in self.pieces))

    def _parts(self, simulations: Iterable[int]) -> list[tuple[Piece, list[int]]]:
        """The pieces, each with the places in it of those of the simulations that it holds."""
        chosen = sorted(set(simulations))
        ends = [bisect_left(chosen, start) for start in self._starts]
        return [
            (piece, [simulation - start for simulation in chosen[low:high]])
            for piece, start, (low, high) in zip(self.pieces, self._starts, pairwise(ends), strict=False)
        ]

    @cached_property
    def space(self) -> tuple[int, ...]:
        """Points along each axis, 1 where the field is constant along it."""
        return tuple(max(sizes) for sizes in zip(*(piece.space for piece in self.pieces), strict=True))

    @cached_property
    def is_number(self) -> bool:
        """Whether there is one number for each channel of a simulation, as for gamma."""
        return not self.changes and max(self.space) == 1

    def numbers(self) -> Shaped[np.ndarray, "simulation 1 channel ..."]:
        """The numbers of all simulations, of a field that `is_number`."""
        parts = []
        for piece in self.pieces:
            values = piece.array.read((slice(None),) * len(piece.axes))
            if Axis.SIMULATION in piece.axes:
                values = np.moveaxis(values, piece.axes.index(Axis.SIMULATION), 0)
            else:
                values = np.broadcast_to(values, (piece.simulations, *values.shape))
            parts.append(values.reshape(piece.simulations, 1, piece.channels, *self.space))
        return np.concatenate(parts)

    def nbytes(self, simulations: Iterable[int]) -> int:
        """What some of the simulations take."""
        return sum(piece.nbytes(places) for piece, places in self._parts(simulations))

    def load(self, simulations: Iterable[int]) -> Field:
        """The same with some of the simulations in memory; of numbers, which are few, all."""
        chosen = range(self._starts[-1]) if self.is_number else simulations
        pieces = tuple(piece.load(places) for piece, places in self._parts(chosen))
        return Field(name=self.name, channels=self.channels, pieces=pieces)

    def locate(self, simulation: int) -> tuple[Piece, int]:
        """The piece that holds a simulation, and the simulation's place in it."""
        starts = self._starts
        if not 0 <= simulation < starts[-1]:
            raise IndexError(f"simulation {simulation} of field {self.name!r}: there are {starts[-1]}")
        number = bisect_right(starts, simulation) - 1
        return self.pieces[number], simulation - starts[number]

    def read(self, simulation: int, steps: slice, rows: slice = _ALL) -> Shaped[np.ndarray, "step channel ..."]:
        piece, place = self.locate(simulation)
        return piece.read(place, steps, rows)


@dataclass(frozen=True, eq=False)
class Source:
    """Simulations of any origin: fields over `grid`, `steps[simulation]` long where they change in time.

    `name` is where they come from, for messages. `times` are those of the first simulation.
    """

    name: str
    grid: Grid
    fields: Mapping[str, Field]
    steps: tuple[int, ...]
    times: Float[np.ndarray, " time"]

    def __post_init__(self) -> None:
        for field in self.fields.values():
            held = sum(piece.simulations for piece in field.pieces)
            if held != len(self.steps):
                raise ValueError(f"{self.name}: field {field.name!r} holds {held} simulations; needed {len(self)}")
            start = 0
            for piece in field.pieces:
                for axis, points in enumerate(self.grid.points):
                    if piece.length(axis) not in (None, points):
                        raise ValueError(f"{piece.array} does not lie on the grid of {self.grid.points} points")
                length = piece.length(Axis.TIME)
                for simulation, steps in enumerate(self.steps[start : start + piece.simulations], start):
                    if length not in (None, steps):
                        raise ValueError(f"{piece.array} has {length} steps; simulation {simulation} needs {steps}")
                start += piece.simulations

        if self.steps and len(self.times) != self.steps[0]:
            raise ValueError(
                f"{self.name} lists {len(self.times)} times; its first simulation has {self.steps[0]} steps"
            )

    def __len__(self) -> int:
        return len(self.steps)

    def field(self, name: str) -> Field:
        if name not in self.fields:
            raise ValueError(f"{self.name} has no field {name!r}; it has {sorted(self.fields)}")
        return self.fields[name]

    def check_points(self, points: tuple[int, ...]) -> None:
        """Raise `ValueError` unless these are the points of the grid, or none are asked for."""
        if points and points != self.grid.points:
            raise ValueError(f"points={points} are asked for; {self.name} has {self.grid.points}")

    def load(self, names: Sequence[str], simulations: Sequence[int]) -> Source:
        """The same with the fields `names` in memory, and only those, of some simulations, which keep their numbers."""
        return Source(
            name=self.name,
            grid=self.grid,
            fields={name: self.field(name).load(simulations) for name in names},
            steps=self.steps,
            times=self.times,
        )


def same_grid(sources: Mapping[str, Source], *, points: bool = True) -> Grid:
    """The grid that all splits share; `ValueError` names the two that differ.

    With `points=False` only the boxes must agree: a test split may be finer than the training split.
    """
    (first, reference), *others = sources.items()
    for split, source in others:
        if not grids_agree(source.grid, reference.grid, points=points):
            raise ValueError(
                f"splits lie on different grids: {first} ({reference.name}) on {reference.grid}, "
                f"{split} ({source.name}) on {source.grid}"
            )
    return reference.grid


def grids_agree(one: Grid, other: Grid, *, points: bool = True) -> bool:
    """Whether two grids are the same to the accuracy of float32 coordinates."""
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
    r"""The grid whose cell-centred points are the given coordinates.

    Points $x_0 + j h$ are the centres of cells of width $h$: the box begins at $x_0 - h/2$. Coordinates must
    be uniform to $10^{-3} h$, as float32 files are.
    """
    extent, origin = [], []
    for coordinates, key in zip(axes, keys, strict=True):
        if coordinates.ndim != 1 or len(coordinates) < 2:
            raise ValueError(f"{file}: {key} {coordinates.shape} must be a list of at least two coordinates")
        x = coordinates.astype(np.float64)
        h = (x[-1] - x[0]) / (len(x) - 1)
        if not h > 0 or np.abs(np.diff(x) - h).max() > 1e-3 * h:
            raise ValueError(f"{file}: {key} {coordinates.shape} is not uniform and increasing; needed a uniform grid")
        # Files hold float32: what comes after seven digits is noise.
        extent.append(float(f"{h * len(x):.7g}"))
        origin.append(float(f"{x[0] - h / 2:.7g}") if abs(x[0] - h / 2) > 1e-6 * h * len(x) else 0.0)
    return Grid(extent=tuple(extent), points=tuple(len(x) for x in axes), periodic=periodic, origin=tuple(origin))


def spatial(axes: Sequence[Axis]) -> tuple[Axis | int, ...]:
    """Axes as a `Piece` wants them: each `SPACE` replaced by its number."""
    numbers = iter(range(len(axes)))
    return tuple(next(numbers) if axis is Axis.SPACE else axis for axis in axes)


def _rank(axis: Axis | int) -> int:
    return axis if isinstance(axis, int) else {Axis.TIME: -2, Axis.CHANNEL: -1}[axis]


def _names(axes: tuple[Axis | int, ...]) -> str:
    return "(" + ", ".join(f"space {axis}" if isinstance(axis, int) else axis.value for axis in axes) + ")"
