"""Who takes part in a league."""

from __future__ import annotations

from dataclasses import dataclass

from mondrian.recipes import recipe_names

STAGGERED = "_staggered"
FAMILIES = {"vit": "ViT-NO", "swin": "Swin-NO", "nbr": "Neighbourhood-NO"}
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

    >>> Entrant.named("allen_cahn", "vit_sepmo_staggered")
    Entrant(name='vit_sepmo_staggered', label='ViT-NO, separable mixture, staggered', ours=True)
    """

    name: str
    label: str
    ours: bool

    @classmethod
    def named(cls, problem: str, name: str) -> Entrant:
        recipe = name.removesuffix(STAGGERED)
        ours = recipe not in BASELINES
        if f"{problem}/{recipe}" not in recipe_names() or (name != recipe and not ours):
            known = ", ".join(known_names(problem))
            raise ValueError(f"no entrant {name!r} of {problem}; needed recipes ({known}), ours also with {STAGGERED}")
        if not ours:
            return cls(name, BASELINES[name], ours=False)
        family, _, operator = recipe.partition("_")
        label = f"{FAMILIES[family]}, {OPERATORS[operator]}"
        return cls(name, label + (", staggered" if name != recipe else ""), ours=True)

    def words(self, problem: str) -> list[str]:
        """What `mondrian train` is told."""
        recipe = self.name.removesuffix(STAGGERED)
        return [f"experiment={problem}/{recipe}", *(["model.stagger=true"] if recipe != self.name else [])]


def known_names(problem: str) -> list[str]:
    """The recipes of a problem."""
    return [name.partition("/")[2] for name in recipe_names() if name.startswith(f"{problem}/")]
