"""Inputs: one array, arrays named by channel, or simulations in The Well's layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped

from mondrian.data.arrays import StoredArray
from mondrian.data.sources import Field, Source, WellFiles
from mondrian.grid import Grid
from mondrian.prediction.arrays import ARRAYS, stored_arrays
from mondrian.prediction.predictor import Predictor
from mondrian.rollout import field_and_step

HDF5 = (".hdf5", ".h5")
ALL = slice(None)


@runtime_checkable
class Read(Protocol):
    """Reads the samples `start ... stop - 1`, all their points or some rows along the first axis."""

    def __call__(self, start: int, stop: int, rows: slice = ALL) -> Shaped[np.ndarray, "batch channel ..."]: ...


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples of `shape` `(batch, channel, *space)`; `read(start, stop)` reads some of them.

    `single` if there is one sample that came without a batch axis. `present` is the place in `times` of step 0: of
    the last one that goes in, or of the first of all if none does. `scalars` are numbers that belong to the samples,
    such as gamma.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Read
    single: bool = False
    grid: Grid | None = None
    times: Float[np.ndarray, " time"] = dataclass_field(default_factory=lambda: np.zeros(1))
    present: int = 0
    scalars: Mapping[str, Shaped[np.ndarray, " batch"]] = dataclass_field(default_factory=dict)

    def __len__(self) -> int:
        return self.shape[0]


def open_samples(
    path: Path, predictor: Predictor, *, split: str | None = None, points: tuple[int, ...] = ()
) -> Samples:
    """The samples of a file, or of a folder of HDF5 files, for a model."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; needed samples in {_kinds()}")
    if path.is_file() and (split is not None or points):
        raise ValueError(f"split={split!r} and points={points} choose among the files of a folder; {path} is one file")
    if path.is_dir() or path.suffix in HDF5:
        return from_simulations(WellFiles(path=str(path), split=split, points=points).open(), predictor)
    if path.suffix not in ARRAYS:
        raise ValueError(f"{path} ends in {path.suffix!r}; needed {_kinds()}")
    arrays = stored_arrays(path)
    if len(arrays) == 1 and not (predictor.named and _names(predictor) & arrays.keys()):
        return from_array(next(iter(arrays.values())), predictor)
    return from_named(arrays, predictor, str(path))


def from_array(array: StoredArray, predictor: Predictor) -> Samples:
    """Samples from an array `(batch, channel, *space)`, or `(channel, *space)` for one sample."""
    _real(array)
    single = len(array.shape) == predictor.dim + 1
    shape = (1, *array.shape) if single else array.shape
    predictor.check_shape(shape, str(array.file))

    def read(start: int, stop: int, rows: slice = ALL) -> Shaped[np.ndarray, "batch channel ..."]:
        return array.read((ALL, rows))[None] if single else array.read((slice(start, stop), ALL, rows))

    return Samples(str(array.file), shape, array.dtype, read, single=single)


def from_named(arrays: Mapping[str, StoredArray], predictor: Predictor, name: str) -> Samples:
    """Samples from arrays named by a channel (`u[0]`) or by a field (`u`: all its channels, in their order).

    Shapes: `(batch, *space)`, or `(batch, channel, *space)` for a field of several channels, such as `v` of `v_x` and
    `v_y`. Numbers, constant in space, are `(batch,)`, or one number for all. Arrays with other names are left alone.
    """
    if not predictor.named:
        raise ValueError(f"{name} holds the arrays {sorted(arrays)}; a model without channel names needs one array")
    columns: list[tuple[StoredArray, int]] = []
    counts: dict[str, int] = {}
    for channel in predictor.in_names:
        key = next((key for key in _keys(channel) if key in arrays), "")
        if not key:
            needed = ", ".join(predictor.in_names)
            raise ValueError(f"{name} holds {sorted(arrays)} but nothing for channel {channel!r}; needed {needed}")
        columns.append((arrays[key], counts.get(key, 0)))
        counts[key] = counts.get(key, 0) + 1
    fields = [arrays[key] for key in counts if len(arrays[key].shape) > 1]
    if not fields or len(fields[0].shape) not in (predictor.dim + 1, predictor.dim + 2):
        held = f"{fields[0]}" if fields else f"{name} holds only numbers"
        raise ValueError(f"{held}; needed a field (batch, *space) or (batch, channel, *space), {predictor.dim} axes")
    batch, space = fields[0].shape[0], fields[0].shape[-predictor.dim :]
    for key, count in counts.items():
        _real(arrays[key])
        alone = count == 1 and key in _names(predictor)  # otherwise there is an axis of channels
        fits = {(batch, count, *space)} | ({(batch, *space), (batch,), ()} if alone else set())
        if arrays[key].shape not in fits:
            needed = " or ".join(str(shape) for shape in sorted(fits, key=len, reverse=True))
            raise ValueError(f"{arrays[key]} does not fit the other arrays; needed {needed}")
    shape = (batch, len(columns), *space)
    predictor.check_shape(shape, name)

    def read(start: int, stop: int, rows: slice = ALL) -> Shaped[np.ndarray, "batch channel ..."]:
        pieces = {id(array): _samples(array, start, stop, rows, dim=predictor.dim) for array, _ in columns}
        values = np.empty(
            (stop - start, len(columns), len(range(*rows.indices(space[0]))), *space[1:]),
            dtype=np.result_type(*(piece.dtype for piece in pieces.values())),
        )
        for place, (array, number) in enumerate(columns):
            piece = pieces[id(array)]
            if piece.ndim == values.ndim:
                piece = piece[:, number]
            values[:, place] = piece.reshape(*piece.shape, *(1,) * (values.ndim - 1 - piece.ndim))
        return values

    dtype = np.result_type(*(array.dtype for array in fields))
    scalars = {
        key: np.broadcast_to(_samples(arrays[key], 0, batch, ALL, dim=predictor.dim), (batch,))
        for key in counts
        if len(arrays[key].shape) < 2
    }
    return Samples(name, shape, dtype, read, scalars=scalars)


