"""Files of predictions that all ranks fill at once, in any order."""

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
class Segment:
    """The contiguous numbers `(sample, frame, *space)` of an array in a file."""

    file: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def mapped(self) -> np.memmap[Any, Any]:
        """The array as writable memory map."""
        return np.memmap(self.file, self.dtype, "r+", self.offset, self.shape)


@dataclass(frozen=True)
class Layout:
    """The arrays of a file, and for each predicted channel its array and frame."""

    segments: tuple[Segment, ...]
    channels: tuple[tuple[int, int], ...]


@contextmanager
def open_shared(path: Path, create: Callable[[Path], Layout], processes: Processes | None) -> Iterator[Write]:
    """A file that rank 0 creates and all ranks fill; it appears when all have finished.

    `write(sample, row, values)` puts `values` `(batch, channel, rows, ...)` where sample `sample` and row `row` begin.
    """
    first = processes is None or processes.rank == 0
    made: AbstractContextManager[Path | None] = exclusive(path) if first else nullcontext()
    with made as partial:
        layout = _broadcast(None if partial is None else lambda: create(partial), processes)
        arrays = [segment.mapped() for segment in layout.segments]

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
    return Layout((Segment(str(partial), offset, shape, dtype),), tuple((0, channel) for channel in range(shape[1])))


def create_simulations(partial: Path, path: Path, simulated: Simulated) -> Layout:
    """An HDF5 file of predictions as simulations; its fields are contiguous, so their offsets are known."""
    with simulated.created(partial, path) as fields:
        offsets = {}
        for name, dataset in fields.items():
            dataset[(-1,) * dataset.ndim] = 0  # HDF5 allocates a field at its first write
            offsets[name] = dataset.id.get_offset()
    names = list(offsets)
    segments = tuple(Segment(str(partial), offsets[name], simulated.shape, simulated.dtype) for name in names)
    return Layout(segments, tuple((names.index(field), frame) for field, frame in simulated.frames.places))


def _broadcast(make: Callable[[], Layout] | None, processes: Processes | None) -> Layout:
    """What rank 0 makes, for all ranks; if it fails, all ranks raise its error."""
    result: Layout | OSError | None = None
    if make is not None:
        try:
            result = make()
        except OSError as error:
            result = error
    if processes is not None:
        message = [result]
        dist.broadcast_object_list(message, group=processes.group, group_src=0)
        result = message[0]
    if isinstance(result, OSError):
        raise result
    assert result is not None
    return result
