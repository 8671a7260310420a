"""What a sweep was asked for: the words that stay, the words that vary, and Hydra's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hydra.core.override_parser.types import IntervalSweep, Override

from mondrian.settings.compose import check_setting, override_of, quoted
from mondrian.support.files import write_json
from mondrian.training.record import joined
from mondrian.training.run import Run
from mondrian.training.settings import CHOICES, configure, default_folder

FILE = "sweep.json"
# Before what the user says, so that the same command makes the same choices and can go on after a crash.
OPTUNA = ("hydra.sweeper.direction=minimize", "hydra.sweeper.sampler.seed=0", "hydra.sweeper.n_jobs=1")
# How many are tried, and how many at once: a sweep may go on with others.
COUNTS = ("hydra.sweeper.n_trials", "hydra.sweeper.n_jobs", "hydra.sweeper.max_batch_size")


@dataclass(frozen=True)
class Plan:
    """The words of `mondrian sweep`, told apart.

    >>> Plan.of(["experiment=allen_cahn/fno", "scale=smoke", "seed=choice(0,1)", "hydra/sweeper=basic"]).varied
    ('seed=choice(0,1)',)
    """

    folder: Path
    fixed: tuple[str, ...]
    varied: tuple[str, ...]
    hydra: tuple[str, ...]

    @classmethod
    def of(cls, words: Sequence[str]) -> Plan:
        """`ValueError` where a word is no setting of `mondrian train`, or where none varies."""
        words = joined((), words)
        own = tuple(word for word in words if word.startswith(("hydra.", "hydra/")))
        rest = [word for word in words if word not in own]
        varied = tuple(word for word in rest if "=" in word and override_of(word).is_sweep_override())
        if not varied:
            raise ValueError("no setting varies; needed for example optimizer.lr=tag(log,interval(1e-4,1e-2))")
        for word in varied:
            if word.startswith(("run=", "resume=")):
                raise ValueError(f"{word} cannot vary: each run has a folder in that of the sweep")
        given = dict(word.split("=", 1) for word in rest if "=" in word)
        fixed = tuple(word for word in rest if word not in varied and not word.startswith(("run=", "resume=")))
        folder = override_of(f"run={given['run']}").value() if "run" in given else f"sweeps/{_name(given)}"
        plan = cls(Path(str(folder)), fixed, varied, own)
        config = configure(plan.first)
        for key in plan.keys:
            if key not in CHOICES:
                check_setting(config, key)
        return plan

    @property
    def keys(self) -> tuple[str, ...]:
        """The settings that vary."""
        return tuple(word.partition("=")[0] for word in self.varied)

    @property
    def first(self) -> list[str]:
        """Words of a run with the first of the recipes, data sets and scales: what they have in common is the same."""
        parsed = [override_of(word) for word in self.varied]
        kinds = {override.key_or_group: override for override in parsed}
        of_data = [key for key in kinds if key in ("experiment", "data", "scale") or key.startswith("data.")]
        return [*self.fixed, *(f"{key}={_first(kinds[key])}" for key in of_data)]

    @property
    def sampler(self) -> set[str]:
        """Hydra's words that decide what is tried, with those that stand for them where nothing is said."""
        words = joined(("hydra/sweeper=optuna", *OPTUNA), self.hydra)
        sweeper = (word for word in words if word.startswith(("hydra/sweeper", "hydra.sweeper.")))
        return {word for word in sweeper if word.partition("=")[0] not in COUNTS}

    @property
    def overrides(self) -> list[str]:
        """What Hydra is given: `+` because it knows nothing of the settings of a run."""
        optuna = not any(word.startswith("hydra/sweeper=") and word != "hydra/sweeper=optuna" for word in self.hydra)
        place = f"hydra.sweep.dir={quoted(self.folder)}"
        return [place, *(OPTUNA if optuna else ()), *self.hydra, *(f"+{word}" for word in self.varied)]

    def save(self) -> None:
        """Write `sweep.json`; a folder that holds another sweep is refused."""
        file = self.folder / FILE
        if file.exists():
            former = Plan.load(self.folder)
            if (former.fixed, former.varied, former.sampler) != (self.fixed, self.varied, self.sampler):
                words = " ".join((*former.fixed, *former.varied, *former.hydra))
                raise ValueError(
                    f"{self.folder} holds another sweep: {words}; the same words go on with it, run=... starts another"
                )
        content = asdict(self) | {"folder": str(self.folder)}
        write_json(file, content)

    @classmethod
    def load(cls, folder: Path) -> Plan:
        """The plan that a sweep's folder was begun with."""
        try:
            content = json.loads((folder / FILE).read_text())
        except FileNotFoundError:
            raise FileNotFoundError(f"{folder} is no sweep: it has no {FILE}") from None
        return cls(folder, *(tuple(content[key]) for key in ("fixed", "varied", "hydra")))


def settings_of(run: Run) -> dict[str, str]:
    """The words of a run by their keys; one that takes a setting away, `~key`, has no value."""
    return {key: value for key, _, value in (word.partition("=") for word in run.fact("words"))}


def _first(override: Override) -> str:
    """The first of the values of a word that varies, of an interval its lower end."""
    value = override.value()
    return str(value.start) if isinstance(value, IntervalSweep) else next(override.sweep_string_iterator())


def _name(given: dict[str, str]) -> str:
    experiment = given.get("experiment", "custom")
    plain = experiment if experiment.replace("/", "").isidentifier() else "recipes"
    return default_folder(plain, given.get("scale", "paper")).removeprefix("runs/")
