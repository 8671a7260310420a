"""Output files: they grow batch by batch under a temporary name and appear when they are complete."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped

from mondrian.support.files import appearing, remove_partial, writing
from mondrian.support.lock import Lock

Append = Callable[[Shaped[np.ndarray, "..."]], None]


@dataclass(frozen=True)
class Prediction:
    """The content of a file of predictions; `not_finite` samples hold NaN or infinite values."""

    samples: int
    channels: tuple[str, ...]
    points: tuple[int, ...]
    not_finite: int


def check_output(source: Path, target: Path) -> None:
    """Refuse to overwrite the input."""
    if target.exists() and source.exists() and target.samefile(source):
        raise ValueError(f"output {target} is the input; needed another name")


def open_array(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> AbstractContextManager[Append]:
    """An `.npy`, `.npz` (its array is called `y`) or `.pt` file of an array, to which rows are appended."""
    return {".npy": _npy, ".npz": _npz, ".pt": _pt}[path.suffix](path, shape, dtype)


@contextmanager
def exclusive(path: Path) -> Iterator[Path]:
    """A temporary name that becomes `path`; a lock keeps other processes out, and files of killed ones are removed."""
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
    # torch writes a tensor as a whole, so the rows are first collected in a memory-mapped file.
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
    """A file that is closed in any case, which is when its last bytes reach the disk."""
    with writing(path):
        file = opener()
    try:
        yield file
    except BaseException:
        with suppress(OSError, ValueError):  # the first error is the one to report
            file.close()
        raise
    with writing(path):
        file.close()
