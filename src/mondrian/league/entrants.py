"""Who takes part in a league."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mondrian.settings.recipes import recipe_names

STAGGERED = "_staggered"
FAMILIES = {"vit": "ViT-NO", "swin": "Swin-NO", "nbr": "Neighbourhood-NO", "unet": "UNet-NO"}
OPERATORS = {
    "integral": "integral",
    "low_rank": "low rank",
    "attention": "point attention",
    "spectral": "spectral",
    "interpolating": "interpolating",
    "mo": "mixture",
    "sepmo": "separable mixture",
}
BASELINES = {
    "fno": "FNO",
    "ffno": "Factorised FNO",
    "gt": "Galerkin transformer",
    "factformer": "FactFormer",
    "factformer_updown": "FactFormer, down and up",
    "fano": "FANO",
}


@dataclass(frozen=True)
class Entrant:
    """A recipe of `mondrian models`, or with `_staggered` behind its name the same on staggered decompositions.

    A variant is one of these under a name of its own. `overrides` are settings that do not come with the recipe.

    >>> Entrant.named("allen_cahn", "vit_sepmo_staggered")
    Entrant(name='vit_sepmo_staggered', label='ViT-NO, separable mixture, staggered', ours=True, base='', overrides=())
    """

    name: str
    label: str
    ours: bool
    base: str = ""
    overrides: tuple[str, ...] = ()

    @classmethod
    def named(cls, problem: str, name: str) -> Entrant:
        """The entrant that a recipe's name stands for."""
        recipe = name.removesuffix(STAGGERED)
        ours = recipe not in BASELINES
        if f"{problem}/{recipe}" not in recipe_names() or (name != recipe and not ours):
            known = ", ".join(known_names(problem))
            raise ValueError(f"no entrant {name!r} of {problem}; needed recipes ({known}), ours also with {STAGGERED}")
        if not ours:
            return cls(name, BASELINES[name], ours=False)
        family, _, operator = recipe.partition("_")
        known_parts = family in FAMILIES and operator in OPERATORS
        label = f"{FAMILIES[family]}, {OPERATORS[operator]}" if known_parts else recipe.replace("_", " ")
        return cls(name, label + (", staggered" if name != recipe else ""), ours=True)

    @classmethod
    def variant(cls, problem: str, name: str, description: Any) -> Entrant:
        """A recipe with other settings, from `{base: fno, label: wide, overrides: [model.hidden_channels=64]}`."""
        if isinstance(description, Mapping) and "words" in description:
            warnings.warn(f"variants.{name}.words is now variants.{name}.overrides", FutureWarning, stacklevel=2)
            description = {"overrides" if key == "words" else key: value for key, value in description.items()}
        if not isinstance(description, Mapping) or set(description) != {"base", "label", "overrides"}:
            raise ValueError(f"variants.{name}={description}; needed base, label and overrides")
        own = description["overrides"]
        if not isinstance(own, Sequence) or not all(isinstance(override, str) and "=" in override for override in own):
            raise ValueError(f"variants.{name}.overrides={own} must be a list of settings such as optimizer.clip=1")
        base = cls.named(problem, str(description["base"]))
        return cls(name, str(description["label"]), base.ours, base.name, tuple(own))

    @property
    def model(self) -> str:
        """The name of the recipe, staggered or not, that this is or varies."""
        return self.base or self.name

    def recipe(self, problem: str) -> list[str]:
        """The overrides that choose the recipe; `overrides` go last."""
        recipe = self.model.removesuffix(STAGGERED)
        return [f"experiment={problem}/{recipe}", *(["model.stagger=true"] if recipe != self.model else [])]


def known_names(problem: str) -> list[str]:
    """The recipes of a problem."""
    return [name.partition("/")[2] for name in recipe_names() if name.startswith(f"{problem}/")]
