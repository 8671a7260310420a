"""What the trainings of a league left, as rows of a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from mondrian.evaluation import Evaluation
from mondrian.league.entrants import Entrant
from mondrian.league.job import NATIVE
from mondrian.league.plan import Job, Plan
from mondrian.run import Run


@dataclass(frozen=True)
class Score:
    """A number that several seeds gave: the mean, and the standard deviation where there is more than one."""

    mean: float
    deviation: float | None
    seeds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Score:
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation, len(values))

    def __str__(self) -> str:
        """Three digits, as many of the deviation as fit beside them.

        >>> print(Score(0.03124, 0.00041, 3), Score(0.5, None, 1))
        0.0312 ± 0.0004 0.500
        """
        if not 0 < self.mean < float("inf"):
            return str(self.mean)
        places = max(0, 2 - int(np.floor(np.log10(self.mean))))
        spread = "" if self.deviation is None else f" ± {self.deviation:.{places}f}"
        return f"{self.mean:.{places}f}{spread}"


@dataclass(frozen=True)
class Curve:
    """The validation error of one training against the samples that it had seen."""

    samples: Float[np.ndarray, " validation"]
    mae: Float[np.ndarray, " validation"]

    @classmethod
    def of(cls, run: Run) -> Curve:
        history = run.history()
        there = np.isfinite(history["valid_mae"])
        return cls(history["samples"][there], history["valid_mae"][there])


@dataclass(frozen=True)
class Row:
    """An entrant under one budget. `scores` are named `mae 32x32`, `native mae 64x64`, `rollout 64x64` and so on."""

    entrant: Entrant
    budget: str
    parameters: int
    speed: float
    rate: float
    samples: int
    scores: dict[str, Score]
    jobs: tuple[Job, ...]

    @property
    def minutes(self) -> float:
        """The time that its training takes, without validation."""
        return self.samples / self.speed / 60

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.entrant.name,
            "label": self.entrant.label,
            "ours": self.entrant.ours,
            "budget": self.budget,
            "parameters": self.parameters,
            "samples_per_second": self.speed,
            "learning_rate": self.rate,
            "samples": self.samples,
            "minutes": self.minutes,
            "seeds": len(self.jobs),
            "scores": {name: asdict(score) for name, score in self.scores.items()},
        }


def collect(plan: Plan) -> dict[str, list[Row]]:
    """For each budget the entrants that have ended, the best first: by the error of the first resolution."""
    found: dict[str, list[Row]] = {}
    for entrant in plan.league.everyone:
        if entrant.name not in plan.speeds:
            continue
        for budget, first in plan.trainings(entrant).items():
            seeds = range(plan.league.budgets.seeds)
            jobs = [first, *(plan.trainings(entrant, seed)[budget] for seed in seeds if seed)]
            done = tuple(job for job in jobs if job.outcome is not None and job.outcome["state"] == "done")
            if done:
                found.setdefault(budget, []).append(_row(plan, budget, done))
    for rows in found.values():
        rows.sort(key=lambda row: row.scores[_first(plan)].mean)
    return found


def _first(plan: Plan) -> str:
    points = plan.league.config.points
    return f"mae {'x'.join(map(str, points))}"


def _row(plan: Plan, budget: str, jobs: tuple[Job, ...]) -> Row:
    values: dict[str, list[float]] = {}
    for job in jobs:
        for name, value in _scores(job).items():
            values.setdefault(name, []).append(value)
    entrant = jobs[0].entrant
    return Row(
        entrant,
        budget,
        parameters=jobs[0].run.facts["parameters"],
        speed=plan.speeds[entrant.name],
        rate=jobs[0].rate,
        samples=jobs[0].steps * plan.league.batch_size,
        scores={name: Score.of(found) for name, found in values.items()},
        jobs=jobs,
    )


def _scores(job: Job) -> dict[str, float]:
    found = {}
    for prefix, folder in {"": job.run.evaluation, "native ": job.folder / NATIVE}.items():
        if not folder.exists():
            continue
        evaluation = Evaluation.load(folder)
        for entry in evaluation.one_step:
            place = "x".join(map(str, entry.points))
            found[f"{prefix}mae {place}"] = entry.model["mae"].mean
            found[f"{prefix}relative L2 {place}"] = entry.model["relative_l2"].mean
        for rollout in evaluation.rollout:
            place = "x".join(map(str, rollout.points))
            found[f"{prefix}rollout {place}"] = rollout.mean_relative_l2.mean
            found[f"{prefix}correlation time {place}"] = rollout.correlation_time.mean
    return found
