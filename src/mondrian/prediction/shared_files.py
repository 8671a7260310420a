"""Files of predictions that are filled in any order, by several processes at once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist
from jaxtyping import Shaped

from mondrian.parallel import Processes
from mondrian.prediction.outputs import exclusive
from mondrian.prediction.simulations import Simulated, reserve
from mondrian.support.files import writing

Write = Callable[[int, int, Shaped[np.ndarray, "batch channel ..."]], None]


@dataclass(frozen=True)
class Place:
    """Where the numbers `(sample, frame, *space)` of an array lie in a file, one after the other."""

    file: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def mapped(self) -> np.memmap[Any, Any]:
        """The array, to be written to."""
        return np.memmap(self.file, self.dtype, "r+", self.offset, self.shape)


@dataclass(frozen=True)
class Layout:
    """The arrays of a file, and of each channel of a prediction the array and the frame in it where it belongs."""

    places: tuple[Place, ...]
    channels: tuple[tuple[int, int], ...]


@contextmanager
def open_shared(path: Path, create: Callable[[Path], Layout], processes: Processes | None) -> Iterator[Write]:
    """A file that the first process creates and all of them fill; it appears when the last one is done.

    `write(sample, row, values)` puts `values` `(batch, channel, rows, ...)` where sample `sample` and row `row` begin.
    """
    first = processes is None or processes.rank == 0
    made: AbstractContextManager[Path | None] = exclusive(path) if first else nullcontext()
    with made as partial:
        layout = _agreed(None if partial is None else lambda: create(partial), processes)
        arrays = [place.mapped() for place in layout.places]

        def write(sample: int, row: int, values: Shaped[np.ndarray, "batch channel ..."]) -> None:
            samples, rows = slice(sample, sample + len(values)), slice(row, row + values.shape[2])
            for channel, (array, frame) in enumerate(layout.channels):
                arrays[array][samples, frame, rows] = values[:, channel]

        yield write
        with writing(path):
            for array in arrays:
                array.flush()
        if processes is not None:
            dist.barrier(processes.group)


def create_array(partial: Path, shape: tuple[int, ...], dtype: np.dtype[Any], *, single: bool) -> Layout:
    """An `.npy` file of predictions `(batch, channel, *space)`, or of a `single` one without the batch axis."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape[single:]}
    with open(partial, "wb") as file:
        np.lib.format.write_array_header_2_0(file, header)
        offset = file.tell()
    size = math.prod(shape) * dtype.itemsize
    reserve(partial, size)
    os.truncate(partial, offset + size)
    return Layout((Place(str(partial), offset, shape, dtype),), tuple((0, channel) for channel in range(shape[1])))


def create_simulations(partial: Path, path: Path, simulated: Simulated) -> Layout:
    """An HDF5 file of predictions as simulations, whose fields are contiguous: their places in the file are known."""
    with simulated.created(partial, path) as fields:
        offsets = {}
        for name, dataset in fields.items():
            dataset[(-1,) * dataset.ndim] = 0  # HDF5 takes the space for a field when it is first written to
            offsets[name] = dataset.id.get_offset()
    names = list(offsets)
    places = tuple(Place(str(partial), offsets[name], simulated.shape, simulated.dtype) for name in names)
    return Layout(places, tuple((names.index(field), frame) for field, frame in simulated.frames.places))


def _agreed(make: Callable[[], Layout] | None, processes: Processes | None) -> Layout:
    """What the first process makes, for all of them; if it cannot, none of them goes on."""
    found: Layout | OSError | None = None
    if make is not None:
        try:
            found = make()
        except OSError as error:
            found = error
    if processes is not None:
        told = [found]
        dist.broadcast_object_list(told, group=processes.group, group_src=0)
        found = told[0]
    if isinstance(found, OSError):
        raise found
    assert found is not None
    return found
