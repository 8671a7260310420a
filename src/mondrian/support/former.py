"""Former places of modules and names: imports of them work for one more release, with a warning that names the new one.

Whoever moves a public module adds a line here and changes nothing else. Nothing is imported before it is used.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MODULES: dict[str, tuple[str, ...]] = {  # what a former module held is looked up in these, in order
    "mondrian.configuration": ("mondrian.settings.compose", "mondrian.settings.values"),
    "mondrian.extras": ("mondrian.support.libraries",),
    "mondrian.history": ("mondrian.training.history",),
    "mondrian.meshes.files": ("mondrian.data.meshes.files", "mondrian.points.mesh"),
    "mondrian.meshes.poisson": ("mondrian.data.meshes.poisson",),
    "mondrian.meshes.surrogate": ("mondrian.surrogate.meshes",),
    "mondrian.points.attention": ("mondrian.attention.centres", "mondrian.points.arrangement"),
    "mondrian.points.cross_attention": ("mondrian.resampling.cross_attention",),
    "mondrian.points.cross_integral": ("mondrian.resampling.cross_integral",),
    "mondrian.points.model": ("mondrian.models.points", "mondrian.models.points.network"),
    "mondrian.points.position": ("mondrian.attention.coordinates",),
    "mondrian.points.resampler": ("mondrian.resampling.learned",),
    "mondrian.recipes": ("mondrian.settings.recipes",),
    "mondrian.run": ("mondrian.training.run",),
    "mondrian.spectra": ("mondrian.evaluation.spectra",),
    "mondrian.statistics": ("mondrian.evaluation.statistics",),
}

NAMES: dict[str, dict[str, str]] = {  # names that left modules which are still there
    "mondrian.meshes": {
        "MeshFiles": "mondrian.data",
        "MeshSample": "mondrian.data.meshes",
        "MeshSplits": "mondrian.data",
        "MeshSurrogate": "mondrian.surrogate",
        "MeshSurrogateSpec": "mondrian.surrogate",
        "PerforatedPoisson": "mondrian.data",
    },
    "mondrian.points": {
        "CentreAttention": "mondrian.attention",
        "CoordinatePosition": "mondrian.attention",
        "CrossAttention": "mondrian.resampling",
        "CrossIntegral": "mondrian.resampling",
        "LearnedResampler": "mondrian.resampling",
        "PointOperator": "mondrian.models",
        "PointSpec": "mondrian.models",
        "ResamplerSpec": "mondrian.resampling",
        "point_no": "mondrian.models",
    },
}


def former_names(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module that some names have left."""
    moved = NAMES[module]

    def attribute(name: str) -> Any:
        if name not in moved:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name} is now {moved[name]}.{name}")
        return getattr(import_module(moved[name]), name)

    return attribute


class FormerModules(MetaPathFinder, Loader):
    """Imports a former module as a stand-in, whose attributes are those of the modules that took its place."""

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in MODULES:
            return None
        _warn(f"the module {name} is now {' and '.join(MODULES[name])}")
        return ModuleSpec(name, self, is_package=True)  # former packages held further modules

    def exec_module(self, module: ModuleType) -> None:
        def attribute(name: str) -> Any:
            for place in MODULES[module.__name__]:
                if hasattr(import_module(place), name):
                    return getattr(import_module(place), name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

        module.__getattr__ = attribute  # type: ignore[method-assign]


def install() -> None:
    """Ask for former modules first of all: where one was a folder, files left behind would make it an empty package."""
    if not any(isinstance(finder, FormerModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerModules())


def _warn(what: str) -> None:
    warnings.warn(f"{what}; the former place goes with the next release", DeprecationWarning, stacklevel=3)
