"""How a training of a league ended: all that planning, tables and learning curves need, in one small file.

RUN/outcome.json and RUN/evaluation*/ are enough to show a training, and to count it as done. So a league's folder can
go from machine to machine without its data and weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from mondrian.data.splits import Splits
from mondrian.league.machine import machine
from mondrian.support.files import write_json
from mondrian.training.run import Run

FILE = "outcome.json"


@dataclass(frozen=True)
class Outcome:
    """What a training left behind; of one that diverged only the `message` and the time that it took.

    `samples` and `mae` are its learning curve, the validation error against the training samples that it had seen.
    `seconds` are those of the clock, with validation, and `samples_per_second` those of its training steps.
    """

    message: str = ""
    valid_loss: float = math.inf  # the best
    seconds: float = 0.0
    parameters: int = 0
    points: tuple[int, ...] = ()  # of the grid that it was trained on
    samples: tuple[float, ...] = ()
    mae: tuple[float, ...] = ()
    samples_per_second: float = math.nan
    overrides: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""

    @property
    def done(self) -> bool:
        return not self.message

    @classmethod
    def of(cls, run: Run) -> Outcome:
        """What a training that has ended left in its run."""
        history = run.history()
        losses = history["valid_loss"][np.isfinite(history["valid_loss"])]
        if not len(losses):
            return cls.diverged(run, "no validation loss was finite")
        validated = np.isfinite(history["valid_mae"])
        return cls(
            valid_loss=float(losses.min()),
            seconds=_seconds(run),
            parameters=run.facts["parameters"],
            points=run.data(Splits).dataset("train", memory=0).grid.points,
            samples=tuple(history["samples"][validated].tolist()),
            mae=tuple(history["valid_mae"][validated].tolist()),
            samples_per_second=float(np.nanmedian(history["samples_per_second"])),
            overrides=tuple(run.facts["words"]),
            versions=run.facts["versions"],
            machine=machine(),
        )

    @classmethod
    def diverged(cls, run: Run, message: str) -> Outcome:
        """Of a training that did not stay finite."""
        return cls(message=message or "diverged", seconds=_seconds(run), machine=machine())

    @classmethod
    def load(cls, folder: Path) -> Outcome | None:
        """What `save` left in the folder of a training; None where it has not ended."""
        file = folder / FILE
        if not file.exists():
            return None
        content: dict[str, Any] = json.loads(file.read_text())
        if "words" in content:  # their name until version 0.2
            content["overrides"] = content.pop("words")
        known = {each.name for each in fields(cls)}
        if set(content) != known:
            given = ", ".join(content)
            raise ValueError(f"{file} has {given}; needed {', '.join(sorted(known))}: another version wrote it")
        return cls.from_json(content)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Outcome:
        """From values of JSON; those that are missing have their default."""
        values: dict[str, Any] = {
            key: math.nan if value is None else tuple(value) if isinstance(value, list) else value
            for key, value in content.items()
        }
        return cls(**values)

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, asdict(self))


def _seconds(run: Run) -> float:
    history = run.history() if run.history_file.exists() else {}
    return float(history["seconds"][-1]) if history else 0.0
