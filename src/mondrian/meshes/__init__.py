"""The former place of data sets, training and evaluation on meshes; its names are loaded from where they are now."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

FORMER = {
    "MeshFiles": "mondrian.data",
    "MeshSample": "mondrian.data.meshes",
    "MeshSplits": "mondrian.data",
    "PerforatedPoisson": "mondrian.data",
    "MeshSurrogate": "mondrian.surrogate",
    "MeshSurrogateSpec": "mondrian.surrogate",
}


def __getattr__(name: str) -> Any:
    if name not in FORMER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"mondrian.meshes.{name} is now {FORMER[name]}.{name}", DeprecationWarning, stacklevel=2)
    return getattr(import_module(FORMER[name]), name)
