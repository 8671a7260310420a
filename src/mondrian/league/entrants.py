"""Who takes part in a league."""

from __future__ import annotations

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

    A variant is one of these under a name of its own, with more settings (`own`).

    >>> Entrant.named("allen_cahn", "vit_sepmo_staggered")
    Entrant(name='vit_sepmo_staggered', label='ViT-NO, separable mixture, staggered', ours=True, base='', own=())
    """

    name: str
    label: str
    ours: bool
    base: str = ""
    own: tuple[str, ...] = ()

    @classmethod
    def named(cls, problem: str, name: str, variants: Mapping[str, Any] | None = None) -> Entrant:
        if variants is not None and name in variants:
            variant = variants[name]
            if not isinstance(variant, Mapping) or set(variant) != {"base", "label", "words"}:
                raise ValueError(f"variants.{name}={variant}; needed base, label and words")
            own = variant["words"]
            if not isinstance(own, Sequence) or not all(isinstance(word, str) and "=" in word for word in own):
                raise ValueError(f"variants.{name}.words={own} must be a list of settings such as optimizer.clip=1")
            base = cls.named(problem, str(variant["base"]))
            return cls(name, str(variant["label"]), base.ours, base.name, tuple(own))
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

    @property
    def model(self) -> str:
        """The name of the recipe, staggered or not, that this is or varies."""
        return self.base or self.name

    def words(self, problem: str) -> list[str]:
        """What `mondrian train` is told of the recipe; `own` settings go last."""
        recipe = self.model.removesuffix(STAGGERED)
        return [f"experiment={problem}/{recipe}", *(["model.stagger=true"] if recipe != self.model else [])]


def known_names(problem: str) -> list[str]:
    """The recipes of a problem."""
    return [name.partition("/")[2] for name in recipe_names() if name.startswith(f"{problem}/")]