def from_simulations(source: Source, predictor: Predictor) -> Samples:
    """The first window of each simulation: its first steps, as many as the model takes."""
    if not predictor.named:
        raise ValueError(f"{source.name} holds named fields; a model without channel names needs one array")
    columns = [(*_find(source, name), field_and_step(name)[1]) for name in predictor.in_names]
    present = -min(step or 0 for *_, step in columns)
    for simulation, steps in enumerate(source.steps):
        if steps <= present:
            raise ValueError(
                f"simulation {simulation} of {source.name} has {steps} steps; the model takes {present + 1}"
            )
    shape = (len(source), len(columns), *source.grid.points)
    predictor.check_shape(shape, source.name)
    fields = {id(field): field for field, *_ in columns}

    def read(start: int, stop: int, rows: slice = ALL) -> Shaped[np.ndarray, "batch channel ..."]:
        points = (len(range(*rows.indices(shape[2]))), *shape[3:])
        values = np.empty((stop - start, len(columns), *points), dtype=widest)
        for sample, simulation in enumerate(range(start, stop)):
            steps = {key: field.read(simulation, slice(0, present + 1), rows) for key, field in fields.items()}
            for channel, (field, number, step) in enumerate(columns):
                values[sample, channel] = steps[id(field)][0 if step is None else present + step, number]
        return values

    widest = np.result_type(*(segment.array.dtype for field in fields.values() for segment in field.segments))
    spatial = [segment.array.dtype for field in fields.values() if not field.is_number for segment in field.segments]
    dtype = np.result_type(*(spatial or [widest]))
    numbers = {name: field for name, field in source.fields.items() if field.is_number and len(field.channels) == 1}
    return Samples(
        source.name,
        shape,
        dtype,
        read,
        grid=source.grid,
        times=source.times,
        present=present,
        scalars={name: field.numbers().reshape(len(source)) for name, field in numbers.items()},
    )


def _find(source: Source, name: str) -> tuple[Field, int]:
    """The field that contains a channel, and the number of the channel in it."""
    wanted, step = field_and_step(name)
    for field in source.fields.values():
        if wanted in field.channels:
            if field.changes != (step is not None):
                raise ValueError(
                    f"{source.name}: {wanted!r} {'changes' if field.changes else 'does not change'} in time; "
                    f"the model takes {name!r}"
                )
            return field, field.channels.index(wanted)
    held = sorted(channel for field in source.fields.values() for channel in field.channels)
    raise ValueError(f"{source.name} has no {wanted!r} for channel {name!r}; it has {held}")


def _keys(channel: str) -> tuple[str, ...]:
    """The possible names of a channel's array: its own, without the step, and that of the field it is a component of.

    >>> _keys("velocity_x[0]")
    ('velocity_x[0]', 'velocity_x', 'velocity')
    """
    name = field_and_step(channel)[0]
    return channel, name, name.rpartition("_")[0] or name


def _names(predictor: Predictor) -> set[str]:
    """The input channels of a model, with and without their steps."""
    return {*predictor.in_names, *(field_and_step(name)[0] for name in predictor.in_names)}


def _samples(array: StoredArray, start: int, stop: int, rows: slice, *, dim: int) -> Shaped[np.ndarray, "..."]:
    """Some samples of an array; of arrays in space only some rows."""
    if len(array.shape) <= 1:
        return array.read((slice(start, stop),) if array.shape else ())
    return array.read((slice(start, stop), *(ALL,) * (len(array.shape) - dim - 1), rows))


def _real(array: StoredArray) -> None:
    if array.dtype.kind not in "fiub":  # neuraloperator's Darcy files mark the medium with booleans
        raise ValueError(f"{array} has dtype {array.dtype}; needed real numbers")


def _kinds() -> str:
    return f"{', '.join(ARRAYS)}, {' or '.join(HDF5)} files, or a folder of HDF5 files"
