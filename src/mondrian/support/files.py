"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_INFINITE = {math.inf: "\0infinity", -math.inf: "\0minus infinity"}


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Put `content` at `path` so that a reader, or a crash at any moment, sees all of it or none."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(partial, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if partial.parent.is_dir():
            partial.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Put `content` at `path` as JSON, all of it or none."""
    write_atomically(path, json_text(content).encode())


def json_text(content: Any) -> str:
    """JSON that is valid everywhere: what is not a number is `null`, and infinity `1e999`, which all take for it."""
    text = json.dumps(_finite(content), indent=2, allow_nan=False) + "\n"
    for value, mark in _INFINITE.items():
        text = text.replace(json.dumps(mark), "1e999" if value > 0 else "-1e999")
    return text


def _finite(value: Any) -> Any:
    """JSON values with `None` for NaN and a mark for infinity."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):  # nan is in no dictionary
        return _INFINITE.get(value)
    return value


def remove_partial(path: Path) -> None:
    """Remove what a killed process left of `path`."""
    for leftover in path.parent.glob(f".{path.name}.*.partial"):
        leftover.unlink(missing_ok=True)


@contextmanager
def holding(path: Path, numbers: Iterable[int], *, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold `numbers`, ascending, of the lock file `path`: other processes that want one of them wait till the end.

    `waiting` is called before this one waits. A process that ends, in whatever way, holds nothing any more.
    """
    with open(path, "wb") as file:
        try:
            for number in numbers:
                try:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, number)
                except BlockingIOError:
                    waiting()
                    fcntl.lockf(file, fcntl.LOCK_EX, 1, number)
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
                raise  # these are of file systems without locks, which some clusters have: there nobody waits
        yield


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
