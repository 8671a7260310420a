"""Where predictions go: files that grow piece by piece under a temporary name, and appear when they are whole."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped

from mondrian.support.files import appearing, remove_partial, writing
from mondrian.support.lock import Lock

Append = Callable[[Shaped[np.ndarray, "..."]], None]


def open_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> AbstractContextManager[Append]:
    """An `.npy`, `.npz` (its array is called `y`) or `.pt` file of an array, to be given row after row."""
    return {".npy": _npy, ".npz": _npz, ".pt": _pt}[path.suffix](path, shape, dtype)


@contextmanager
def exclusive(path: Path) -> Iterator[Path]:
    """A temporary name that becomes `path`, which no other process writes meanwhile; remains of killed ones go."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with Lock.of_file(path), appearing(path) as partial:
        remove_partial(path)
        yield partial


@contextmanager
def _npy(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Append]:
    with exclusive(path) as partial, _opened(path, lambda: open(partial, "wb")) as file:
        yield _rows(path, file, shape, dtype)


@contextmanager
def _npz(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Append]:
    with (
        exclusive(path) as partial,
        _opened(path, lambda: zipfile.ZipFile(partial, "w")) as archive,
        _opened(path, lambda: archive.open("y.npy", "w", force_zip64=True)) as file,
    ):
        yield _rows(path, file, shape, dtype)


@contextmanager
def _pt(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Iterator[Append]:
    # torch writes a tensor in one go: from a file that is mapped into memory.
    with exclusive(path) as partial:
        rows = partial.with_name(f"{partial.name}.rows.partial")
        try:
            with _opened(path, lambda: open(rows, "wb")) as file:
                yield _rows(path, file, shape, dtype)
            with writing(path):
                torch.save(torch.from_numpy(np.lib.format.open_memmap(rows, mode="r+")), partial)
        finally:
            rows.unlink(missing_ok=True)


def _rows(path: Path, file: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Append:
    with writing(path):
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(file, header)

    def append(values: Float[np.ndarray, "..."]) -> None:
        with writing(path):
            file.write(np.ascontiguousarray(values, dtype=dtype).data)

    return append


@contextmanager
def _opened(path: Path, opener: Callable[[], Any]) -> Iterator[Any]:
    """A file that is closed whatever happens; the last of its bytes reach the disk only then."""
    with writing(path):
        file = opener()
    try:
        yield file
    except BaseException:
        with suppress(OSError, ValueError):  # the first error is the one to tell
            file.close()
        raise
    with writing(path):
        file.close()
