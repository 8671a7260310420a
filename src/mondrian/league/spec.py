"""What a league compares and how: entrants, budgets, and the conditions that are the same for everyone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mondrian.league.entrants import Entrant
from mondrian.settings.compose import quoted

TITLES = {"allen_cahn": "Allen-Cahn", "navier_stokes": "Navier-Stokes"}
PROBLEMS = tuple(TITLES)
TUNING, SAMPLES, TIME = "tuning", "samples", "time"
FORMER_PARTS = {"reasons": "design_ablation"}


@dataclass(frozen=True)
class Budgets:
    """How much each entrant may train: so many samples, and in another training so many minutes.

    `rates` are the learning rates that each tries first, on `tuning_samples` samples each, and up to `wider` more
    beyond an end where the best is; so many `finalists` of them train for the first budget. `seeds` are the trainings
    of each of the `best` entrants.
    """

    samples: int
    minutes: float | None
    tuning_samples: int
    rates: tuple[float, ...]
    wider: int
    finalists: int
    seeds: int
    best: int


@dataclass(frozen=True)
class Conditions:
    """What is the same for every entrant: data, batches, threads of a training, frames of a rollout.

    `native`: solutions that were computed on each grid are tested too. `warmup` is the part of the steps in which the
    learning rate grows; None where each recipe says it.
    """

    simulations: Mapping[str, int]
    native: bool
    horizon: int
    batch_size: int
    threads: int
    warmup: float | None


@dataclass(frozen=True)
class LeagueSpec:
    """A comparison of entrants on one problem.

    `entrants` train in this call; `everyone` belongs to the part; `candidates` are all that the configuration can name.
    `changed` are the overrides of this call that change results. `published` is the folder of results that are kept.
    """

    problem: str
    scale: str
    part: str
    folder: Path
    entrants: tuple[Entrant, ...]
    everyone: tuple[Entrant, ...]
    budgets: Budgets
    conditions: Conditions
    changed: tuple[str, ...] = ()
    at_once: int = 0  # trainings
    published: Path | None = None
    candidates: Mapping[str, Entrant] = field(default_factory=dict, compare=False, repr=False)

    @property
    def title(self) -> str:
        """In words, for people."""
        return f"{TITLES[self.problem]}, {self.part.replace('_', ' ')} part"

    @property
    def amounts(self) -> dict[str, str]:
        """What everyone has, by budget, in words."""
        amounts = {SAMPLES: f"The same samples: {self.budgets.samples:,}"}
        if self.budgets.minutes is not None:
            amounts[TIME] = f"The same time: {self.budgets.minutes:g} minutes of training on {self.cores}"
        return amounts

    @property
    def last_budget(self) -> str:
        """The budget by which the best are chosen."""
        return SAMPLES if self.budgets.minutes is None else TIME

    @property
    def data(self) -> Path:
        """Where the data is: one set for all parts."""
        return self.folder / "data"

    @property
    def native_data(self) -> Path | None:
        """Test solutions that were computed at each resolution, where the league tests those too."""
        return self.folder / "native" if self.conditions.native else None

    @cached_property
    def runs(self) -> Path:
        """The folder of the part; one that was made under the part's former name keeps it."""
        for former, part in FORMER_PARTS.items():
            if part == self.part and (self.folder / former).exists() and not (self.folder / part).exists():
                return self.folder / former
        return self.folder / self.part

    @property
    def cores(self) -> str:
        """What a training runs on, in words."""
        threads = self.conditions.threads
        return f"{threads} thread{'s' if threads > 1 else ''}"

    def overrides(self, entrant: Entrant) -> list[str]:
        """The overrides of an entrant that do not depend on budget, learning rate and seed."""
        common = [
            f"scale={self.scale}",
            f"data.path={quoted(self.data)}",
            f"batch_size={self.conditions.batch_size}",
        ]
        return [*entrant.recipe(self.problem), *common, *entrant.overrides]

    def steps(self, samples: int | float) -> int:
        """Steps of the optimiser in which so many samples are seen."""
        return max(1, round(samples / self.conditions.batch_size))

    def to_json(self) -> dict[str, Any]:
        """What `from_json` needs: without the settings of one call and one machine."""
        return {
            "problem": self.problem,
            "scale": self.scale,
            "part": self.part,
            "conditions": asdict(self.conditions),
            "budgets": asdict(self.budgets),
            "changed": list(self.changed),
            "entrants": [asdict(entrant) for entrant in self.everyone],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], folder: Path) -> LeagueSpec:
        """A league whose results are in `folder`, by part."""
        everyone = tuple(Entrant(**_tuples(entrant)) for entrant in content["entrants"])
        return cls(
            problem=content["problem"],
            scale=content["scale"],
            part=content["part"],
            folder=folder,
            entrants=everyone,
            everyone=everyone,
            budgets=Budgets(**_tuples(content["budgets"])),
            conditions=Conditions(**content["conditions"]),
            changed=tuple(content["changed"]),
        )


def _tuples(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
