"""Predictions as simulations: an HDF5 file in The Well's layout, filled batch by batch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float, Shaped

from mondrian.data.store import CHECKSUM, Simulations, write_shard
from mondrian.grid import Grid
from mondrian.prediction.outputs import Append, exclusive
from mondrian.rollout import field_and_step
from mondrian.support.files import writing


class Frames:
    """Predicted channels as frames of fields: `u[1], v[1], u[2], v[2]` are two frames of `u` and of `v`.

    >>> Frames(("u[1]", "v[1]", "u[2]", "v[2]")).places
    [('u', 0), ('v', 0), ('u', 1), ('v', 1)]
    """

    def __init__(self, names: Sequence[str]) -> None:
        apart = [field_and_step(name) for name in names]
        self.fields = list(dict.fromkeys(field for field, _ in apart))
        self.steps: list[int | None] = list(dict.fromkeys(step for _, step in apart))
        self.places = [(field, self.steps.index(step)) for field, step in apart]
        if len(set(self.places)) != len(self.fields) * len(self.steps):
            raise ValueError(f"the predictions {tuple(names)} are not all of the same steps; needed for HDF5")

    def times(self, known: Float[np.ndarray, " time"], present: int) -> Float[np.ndarray, " frame"]:
        """The times of the frames: step 0 is the `present` one; beyond the known times the last interval repeats.

        >>> Frames(("u[1]", "u[2]", "u[3]")).times(np.array([0.0, 6.0, 12.0]), present=1)
        array([12., 18., 24.])
        """
        interval = known[-1] - known[-2] if len(known) > 1 else 1.0
        frames = np.array([present + (step or 0) for step in self.steps])
        beyond = np.maximum(frames - (len(known) - 1), 0)
        return np.asarray(known[np.minimum(frames, len(known) - 1)] + beyond * interval, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Simulated:
    """The content of a file of predictions: `frames` of `count` simulations on `grid`, at `times`.

    The layout is that of `mondrian generate`, without its checksum.
    """

    count: int
    grid: Grid
    frames: Frames
    times: Float[np.ndarray, " frame"]
    scalars: Mapping[str, Shaped[np.ndarray, " simulation"]]
    dtype: np.dtype[Any]
    identity: Mapping[str, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of each field."""
        return (self.count, len(self.times), *self.grid.points)

    @contextmanager
    def created(self, partial: Path, path: Path) -> Iterator[dict[str, h5py.Dataset]]:
        """The empty fields in a new file `partial`, which will become `path`."""
        empty = Simulations(
            grid=self.grid,
            times=self.times,
            fields=dict.fromkeys(self.frames.fields, np.empty((0, *self.shape[1:]), dtype=self.dtype)),
            scalars={key: np.empty(0, dtype=np.float32) for key in self.scalars if key not in self.frames.fields},
        )
        write_shard(partial, empty, name="prediction", identity=self.identity)
        with writing(path):
            size = math.prod(self.shape) * self.dtype.itemsize * len(self.frames.fields)
            reserve(partial, size + sum(values.nbytes for values in self.scalars.values()))
            file = h5py.File(partial, "r+")
        try:
            file.attrs["n_trajectories"] = self.count
            del file.attrs[CHECKSUM]
            for key in empty.scalars:
                values = self.scalars[key]
                _enlarge(file["scalars"], key, values.shape, values.dtype)[...] = values
            yield {key: _enlarge(file["t0_fields"], key, self.shape, self.dtype) for key in self.frames.fields}
        finally:
            with writing(path):
                file.close()


@contextmanager
def open_simulations(path: Path, simulated: Simulated) -> Iterator[Append]:
    """A file of simulations, to which predictions `(batch, channel, *space)` are appended."""
    with exclusive(path) as partial, simulated.created(partial, path) as fields:
        done = 0

        def append(values: Float[np.ndarray, "batch channel ..."]) -> None:
            nonlocal done
            with writing(path):
                for channel, (field, frame) in enumerate(simulated.frames.places):
                    fields[field][done : done + len(values), frame] = values[:, channel]
            done += len(values)

        yield append


def reserve(path: Path, size: int) -> None:
    """Reserve `size` more bytes on the disk, because HDF5 crashes the process when the disk is full."""
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size + size + 2**16)  # and for the tables of HDF5


def _enlarge(group: h5py.Group, key: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> h5py.Dataset:
    """A data set in place of an empty one, with its attributes; contiguous data sets cannot be resized."""
    attributes = dict(group[key].attrs)
    del group[key]
    dataset = group.create_dataset(key, shape=shape, dtype=dtype)
    dataset.attrs.update(attributes)
    return dataset
