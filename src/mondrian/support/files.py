"""Atomic writes: a file appears complete or not at all."""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_INFINITE = {math.inf: "\0infinity", -math.inf: "\0minus infinity"}


def write_atomically(path: Path, content: bytes | memoryview) -> None:
    """Write `content` to `path` so that readers see all of it or none, even after a crash."""
    with appearing(path) as partial, writing(path), open(partial, "wb") as file:
        file.write(content)


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`; the file written there replaces `path` if the block ends without an error."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(None, "it is a folder")
    try:
        yield partial
        with writing(path):
            _sync(partial)
            os.replace(partial, path)
            _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Add the name of the file to errors of the disk; HDF5 raises `RuntimeError` for some of them."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise OSError(getattr(error, "errno", None), f"cannot write {path}: {reason}") from error


def write_json(path: Path, content: Any) -> None:
    """Write `content` to `path` as JSON, atomically."""
    write_atomically(path, json_text(content).encode())


def json_text(content: Any) -> str:
    """Valid JSON: NaN becomes `null`, and infinity `1e999`, which every parser reads as infinity."""
    text = json.dumps(_finite(content), indent=2, allow_nan=False) + "\n"
    for value, mark in _INFINITE.items():
        text = text.replace(json.dumps(mark), "1e999" if value > 0 else "-1e999")
    return text


def _finite(value: Any) -> Any:
    """JSON values with `None` for NaN and a marker for infinity."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):  # nan is in no dictionary
        return _INFINITE.get(value)
    return value


def remove_partial(path: Path) -> None:
    """Remove the temporary files that a killed process left beside `path`."""
    for leftover in path.parent.glob(f".{path.name}.*.partial"):
        leftover.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
