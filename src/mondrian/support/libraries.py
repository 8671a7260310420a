"""Optional libraries: the extras of the package."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any


class MissingLibrary(ImportError):
    """A library of an extra is not installed."""


def library(name: str, *, extra: str) -> Any:
    """Import a library of an extra; if it is missing, the error says how to install it."""
    try:
        with warnings.catch_warnings():  # some libraries change the filters of the whole process
            return import_module(name)
    except ImportError as error:
        install = f"pip install -c constraints.txt -e '.[{extra}]'"
        raise MissingLibrary(f"this needs the library {name.partition('.')[0]}: {install}") from error
