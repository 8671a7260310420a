"""What a sweep was asked for: the overrides that stay, the ones that vary, and how to search."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from mondrian.settings.compose import check_setting, parsed_override, quoted
from mondrian.settings.training import CHOICES, configure, default_folder
from mondrian.settings.values import Readers, integer, read_overrides, string
from mondrian.support.settings_guard import SettingsGuard
from mondrian.support.text import shell_word
from mondrian.sweep.former import by_hydra, renewed
from mondrian.sweep.space import Dimension, combinations, dimension, several
from mondrian.training.record import joined
from mondrian.training.run import Run

FILE = "sweep.json"
SAMPLERS, PRUNERS = ("tpe", "random", "grid"), ("none", "median", "halving")
TRIALS = 20
READERS: Readers = {
    "trials": integer,
    "sampler": string,
    "sampler_seed": partial(integer, least=0),
    "startup_trials": partial(integer, least=0),
    "pruner": string,
    "storage": string,
    "jobs": integer,
}


@dataclass(frozen=True)
class Search:
    """How the settings are chosen: `trials` runs in all; None is 20, or every combination for a grid."""

    trials: int | None = None
    sampler: str = "tpe"
    sampler_seed: int = 0
    startup_trials: int = 10
    pruner: str = "none"

    def __post_init__(self) -> None:
        for name, known in {"sampler": SAMPLERS, "pruner": PRUNERS}.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name}={getattr(self, name)} is not known; needed one of {', '.join(known)}")


@dataclass(frozen=True)
class SweepPlan:
    """The overrides of `mondrian sweep`, told apart.

    >>> plan = SweepPlan.of(["experiment=allen_cahn/fno", "scale=smoke", "seed=choice(0,1)", "sampler=grid"])
    >>> plan.varied, plan.search.sampler, plan.trials
    (('seed=choice(0,1)',), 'grid', 2)
    """

    folder: Path
    fixed: tuple[str, ...]
    varied: tuple[str, ...]
    search: Search
    storage: str | None = None
    jobs: int = 1

    @classmethod
    def of(cls, overrides: Sequence[str]) -> SweepPlan:
        """`ValueError` where an override is no setting of `mondrian train`, or where none varies.

        `run=FOLDER` alone, beside settings of the search, is the sweep that the folder holds.
        """
        overrides = joined((), renewed(overrides))
        own = read_overrides([each for each in overrides if each.partition("=")[0] in READERS], READERS)
        rest = [each for each in overrides if each.partition("=")[0] not in READERS]
        storage, jobs = own.pop("storage", None), own.pop("jobs", 1)
        given = dict(each.split("=", 1) for each in rest if "=" in each)
        if list(given) == ["run"] and len(rest) == 1:
            plan = cls.load(_folder(given))
            return cls(plan.folder, plan.fixed, plan.varied, Search(**vars(plan.search) | own), storage, jobs)
        varied = tuple(each for each in rest if several(each))
        if not varied:
            raise ValueError("no setting varies; needed for example optimizer.lr=tag(log,interval(1e-4,1e-2))")
        for each in varied:
            if each.startswith(("run=", "resume=")):
                raise ValueError(f"{each} cannot vary: each run has a folder in that of the sweep")
        fixed = tuple(each for each in rest if each not in varied and not each.startswith(("run=", "resume=")))
        plan = cls(_folder(given), fixed, varied, Search(**own), storage, jobs)
        plan._check()
        return plan

    def _check(self) -> None:
        """Refuse settings that no run has, and runs on several devices."""
        config = configure(self.first)
        for key in self.keys:
            if key not in CHOICES:
                check_setting(config, key)
        devices = OmegaConf.select(config, "trainer.devices")
        if (isinstance(devices, int) and devices != 1) or OmegaConf.is_list(devices):
            raise ValueError(f"trainer.devices={devices}: a trial is one process on one device; needed jobs=...")
        if self.search.sampler == "grid":
            combinations(self.dimensions)

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The values of each setting that varies."""
        return tuple(map(dimension, self.varied))

    @property
    def keys(self) -> tuple[str, ...]:
        """The settings that vary."""
        return tuple(each.partition("=")[0] for each in self.varied)

    @property
    def trials(self) -> int:
        """How many runs the sweep has in all, whoever trains them."""
        if self.search.sampler == "grid":
            every = combinations(self.dimensions)
            return min(every, self.search.trials or every)
        return self.search.trials or TRIALS

    @property
    def first(self) -> list[str]:
        """Overrides of a run with the first of the recipes, data sets and scales: what is common is the same."""
        of_data = [
            each
            for each in self.dimensions
            if each.key in ("experiment", "data", "scale") or each.key.startswith("data.")
        ]
        return [*self.fixed, *(f"{each.key}={each.first}" for each in of_data)]

    def remember(self) -> str:
        """Write `sweep.json` and return the name of the study; a folder that holds another sweep is refused.

        Whoever may come at the same time needs the lock of the folder.
        """
        file = self.folder / FILE
        if by_hydra(file):
            raise ValueError(
                f"{self.folder} is a sweep by Hydra's sweeper: `mondrian sweep {self._named}` shows its results; "
                "run=... starts another"
            )
        advice = f"the same overrides, or {self._named} alone, join the sweep; run=... starts another"
        guard = SettingsGuard(file, frozenset({"trials", "study"}), advice)
        study = (guard.stored() or {}).get("study", f"{self.folder.name}-{uuid.uuid4().hex[:8]}")
        settings = {"fixed": sorted(self.fixed), "varied": self.varied, **vars(self.search), "study": study}
        # The address of a database may hold a password.
        guard.remember(settings | {"storage": "journal" if self.storage is None else "database"})
        return str(study)

    @property
    def _named(self) -> str:
        """The folder as the shell wants it."""
        return shell_word(f"run={quoted(self.folder)}")

    @classmethod
    def load(cls, folder: Path) -> SweepPlan:
        """The plan that a sweep's folder was begun with, by Hydra's sweeper too."""
        content = SettingsGuard(folder / FILE).stored()
        if content is None:
            raise ValueError(f"{folder} is no sweep: it has no {FILE}")
        fixed, varied = (_overrides(folder, content, key) for key in ("fixed", "varied"))
        search = Search(**{key: content[key] for key in vars(Search()) if key in content})
        return cls(folder, fixed, varied, search)


def _overrides(folder: Path, content: Mapping[str, Any], key: str) -> tuple[str, ...]:
    overrides = content.get(key)
    if not isinstance(overrides, list) or not all(isinstance(each, str) for each in overrides):
        raise ValueError(f"{folder / FILE} has {key}={overrides}; needed a list of overrides")
    return tuple(overrides)


def settings_of(run: Run) -> dict[str, str]:
    """The overrides of a run by their keys; one that takes a setting away, `~key`, has no value."""
    return {key: value for key, _, value in (each.partition("=") for each in run.fact("words"))}


def _folder(given: Mapping[str, str]) -> Path:
    if "run" in given:
        return Path(str(parsed_override(f"run={given['run']}").value()))
    experiment = given.get("experiment", "custom")
    plain = experiment if experiment.replace("/", "").isidentifier() else "recipes"
    return Path("sweeps") / default_folder(plain, given.get("scale", "paper")).removeprefix("runs/")
