"""The results of a sweep: one row a run, read from the folders of the runs, whoever trained them."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from mondrian.support.files import write_atomically
from mondrian.support.text import aligned
from mondrian.sweep.plan import SweepPlan, settings_of
from mondrian.training.run import Run


@dataclass(frozen=True)
class Trial:
    """One run: the settings that were chosen for it, and the validation at which its loss was least."""

    number: int
    chosen: tuple[str, ...]
    valid_loss: float
    valid_mae: float
    step: int
    steps: int
    parameters: int
    seconds: float
    state: str = "complete"


@dataclass(frozen=True)
class Results:
    """All runs of a sweep in the order in which they were tried."""

    folder: Path
    keys: tuple[str, ...]
    trials: tuple[Trial, ...]

    @classmethod
    def read(cls, plan: SweepPlan, states: Mapping[int, str]) -> Results:
        """The runs that have begun, with the states that the study knows."""
        runs = {int(path.name): Run(path) for path in plan.folder.iterdir() if path.name.isdecimal()}
        trials = [
            _trial(number, run, plan.keys, states.get(number, "complete"))
            for number, run in sorted(runs.items())
            if run.record.exists()
        ]
        return cls(plan.folder, plan.keys, tuple(trials))

    @property
    def best(self) -> Trial:
        """The run of the least validation loss."""
        if not any(math.isfinite(trial.valid_loss) for trial in self.trials):
            raise ValueError(f"no run of {self.folder} has come to a finite validation loss")
        return min(self.trials, key=lambda trial: _rank(trial.valid_loss))

    def run(self, trial: Trial) -> Run:
        """The folder of a run."""
        return Run(self.folder / str(trial.number))

    def save(self) -> None:
        """Write `sweep.csv`."""
        columns = [field.name for field in fields(Trial) if field.name not in ("number", "chosen")]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["trial", *self.keys, *columns])
        for trial in self.trials:
            writer.writerow([trial.number, *trial.chosen, *(_cell(getattr(trial, name)) for name in columns)])
        write_atomically(self.folder / "sweep.csv", text.getvalue().encode())

    def table(self) -> str:
        """All runs, the best first."""
        rows = [["trial", *self.keys, "validation loss", "MAE", "parameters", "seconds", "state"]]
        for trial in sorted(self.trials, key=lambda trial: _rank(trial.valid_loss)):
            cells = [
                f"{trial.valid_loss:.4g}",
                f"{trial.valid_mae:.4g}",
                f"{trial.parameters:,}",
                f"{trial.seconds:.0f}",
                trial.state,
            ]
            rows.append([str(trial.number), *map(_short, trial.chosen), *cells])
        return aligned(rows, left=())


def _trial(number: int, run: Run, keys: tuple[str, ...], state: str) -> Trial:
    settings = settings_of(run)
    history = run.history()
    losses = history.get("valid_loss", np.zeros(0))
    known = np.isfinite(losses)
    place = int(np.nanargmin(np.where(known, losses, np.nan))) if known.any() else None

    def at_best(column: str) -> float:
        return float(history[column][place]) if place is not None else math.nan

    return Trial(
        number=number,
        chosen=tuple(settings[key] for key in keys),
        valid_loss=at_best("valid_loss"),
        valid_mae=at_best("valid_mae"),
        step=0 if place is None else int(at_best("step")),
        steps=int(history["step"].max()) if len(losses) else 0,
        parameters=int(run.fact("parameters")),
        seconds=float(history["seconds"].max()) if len(losses) else 0.0,
        state=state,
    )


def _rank(loss: float) -> float:
    return loss if math.isfinite(loss) else math.inf


def _cell(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _short(text: str) -> str:
    """A number that a sweeper drew has sixteen digits."""
    try:
        return text if text.lstrip("-").isdecimal() else f"{float(text):.4g}"
    except ValueError:
        return text
