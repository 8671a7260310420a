"""Recipes: named experiments under `conf/experiment`, and the models that they describe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from hydra import compose, initialize_config_module
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from mondrian.artefact import OperatorModel
from mondrian.settings.compose import plain
from mondrian.settings.former import current_config, current_overrides
from mondrian.settings.models import ModelSettings
from mondrian.support.text import one_line


def recipe_names() -> list[str]:
    """All recipes, such as `allen_cahn/vit_mo`: those of a problem."""
    return sorted(name for name in _names(files("mondrian.conf") / "experiment", "") if "/" in name)


def recipe(name: str, *overrides: str) -> dict[str, Any]:
    """The configuration of a recipe, with Hydra's overrides applied."""
    if name not in recipe_names():
        family = [other for other in recipe_names() if other.split("/")[0] == name.split("/")[0]]
        raise ValueError(f"no recipe {name!r}; needed one of {', '.join(family or recipe_names())}")
    with _naming(name, *overrides):
        return recipes([name], *overrides)[name]


def recipes(names: Iterable[str], *overrides: str) -> dict[str, dict[str, Any]]:
    """The configurations of several recipes, composed together: setting Hydra up is the slow part."""
    overrides = tuple(current_overrides(overrides))
    with initialize_config_module("mondrian.conf", version_base="1.3"):
        composed = {name: compose("recipe", overrides=[f"experiment={name}", *overrides]) for name in names}
    return {name: current_config(plain(config)) for name, config in composed.items()}


def build(name: str, *overrides: str) -> OperatorModel:
    """The untrained model of a recipe.

    >>> model = build("allen_cahn/vit_attention", "model.n_layers=2")
    >>> model.spec.n_layers
    2
    """
    config = recipe(name, *overrides)
    with _naming(name, *overrides):
        return ModelSettings(config["model"]).spec().build()


@contextmanager
def _naming(*arguments: str) -> Iterator[None]:
    """Errors as `ValueError` with the recipe and the overrides."""
    try:
        yield
    except (ValueError, HydraException, OmegaConfBaseException) as error:
        raise ValueError(f"{' '.join(arguments)}: {one_line(error)}") from error


def _names(folder: Traversable, prefix: str) -> list[str]:
    names = []
    for entry in folder.iterdir():
        if entry.is_dir():
            names += _names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".yaml") and entry.name != "base.yaml":
            names.append(prefix + entry.name.removesuffix(".yaml"))
    return names
