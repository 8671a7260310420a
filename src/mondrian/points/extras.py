"""Libraries that only meshes need."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extra(name: str) -> Any:
    """A library of the extra `mesh`; where it is missing the error says how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs the library {name}: pip install -c constraints.txt -e '.[mesh]'") from error
