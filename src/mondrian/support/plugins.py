"""Modules of other people whose specs can be named in settings and files like ours.

One of your own is named in the environment, `MONDRIAN_PLUGINS=my_models,my_data`, and may lie in the working
directory; a package that is installed may announce one by an entry point of the group `mondrian.plugins`. Files name
specs, never modules: to read one imports nothing that was not chosen before.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

VARIABLE, GROUP = "MONDRIAN_PLUGINS", "mondrian.plugins"


def load_plugins() -> None:
    """Import them, once."""
    _load(os.environ.get(VARIABLE, ""))


@cache
def _load(names: str) -> None:
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except (ImportError, AttributeError) as error:
            raise ValueError(f"the plug-in {entry.name} = {entry.value} cannot be loaded: {error}") from error
    chosen = [name.strip() for name in names.split(",") if name.strip()]
    if chosen and os.getcwd() not in sys.path:  # the command, unlike `python -m`, does not look there; last of all
        sys.path.append(os.getcwd())
    for name in chosen:
        try:
            import_module(name)
        except ImportError as error:
            raise ValueError(f"{VARIABLE}={names}: {name} cannot be imported: {error}") from error
