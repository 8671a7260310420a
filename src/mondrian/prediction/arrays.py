"""The arrays of `.npy`, `.npz` and `.pt` files, read in parts."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import Shaped

from mondrian.data.arrays import Index, MemoryArray, StoredArray
from mondrian.data.sources.files import read_arrays, read_tensors, reading

ARRAYS = (".npy", ".npz", ".pt")


def stored_arrays(path: Path) -> dict[str, StoredArray]:
    """The arrays by name; the single array of an `.npy` or `.pt` file is called ''."""
    if path.suffix == ".npy":
        return read_arrays(path, ("",))
    arrays = _npz(path) if path.suffix == ".npz" else _pt(path)
    if not arrays:
        raise ValueError(f"{path} holds no arrays")
    return arrays


def _npz(path: Path) -> dict[str, StoredArray]:
    with reading(path):
        with zipfile.ZipFile(path) as file:
            members = [name for name in file.namelist() if name.endswith(".npy")]
        return {name.removesuffix(".npy"): ZippedArray(path, name) for name in members}


def _pt(path: Path) -> dict[str, StoredArray]:
    return {key: MemoryArray(values, file=str(path), key=key) for key, values in read_tensors(path, alone="").items()}


class ZippedArray(StoredArray):
    """An array of an `.npz` file, unpacked in parts from its start on."""

    def __init__(self, path: Path, member: str) -> None:
        self._file = zipfile.ZipFile(path).open(member)  # noqa: SIM115 -- closed with the array
        version = np.lib.format.read_magic(self._file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = header(self._file)
        if dtype.hasobject:
            raise ValueError(f"{member} holds objects; needed numbers")
        super().__init__(file=str(path), key=member.removesuffix(".npy"), shape=shape, dtype=dtype)
        self._offset = self._file.tell()
        # In column-major order a sample is spread over the whole file, so the array is read as a whole.
        self._whole = by_columns and len(shape) > 1

    def read(self, index: Index) -> Shaped[np.ndarray, "..."]:
        part = index[0] if index else slice(None)
        assert isinstance(part, slice)
        start, stop, _ = part.indices(self.shape[0] if self.shape else 1)
        if self._whole:
            values = self._numbers(0, math.prod(self.shape)).reshape(self.shape, order="F")
            return values[(slice(start, stop), *index[1:])]
        row = math.prod(self.shape[1:])
        values = self._numbers(start * row, (stop - start) * row)
        if not self.shape:
            return values.reshape(())
        return values.reshape(stop - start, *self.shape[1:])[(slice(None), *index[1:])]

    def _numbers(self, start: int, count: int) -> Shaped[np.ndarray, " number"]:
        size = self.dtype.itemsize
        try:
            self._file.seek(self._offset + start * size)
            content = self._file.read(count * size)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise OSError(f"{self} is damaged: {error}") from error
        if len(content) != count * size:
            raise OSError(f"{self} ends too early: {len(content)} of {count * size} bytes could be read")
        return np.frombuffer(content, dtype=self.dtype)
