"""Former modules and names, which still import for one release, with a warning that says the new name.

To move or rename something public, add a line to a table here. A module that loses names also needs
`__getattr__ = former_names(__name__)`. Nothing is imported before it is used.
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

MODULES: dict[str, tuple[str, ...]] = {  # the attributes of a former module are looked up in these, in order
    "mondrian.benchmark.passes": ("mondrian.training.timed_steps",),
    "mondrian.configuration": ("mondrian.settings.compose", "mondrian.settings.values"),
    "mondrian.evaluation.reference": ("mondrian.evaluation.baselines",),
    "mondrian.evaluation.spread": ("mondrian.evaluation.running_spectra",),
    "mondrian.extras": ("mondrian.support.libraries",),
    "mondrian.history": ("mondrian.training.history",),
    "mondrian.league.agreement": ("mondrian.league.folder_settings",),
    "mondrian.league.hold": ("mondrian.league.run_league",),
    "mondrian.league.job": ("mondrian.league.train_one",),
    "mondrian.league.strips": ("mondrian.league.field_panels",),
    "mondrian.meshes": ("mondrian.data.meshes", "mondrian.surrogate.meshes"),
    "mondrian.meshes.evaluation": ("mondrian.evaluation",),
    "mondrian.meshes.files": ("mondrian.data.meshes.files", "mondrian.points.mesh"),
    "mondrian.meshes.poisson": ("mondrian.data.meshes.poisson",),
    "mondrian.meshes.prediction": ("mondrian.prediction", "mondrian.prediction.meshes"),
    "mondrian.meshes.settings": ("mondrian.settings.data",),
    "mondrian.meshes.surrogate": ("mondrian.surrogate.meshes",),
    "mondrian.meshes.training": ("mondrian.training.meshes",),
    "mondrian.models.answers": ("mondrian.models.on_grid",),
    "mondrian.models.block": ("mondrian.layers.block",),
    "mondrian.models.norm": ("mondrian.layers.norm",),
    "mondrian.models.settings": ("mondrian.models.factories",),
    "mondrian.models.shares": ("mondrian.models.maps",),
    "mondrian.operators.evaluation": (
        "mondrian.operators.kernel_method",
        "mondrian.operators.kernel_cache",
        "mondrian.operators.separation_terms",
    ),
    "mondrian.operators.stacked": ("mondrian.operators.kernel_mix",),
    "mondrian.parallel.mesh": ("mondrian.parallel.ranks",),
    "mondrian.points.attention": ("mondrian.attention.centres", "mondrian.points.arrangement"),
    "mondrian.points.cross_attention": ("mondrian.resampling.cross_attention",),
    "mondrian.points.cross_integral": ("mondrian.resampling.cross_integral",),
    "mondrian.points.model": ("mondrian.models.points", "mondrian.models.points.network"),
    "mondrian.points.position": ("mondrian.attention.coordinates",),
    "mondrian.points.resampler": ("mondrian.resampling.learned",),
    "mondrian.recipes": ("mondrian.settings.recipes",),
    "mondrian.report.arrays": ("mondrian.evaluation.arrays",),
    "mondrian.report.places": ("mondrian.report.resolutions",),
    "mondrian.report.planes": ("mondrian.drawing.planes",),
    "mondrian.report.style": ("mondrian.drawing.style",),
    "mondrian.resampling.places": ("mondrian.resampling.axis_points",),
    "mondrian.run": ("mondrian.training.run",),
    "mondrian.spectra": ("mondrian.evaluation.spectra",),
    "mondrian.statistics": ("mondrian.evaluation.statistics",),
}

NAMES: dict[str, dict[str, str]] = {  # names that moved: the module they left, and the one they are in now
    "mondrian.data.problems": {"simulation_seed": "mondrian.data.seeds"},
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

RENAMED: dict[str, dict[str, str]] = {  # names that changed: the module they were in, and the full new name
    "mondrian": {"attention_shares": "mondrian.attention_map"},
    "mondrian.league": {"League": "mondrian.league.LeagueSpec"},
    "mondrian.league.agreement": {"agree": "mondrian.league.folder_settings.remember_settings"},
    "mondrian.league.hold": {"hold": "mondrian.league.run_league.run_league"},
    "mondrian.league.plan": {"Plan": "mondrian.league.plan.LeaguePlan"},
    "mondrian.league.settings": {
        "League": "mondrian.league.spec.LeagueSpec",
        "read": "mondrian.league.settings.parse",
    },
    "mondrian.evaluation.spread": {"Spread": "mondrian.evaluation.running_spectra.RunningSpectra"},
    "mondrian.meshes.evaluation": {"evaluate_meshes": "mondrian.evaluation.evaluate"},
    "mondrian.meshes.files": {"places_of": "mondrian.data.meshes.files.components_of"},
    "mondrian.meshes.settings": {"fit_mesh_scales": "mondrian.training.normalisation.fit_scales"},
    "mondrian.models": {
        "Shares": "mondrian.models.AttentionMap",
        "attention_shares": "mondrian.models.attention_map",
    },
    "mondrian.models.answers": {"answer_on": "mondrian.models.on_grid.apply_on"},
    "mondrian.models.settings": {
        "LevelSettings": "mondrian.models.factories.UNetSettings",
        "Settings": "mondrian.models.factories.TransformerSettings",
    },
    "mondrian.models.shares": {
        "Shares": "mondrian.models.maps.AttentionMap",
        "attention_shares": "mondrian.models.maps.attention_map",
    },
    "mondrian.data.sources.base": {
        "Piece": "mondrian.data.sources.base.Segment",
        "grid_from_axes": "mondrian.data.sources.grids.grid_from_axes",
        "grids_agree": "mondrian.data.sources.grids.grids_agree",
        "same_grid": "mondrian.data.sources.same_grid",
    },
    "mondrian.operators": {"Evaluation": "mondrian.operators.KernelMethod"},
    "mondrian.parallel": {"mesh_of": "mondrian.parallel.device_mesh"},
    "mondrian.parallel.mesh": {"mesh_of": "mondrian.parallel.ranks.device_mesh"},
    "mondrian.resampling.places": {"places": "mondrian.resampling.axis_points.positions"},
    "mondrian.operators.stacked": {"stacked_mix": "mondrian.operators.kernel_mix.mix_kernels"},
    "mondrian.training": {
        "OperatorData": "mondrian.training.GridData",
        "OperatorTraining": "mondrian.training.GridTraining",
    },
    "mondrian.training.data": {"OperatorData": "mondrian.training.grids.GridData"},
    "mondrian.training.module": {"OperatorTraining": "mondrian.training.grids.GridTraining"},
    "mondrian.operators.evaluation": {
        "Evaluation": "mondrian.operators.KernelMethod",
        "Weights": "mondrian.operators.kernel_cache.WeightSnapshot",
    },
}


def former_names(module: str, otherwise: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """The `__getattr__` of a module that some names have left; other names are asked of `otherwise`, if given."""
    moved = {name: f"{place}.{name}" for name, place in NAMES.get(module, {}).items()} | RENAMED.get(module, {})

    def attribute(name: str) -> Any:
        if name in moved:
            _warn(f"{module}.{name} is now {moved[name]}")
            place, _, current = moved[name].rpartition(".")
            return getattr(import_module(place), current)
        if otherwise is not None:
            return otherwise(name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return attribute


class FormerModules(MetaPathFinder, Loader):
    """Imports a former module as a stand-in with the attributes of the modules that replace it."""

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

        module.__getattr__ = former_names(module.__name__, otherwise=attribute)  # type: ignore[method-assign]


def install() -> None:
    """Look for former modules first: files left behind in a former folder would make it an empty package."""
    if not any(isinstance(finder, FormerModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, FormerModules())


def warn_renamed(former: str, current: str, *, frames: int = 1) -> None:
    """Warn of an attribute that has another name now; its user is `frames` above the property that calls this."""
    _warn(f"{former} is now {current}", stacklevel=3 + frames)


def _warn(message: str, stacklevel: int = 3) -> None:
    warnings.warn(f"{message}; the next release removes the former name", DeprecationWarning, stacklevel=stacklevel)
