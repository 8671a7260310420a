"""Arrays in files, read in parts: in bounded memory, with handles that survive worker processes."""

from __future__ import annotations

import math
import operator
import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import h5py
import numpy as np
from jaxtyping import Shaped

Index = tuple[SupportsIndex | slice, ...]
READ_BYTES = 2**24  # bytes that are read at once from an array of which some rows are loaded
_ALL = slice(None)


class StoredArray(ABC):
    """An array in a file, with its key and shape, of which parts can be read.

    >>> MemoryArray(np.arange(6.0).reshape(2, 3), file="numbers.npy").read((1, slice(0, 2)))
    array([3., 4.])
    """

    def __init__(self, *, file: str, key: str, shape: tuple[int, ...], dtype: Any) -> None:
        self.file = file
        self.key = key
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)

    @abstractmethod
    def read(self, index: Index) -> Shaped[np.ndarray, "..."]:
        """The part at `index`, a number or a range for each axis."""

    def __str__(self) -> str:
        return f"{self.file}: {self.key or 'array'} {self.shape}"

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class MemoryArray(StoredArray):
    """An array in memory."""

    def __init__(self, values: Shaped[np.ndarray, "..."], *, file: str, key: str = "") -> None:
        super().__init__(file=file, key=key, shape=values.shape, dtype=values.dtype)
        self.values = values

    def read(self, index: Index) -> Shaped[np.ndarray, "..."]:
        return np.asarray(self.values[index])


class PartialArray(StoredArray):
    """Some rows of an array along `axis`, ascending, in memory; other rows cannot be read.

    >>> whole = MemoryArray(np.arange(6.0).reshape(3, 2), file="numbers.npy")
    >>> PartialArray(whole, axis=0, rows=[0, 2]).read((2, slice(None)))
    array([4., 5.])
    """

    def __init__(self, array: StoredArray, *, axis: int, rows: Sequence[int]) -> None:
        super().__init__(file=array.file, key=array.key, shape=array.shape, dtype=array.dtype)
        self.axis = axis
        self.values = np.empty((*self.shape[:axis], len(rows), *self.shape[axis + 1 :]), self.dtype)
        self._number = {row: number for number, row in enumerate(rows)}
        before = (_ALL,) * axis
        # In blocks: one read would need too much memory, and a row of the last axis is spread over the whole file.
        at_once = max(1, READ_BYTES * self.shape[axis] // max(1, self.nbytes))
        for start in range(0, self.shape[axis], at_once):
            low, high = np.searchsorted(rows, (start, start + at_once))
            if low < high:
                selected = np.asarray(rows[low:high])
                block = array.read((*before, slice(selected[0], selected[-1] + 1)))
                self.values[(*before, slice(low, high))] = block.take(selected - selected[0], axis)

    def read(self, index: Index) -> Shaped[np.ndarray, "..."]:
        row = index[self.axis]
        number = None if isinstance(row, slice) else self._number.get(operator.index(row))
        if number is None:
            raise IndexError(f"{row} along axis {self.axis} of {self} was not loaded")
        return np.asarray(self.values[(*index[: self.axis], number, *index[self.axis + 1 :])])


class ContiguousArray(StoredArray):
    """An array with contiguous bytes from `offset` on, read with one `pread` where a part is contiguous too.

    Memory maps are avoided where possible: reading a file that has become shorter is then an error and does not kill
    the process.
    """

    def __init__(
        self, handles: Handles, *, file: str, key: str = "", offset: int, shape: tuple[int, ...], dtype: Any
    ) -> None:
        super().__init__(file=file, key=key, shape=shape, dtype=dtype)
        self.handles = handles
        self.offset = offset
        self._strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))

    def read(self, index: Index) -> Shaped[np.ndarray, "..."]:
        start = axis = 0
        while axis < len(index) and not isinstance(number := index[axis], slice):
            start += _position(operator.index(number), self.shape[axis], self) * self._strides[axis]
            axis += 1
        if axis == len(index):
            return self._bytes(start, math.prod(self.shape[axis:])).reshape(self.shape[axis:])
        part = index[axis]
        assert isinstance(part, slice)
        low, high, step = part.indices(self.shape[axis])
        if step != 1 or high < low or any(other != _ALL for other in index[axis + 1 :]):
            return np.array(np.memmap(self.file, self.dtype, "r", self.offset, self.shape)[index])
        # numbers, then one range, then whole axes: the part is contiguous
        stride = self._strides[axis]
        values = self._bytes(start + low * stride, (high - low) * stride)
        return values.reshape(high - low, *self.shape[axis + 1 :])

    def _bytes(self, start: int, count: int) -> Shaped[np.ndarray, "..."]:
        size = count * self.dtype.itemsize
        position = self.offset + start * self.dtype.itemsize
        content = os.pread(self.handles.descriptor(self.file), size, position)
        while 0 < len(content) < size:  # one call reads at most 2 GiB
            more = os.pread(self.handles.descriptor(self.file), size - len(content), position + len(content))
            if not more:
                break
            content += more
        if len(content) != size:
            raise OSError(f"{self} ends too early: {len(content)} of {size} bytes could be read")
        return np.frombuffer(content, dtype=self.dtype)


