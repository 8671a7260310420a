"""What a league is told: problem, entrants, budgets, and where everything goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from mondrian.league.entrants import Entrant
from mondrian.settings.compose import composed, quoted, scaled, taken
from mondrian.settings.values import counts, flag, number, whole, words_of
from mondrian.support.process import cores

TITLES = {"allen_cahn": "Allen-Cahn", "navier_stokes": "Navier-Stokes"}
PROBLEMS = tuple(TITLES)
TUNING, SAMPLES, TIME = "tuning", "samples", "time"
PRACTICAL = ("entrants", "folder", "jobs")  # settings that change no result
# What a training is told by the league, whatever its entrant says.
TOLD = ("run", "resume", "seed", "max_steps", "optimizer.lr", "validate_every", "checkpoint_every", "data.path")


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
class League:
    """A comparison of entrants on one problem."""

    problem: str
    scale: str
    part: str
    folder: Path
    entrants: tuple[Entrant, ...]  # of this call
    everyone: tuple[Entrant, ...]  # of the part
    budgets: Budgets
    overrides: tuple[str, ...]  # settings other than the default ones that change results
    config: DictConfig

    @property
    def title(self) -> str:
        """In words, for people."""
        return f"{TITLES[self.problem]}, {self.part} part"

    @property
    def amounts(self) -> dict[str, str]:
        """What everyone has, by budget, in words."""
        found = {SAMPLES: f"The same samples: {self.budgets.samples:,}"}
        if self.budgets.minutes is not None:
            found[TIME] = f"The same time: {self.budgets.minutes:g} minutes of training on {self.cores}"
        return found

    @property
    def data(self) -> Path:
        """Where the data is: one set for all parts."""
        return self.folder / "data"

    @property
    def native_data(self) -> Path | None:
        """Test solutions that were computed at each resolution, where the league looks at those too."""
        return self.folder / "native" if flag(self.config, "native") else None

    @property
    def runs(self) -> Path:
        return self.folder / self.part

    @property
    def batch_size(self) -> int:
        return whole(self.config, "batch_size")

    @property
    def at_once(self) -> int:
        """Trainings at a time."""
        if self.config.jobs is not None:
            return whole(self.config, "jobs", least=0)
        return 1 if torch.cuda.is_available() else max(1, cores() // self.threads)

    @property
    def threads(self) -> int:
        return whole(self.config, "threads")

    @property
    def cores(self) -> str:
        """What a training runs on, in words."""
        return f"{self.threads} thread{'s' if self.threads > 1 else ''}"

    @property
    def horizon(self) -> int:
        """Frames of a rollout."""
        return whole(self.config, "horizon")

    @property
    def warmup(self) -> float | None:
        """The part of the steps in which the learning rate grows; None where each recipe says it."""
        return None if self.config.warmup is None else number(self.config, "warmup")

    def words(self, entrant: Entrant) -> list[str]:
        """The settings of an entrant that do not depend on budget, learning rate and seed."""
        common = [f"scale={self.scale}", f"data.path={quoted(self.data)}", f"batch_size={self.batch_size}"]
        return [*entrant.words(self.problem), *common, *self.special_words(entrant)]

    def special_words(self, entrant: Entrant) -> list[str]:
        """Those of its settings that do not come with its recipe."""
        width = words_of(self.config, f"widths.{entrant.model}") if entrant.model in self.config.widths else ()
        return [*words_of(self.config, "words"), *width, *entrant.own]

    def steps(self, samples: int | float) -> int:
        """Steps of the optimiser in which so many samples are seen."""
        return max(1, round(samples / self.batch_size))


def read(arguments: Sequence[str]) -> League:
    """The league that words such as `allen_cahn part=ablation entrants=[vit_mo]` describe."""
    names = [word for word in arguments if "=" not in word]
    if len(names) != 1 or names[0] not in PROBLEMS:
        raise ValueError(f"{' '.join(names) or 'nothing'} is no league; needed one of {', '.join(PROBLEMS)}")
    problem = names[0]
    chosen, rest = taken([word for word in arguments if "=" in word], {"scale": "cpu"})
    scale = chosen["scale"]
    config = composed("league", [f"league_scale={scaled('league_scale', problem, scale)}", *rest])
    part = str(config.part)
    for known_parts in (config.parts, config.budgets):
        if part not in known_parts:
            raise ValueError(f"part={part} is not known; needed one of {', '.join(map(str, known_parts))}")
    names_of_part, wanted = words_of(config, f"parts.{part}"), words_of(config, "entrants")
    for name in wanted:
        if name not in names_of_part:
            Entrant.named(problem, name, config.variants)
            raise ValueError(f"{name} is not in parts.{part}={list(names_of_part)}, of which entrants are a part")
    everyone = tuple(Entrant.named(problem, name, config.variants) for name in dict.fromkeys(names_of_part))
    league = League(
        problem,
        scale,
        part,
        Path(str(config.folder or f"leagues/{problem}_{scale}")),
        tuple(entrant for entrant in everyone if entrant.name in wanted),
        everyone,
        _budgets(config),
        tuple(word for word in rest if word.partition("=")[0] not in ("part", *PRACTICAL)),
        config,
    )
    _check(league)
    return league


def _check(league: League) -> None:
    """Refuse now what would stop the league later."""
    if not league.entrants:
        raise ValueError(f"entrants=[] of part {league.part}; needed some of {[e.name for e in league.everyone]}")
    if league.warmup is not None and not 0 <= league.warmup < 1:
        raise ValueError(f"warmup={league.warmup} must be a part of the steps, from 0 on and below 1, or null")
    for key in ("horizon", "batch_size", "threads"):
        whole(league.config, key)
    if league.config.jobs is not None:
        whole(league.config, "jobs", least=0)
    counts(league.config, "simulations")
    flag(league.config, "native")
    told = (*TOLD, *([] if league.warmup is None else ["optimizer.warmup"]))
    for entrant in league.everyone:
        for word in league.special_words(entrant):
            if word.partition("=")[0].lstrip("+") in told:
                raise ValueError(f"{word} of {entrant.name} is what the league decides, by its own settings")


def _budgets(config: DictConfig) -> Budgets:
    rates = list(config.rates) if OmegaConf.is_list(config.rates) else []
    if not rates or not all(_positive(rate) for rate in rates) or len({f"{rate:g}" for rate in rates}) < len(rates):
        raise ValueError(f"rates={config.rates} must be different learning rates, for example rates=[1e-3,3e-3]")
    minutes = None if config.minutes is None else number(config, "minutes")
    if minutes is not None and not minutes > 0:
        raise ValueError(f"minutes={minutes} must be positive, or null")
    return Budgets(
        samples=whole(config, "samples"),
        minutes=minutes,
        tuning_samples=whole(config, "tuning_samples"),
        rates=tuple(map(float, rates)),
        wider=whole(config, "wider", least=0),
        finalists=whole(config, "finalists"),
        seeds=whole(config, "seeds"),
        best=whole(config, "best", least=0),
    )


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
