"""Plug-ins: modules of other people whose specs can be named in settings and files.

The environment names your own modules, `MONDRIAN_PLUGINS=my_models,my_data`, which may lie in the working directory; an
installed package may announce modules by entry points of the group `mondrian.plugins`. Files name specs, never modules,
so that reading a file imports no other module.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

VARIABLE, GROUP = "MONDRIAN_PLUGINS", "mondrian.plugins"


def load_plugins() -> None:
    """Import all plug-ins, once."""
    _load(os.environ.get(VARIABLE, ""))


@cache
def _load(names: str) -> None:
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except (ImportError, AttributeError) as error:
            raise ValueError(f"the plug-in {entry.name} = {entry.value} cannot be loaded: {error}") from error
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if chosen and os.getcwd() not in sys.path:  # the command, unlike `python -m`, leaves it out; searched last
        sys.path.append(os.getcwd())
    for name in chosen:
        try:
            import_module(name)
        except ImportError as error:
            raise ValueError(f"{VARIABLE}={names}: {name} cannot be imported: {error}") from error
