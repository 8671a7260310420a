"""Recipes: named experiments under `conf/experiment`, and the models that they describe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from importlib.resources import files
from importlib.resources.abc import Traversable

import torch
from hydra import compose, initialize_config_module
from hydra.errors import HydraException, InstantiationException
from hydra.utils import get_object, instantiate
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from mondrian.artefact import ModelSpec, OperatorModel
from mondrian.support.text import one_line


def recipe_names() -> list[str]:
    """All recipes, such as `allen_cahn/vit_mo`: those of a problem."""
    return sorted(name for name in _names(files("mondrian.conf") / "experiment", "") if "/" in name)


def recipe(name: str, *overrides: str) -> DictConfig:
    """The configuration of a recipe, with Hydra's overrides applied."""
    if name not in recipe_names():
        family = [other for other in recipe_names() if other.split("/")[0] == name.split("/")[0]]
        raise ValueError(f"no recipe {name!r}; needed one of {', '.join(family or recipe_names())}")
    with _named(name, *overrides):
        return recipes([name], *overrides)[name]


def recipes(names: Iterable[str], *overrides: str) -> dict[str, DictConfig]:
    """The configurations of several recipes, composed together: setting Hydra up is the slow part."""
    with initialize_config_module("mondrian.conf", version_base="1.3"):
        return {name: compose("recipe", overrides=[f"experiment={name}", *overrides]) for name in names}


def build(name: str, *overrides: str) -> OperatorModel:
    """The untrained model of a recipe.

    >>> model = build("allen_cahn/vit_attention", "model.n_layers=2")
    >>> model.spec.n_layers
    2
    """
    config = recipe(name, *overrides)
    with _named(name, *overrides):
        made = instantiate(config.model, _convert_="all")
    return made.build() if isinstance(made, ModelSpec) else made


def spec_from(model: DictConfig) -> ModelSpec:
    """The spec of the model that some settings describe. Their target makes a model, or is a spec of one's own."""
    target = model.get("_target_")
    kind = get_object(target) if isinstance(target, str) else None
    if isinstance(kind, type) and issubclass(kind, ModelSpec):
        known = [field.name for field in fields(kind)]
        foreign = [key for key in map(str, model) if key not in (*known, "_target_")]
        if foreign:
            raise ValueError(
                f"{kind.__name__} has no {', '.join(foreign)}; it has {known}. The recipe brings settings of its own "
                "model: those of fno fit all"
            )
    with torch.device("meta"):
        made = instantiate(model, _convert_="all")
    spec = made if isinstance(made, ModelSpec) else getattr(made, "spec", None)
    if not isinstance(spec, ModelSpec):
        raise ValueError(f"model._target_={target} makes a {type(made).__name__}; needed a ModelSpec, or its model")
    return spec


@contextmanager
def _named(*words: str) -> Iterator[None]:
    """Errors of Hydra as `ValueError` with the recipe and the overrides, and with our own message if there is one."""
    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        cause = error.__cause__ if isinstance(error, InstantiationException) else None
        raise ValueError(f"{' '.join(words)}: {one_line(cause or error)}") from error


def _names(folder: Traversable, prefix: str) -> list[str]:
    names = []
    for entry in folder.iterdir():
        if entry.is_dir():
            names += _names(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".yaml") and entry.name != "base.yaml":
            names.append(prefix + entry.name.removesuffix(".yaml"))
    return names