class ChunkedArray(StoredArray):
    """An HDF5 data set in chunks, possibly compressed, read by h5py."""

    def __init__(self, handles: Handles, dataset: h5py.Dataset) -> None:
        super().__init__(
            file=_whole_path(dataset),
            key=dataset.name.strip("/"),
            shape=dataset.shape,
            dtype=dataset.dtype,
        )
        self.handles = handles

    def read(self, index: Index) -> Shaped[np.ndarray, "..."]:
        return np.asarray(self.handles.hdf5(self.file)[self.key][index])


class Handles:
    """Open files, at most `limit` of them, opened anew in every process that uses them."""

    def __init__(self, limit: int = 128) -> None:
        self.limit = limit
        self._owner = os.getpid()
        self._open: OrderedDict[tuple[str, str], _Descriptor | h5py.File] = OrderedDict()

    def descriptor(self, file: str) -> int:
        """A file descriptor for reading."""
        return self._get(("bytes", file), lambda: _Descriptor(file)).number

    def hdf5(self, file: str) -> h5py.File:
        """The file, open for reading."""
        return self._get(("hdf5", file), lambda: h5py.File(file, "r"))

    def _get(self, key: tuple[str, str], opener: Callable[[], Any]) -> Any:
        if self._owner != os.getpid():  # a forked worker must not share HDF5 state with its parent
            self._owner, self._open = os.getpid(), OrderedDict()
        if key not in self._open:
            self._open[key] = opener()
            if len(self._open) > self.limit:
                self._open.popitem(last=False)
        self._open.move_to_end(key)
        return self._open[key]

    def __getstate__(self) -> dict[str, Any]:
        return {"limit": self.limit}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.limit = state["limit"]
        self._owner, self._open = os.getpid(), OrderedDict()


class _Descriptor:
    def __init__(self, file: str) -> None:
        self.number = -1
        self.number = os.open(file, os.O_RDONLY)
        if os.fstat(self.number).st_size <= 2**26 and hasattr(os, "posix_fadvise"):
            # samples are read in random order: fetch a whole shard at once, not page by page
            os.posix_fadvise(self.number, 0, 0, os.POSIX_FADV_WILLNEED)

    def __del__(self) -> None:
        if self.number >= 0:
            os.close(self.number)


def open_hdf5(path: Path) -> h5py.File:
    """An HDF5 file, open for reading; an `OSError` names the file if it cannot be read."""
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; needed an HDF5 file") from None
    except OSError as error:
        raise OSError(f"{path} is not a readable HDF5 file: {error}") from error


def hdf5_array(handles: Handles, dataset: h5py.Dataset) -> StoredArray:
    """The fastest array for an HDF5 data set; a small one is read at once."""
    key = dataset.name.strip("/")
    file = _whole_path(dataset)
    if dataset.dtype.kind not in "fiub":
        raise ValueError(f"{file}: {key} {dataset.shape} has type {dataset.dtype}; needed numbers")
    offset = dataset.id.get_offset()
    native = dataset.dtype.isnative
    if dataset.ndim == 0 or dataset.size * dataset.dtype.itemsize <= 2**14:
        return MemoryArray(np.asarray(dataset[()]), file=file, key=key)
    if offset is not None and native and not dataset.external:
        return ContiguousArray(handles, file=file, key=key, offset=offset, shape=dataset.shape, dtype=dataset.dtype)
    return ChunkedArray(handles, dataset)


def _whole_path(dataset: h5py.Dataset) -> str:
    """The absolute path of the file of a data set, which stays valid when the working folder changes."""
    return str(Path(dataset.file.filename).resolve())


def _position(number: int, length: int, array: StoredArray) -> int:
    if not -length <= number < length:
        raise IndexError(f"{number} is outside an axis of length {length} of {array}")
    return number % length
