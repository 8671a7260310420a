"""Sources: what every data format becomes. Named fields on one grid, read by windows of one simulation."""

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
from mondrian.support.former import former_names
from mondrian.support.spec import Spec

_ALL = slice(None)


@dataclass(frozen=True)
class Files(Spec):
    """The path of data and the way to read it: the base of all readers."""

    path: str

    def open(self) -> Source:
        """The simulations in the files."""
        raise NotImplementedError


class Axis(StrEnum):
    """The meaning of an axis of a stored array. `SPACE` appears once for each axis of the domain, in order."""

    SIMULATION = "simulation"
    TIME = "time"
    CHANNEL = "channel"
    SPACE = "space"


class Segment:
    """A segment of a field: the array that holds it for `simulations` consecutive simulations.

    An axis is named by `Axis`, or by its number if it is spatial. Missing axes stand for constants: without
    `SIMULATION` all simulations share the values, and without a spatial axis the field is constant along it. Several
    `CHANNEL` axes are flattened.
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
        # computed once for all reads
        left = [axis for axis in axes if axis is not Axis.SIMULATION]
        order = sorted(range(len(left)), key=lambda n: _rank(left[n]))
        self._order = None if order == list(range(len(left))) else order
        self.space = tuple(self.length(axis) or 1 for axis in range(dim))

    def length(self, axis: Axis | int) -> int | None:
        """The length of one axis; `None` if the array has no such axis."""
        return self.array.shape[self.axes.index(axis)] if axis in self.axes else None

    def read(self, simulation: int, steps: slice, rows: slice = _ALL) -> Shaped[np.ndarray, "step channel ..."]:
        """Values of some steps, `(step, channel, *space)`, with length 1 along missing axes.

        `rows` selects points along the first spatial axis.
        """
        parts: dict[Axis | int, int | slice] = {Axis.SIMULATION: simulation, Axis.TIME: steps, 0: rows}
        index: Index = tuple(parts.get(axis, _ALL) for axis in self.axes)
        values = self.array.read(index)
        if self._order is not None:
            values = values.transpose(self._order)
        first = len(range(*rows.indices(self.space[0]))) if 0 in self.axes else 1
        return values.reshape(-1 if self.changes else 1, self.channels, first, *self.space[1:])

    def nbytes(self, simulations: Sequence[int]) -> int:
        """The bytes of some of its simulations."""
        if Axis.SIMULATION not in self.axes:  # shared by all
            return self.array.nbytes if simulations else 0
        return self.array.nbytes * len(simulations) // max(1, self.simulations)

    def load(self, simulations: Sequence[int]) -> Segment:
        """This segment with some of its simulations in memory; the others can then no longer be read."""
        array = self.array
        if not simulations or isinstance(array, PartialArray):
            return self
        if Axis.SIMULATION in self.axes and len(simulations) < self.simulations:
            loaded: StoredArray = PartialArray(array, axis=self.axes.index(Axis.SIMULATION), rows=simulations)
        else:
            loaded = MemoryArray(array.read((_ALL,) * len(self.axes)), file=array.file, key=array.key)
        return Segment(loaded, self.axes, dim=self.dim, simulations=self.simulations)


@dataclass(frozen=True, eq=False)
class Field:
    """A named field: its channels, and the segments that hold its simulations in order."""

    name: str
    channels: tuple[str, ...]
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        for segment in self.segments:
            if segment.channels != len(self.channels):
                raise ValueError(f"{segment.array} has {segment.channels} channels; needed {self.channels}")
            if segment.changes != self.changes:
                raise ValueError(f"{segment.array} and {self.segments[0].array} must both change in time, or neither")

    @property
    def changes(self) -> bool:
        """Whether the field changes in time."""
        return self.segments[0].changes

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        """The first simulation of each segment, and the number of all simulations."""
        return (0, *accumulate(segment.simulations for segment in self.segments))

    def _parts(self, simulations: Iterable[int]) -> list[tuple[Segment, list[int]]]:
        """The segments, each with the numbers in it of those `simulations` that it holds."""
        chosen = sorted(set(simulations))
        ends = [bisect_left(chosen, start) for start in self._starts]
        return [
            (segment, [simulation - start for simulation in chosen[low:high]])
            for segment, start, (low, high) in zip(self.segments, self._starts, pairwise(ends), strict=False)
        ]

    @cached_property
    def space(self) -> tuple[int, ...]:
        """Points along each axis; 1 if the field is constant along it."""
        return tuple(max(sizes) for sizes in zip(*(segment.space for segment in self.segments), strict=True))

    @cached_property
    def is_number(self) -> bool:
        """Whether the field is one number for each channel and simulation, such as gamma."""
        return not self.changes and max(self.space) == 1

    def numbers(self) -> Shaped[np.ndarray, "simulation 1 channel ..."]:
        """The numbers of all simulations, for a field that `is_number`."""
        parts = []
        for segment in self.segments:
            values = segment.array.read((slice(None),) * len(segment.axes))
            if Axis.SIMULATION in segment.axes:
                values = np.moveaxis(values, segment.axes.index(Axis.SIMULATION), 0)
            else:
                values = np.broadcast_to(values, (segment.simulations, *values.shape))
            parts.append(values.reshape(segment.simulations, 1, segment.channels, *self.space))
        return np.concatenate(parts)

    def nbytes(self, simulations: Iterable[int]) -> int:
        """The bytes of some of the simulations."""
        return sum(segment.nbytes(numbers) for segment, numbers in self._parts(simulations))

    def load(self, simulations: Iterable[int]) -> Field:
        """This field with some of the simulations in memory, or with all if it `is_number`."""
        chosen = range(self._starts[-1]) if self.is_number else simulations
        segments = tuple(segment.load(numbers) for segment, numbers in self._parts(chosen))
        return Field(name=self.name, channels=self.channels, segments=segments)

    def locate(self, simulation: int) -> tuple[Segment, int]:
        """The segment that holds a simulation, and the number of the simulation in it."""
        starts = self._starts
        if not 0 <= simulation < starts[-1]:
            raise IndexError(f"simulation {simulation} of field {self.name!r} does not exist; there are {starts[-1]}")
        index = bisect_right(starts, simulation) - 1
        return self.segments[index], simulation - starts[index]

    def read(self, simulation: int, steps: slice, rows: slice = _ALL) -> Shaped[np.ndarray, "step channel ..."]:
        segment, number = self.locate(simulation)
        return segment.read(number, steps, rows)


@dataclass(frozen=True, eq=False)
class Source:
    """Simulations of any origin: fields on `grid`, with `steps[simulation]` time steps where they change in time.

    `name` is the origin, for messages. `times` are those of the first simulation.
    """

    name: str
    grid: Grid
    fields: Mapping[str, Field]
    steps: tuple[int, ...]
    times: Float[np.ndarray, " time"]

    def __post_init__(self) -> None:
        for field in self.fields.values():
            count = sum(segment.simulations for segment in field.segments)
            if count != len(self.steps):
                raise ValueError(f"{self.name}: field {field.name!r} holds {count} simulations; needed {len(self)}")
            start = 0
            for segment in field.segments:
                for axis, points in enumerate(self.grid.points):
                    if segment.length(axis) not in (None, points):
                        raise ValueError(f"{segment.array} must have the points of the grid, {self.grid.points}")
                length = segment.length(Axis.TIME)
                for simulation, steps in enumerate(self.steps[start : start + segment.simulations], start):
                    if length not in (None, steps):
                        raise ValueError(f"{segment.array} has {length} steps; simulation {simulation} needs {steps}")
                start += segment.simulations

        if self.steps and len(self.times) != self.steps[0]:
            raise ValueError(
                f"{self.name} lists {len(self.times)} times; needed {self.steps[0]}, one for each step of simulation 0"
            )

    def __len__(self) -> int:
        return len(self.steps)

    def field(self, name: str) -> Field:
        if name not in self.fields:
            raise ValueError(f"{self.name} has no field {name!r}; it has {sorted(self.fields)}")
        return self.fields[name]

    def check_points(self, points: tuple[int, ...]) -> None:
        """Raise `ValueError` unless `points` are those of the grid, or empty."""
        if points and points != self.grid.points:
            raise ValueError(f"points={points} are not available; {self.name} has {self.grid.points}")

    def load(self, names: Sequence[str], simulations: Sequence[int]) -> Source:
        """This source with only the fields `names`, in memory for some simulations, which keep their numbers."""
        return Source(
            name=self.name,
            grid=self.grid,
            fields={name: self.field(name).load(simulations) for name in names},
            steps=self.steps,
            times=self.times,
        )


def spatial(axes: Sequence[Axis]) -> tuple[Axis | int, ...]:
    """Axes for a `Segment`: each `SPACE` replaced by its number."""
    numbers = iter(range(len(axes)))
    return tuple(next(numbers) if axis is Axis.SPACE else axis for axis in axes)


def _rank(axis: Axis | int) -> int:
    return axis if isinstance(axis, int) else {Axis.TIME: -2, Axis.CHANNEL: -1}[axis]


def _names(axes: tuple[Axis | int, ...]) -> str:
    return "(" + ", ".join(f"space {axis}" if isinstance(axis, int) else axis.value for axis in axes) + ")"


__getattr__ = former_names(__name__)
