"""What the trainings of a league left, as rows of a table."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mondrian.evaluation import Evaluation
from mondrian.evaluation.results import FIELDS
from mondrian.evaluation.statistics import Summary
from mondrian.evaluation.tables import size
from mondrian.league.entrants import Entrant
from mondrian.league.outcome import FILE, Outcome
from mondrian.league.plan import NATIVE, Job, Plan
from mondrian.report.arrays import Fields


@dataclass(frozen=True)
class Score:
    """A number that several seeds gave: the mean, and the standard deviation where there is more than one.

    `first_low` and `first_high` bound the first seed's mean over test simulations: a bootstrap interval.
    """

    mean: float
    deviation: float | None
    seeds: int
    first_low: float = math.nan
    first_high: float = math.nan

    @classmethod
    def of(cls, found: Sequence[Summary]) -> Score:
        values = [summary.mean for summary in found]
        several = len(values) > 1 and all(map(math.isfinite, values))
        deviation = statistics.stdev(values) if several else None
        return cls(statistics.fmean(values), deviation, len(values), found[0].low, found[0].high)

    def __str__(self) -> str:
        """Three digits, as many of the deviation as fit beside them.

        >>> print(Score(0.03124, 0.00041, 3), Score(0.5, None, 1), Score(math.inf, None, 3))
        0.0312 ± 0.0004 0.500 inf
        """
        if not 0 < self.mean < float("inf"):
            return str(self.mean)
        places = max(0, 2 - int(np.floor(np.log10(self.mean))))
        spread = "" if self.deviation is None else f" ± {self.deviation:.{places}f}"
        return f"{self.mean:.{places}f}{spread}"


@dataclass(frozen=True)
class Row:
    """An entrant under one budget. `scores` are named `mae 32x32`, `native mae 64x64`, `rollout 64x64` and so on.

    `speed` counts training samples a second on a free core; those of its training, beside others, are in its outcome.
    `final` is False while another learning rate may still take its place.
    """

    entrant: Entrant
    budget: str
    speed: float
    scores: dict[str, Score]
    jobs: tuple[Job, ...]
    outcomes: tuple[Outcome, ...]  # of the jobs
    final: bool

    @property
    def first(self) -> Outcome:
        """Of the first seed that did not diverge."""
        return self.outcomes[0]

    @property
    def rate(self) -> float:
        """The learning rate."""
        return self.jobs[0].rate

    @property
    def samples(self) -> int:
        """Training samples seen."""
        return int(self.first.samples[-1])

    @property
    def minutes(self) -> float:
        """The time that its training takes on a free core, without validation."""
        return self.samples / self.speed / 60

    @cached_property
    def evaluation(self) -> Evaluation:
        return Evaluation.load(self.jobs[0].run.evaluation)

    @cached_property
    def fields(self) -> Fields:
        """What there is to look at of that seed."""
        return Fields.load(self.jobs[0].run.evaluation / FIELDS)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.entrant.name,
            "label": self.entrant.label,
            "ours": self.entrant.ours,
            "budget": self.budget,
            "parameters": self.first.parameters,
            "samples_per_second": self.speed,
            "measured_samples_per_second": self.first.samples_per_second,
            "learning_rate": self.rate,
            "samples": self.samples,
            "minutes": self.minutes,
            "seeds": len(self.jobs),
            "final": self.final,
            "scores": {name: asdict(score) for name, score in self.scores.items()},
            "curve": {"samples": self.first.samples, "mae": self.first.mae},
            "rollouts": {
                size(entry.points): {
                    "times": entry.times,
                    "relative_l2": [value.mean for value in entry.relative_l2],
                    "diverged": entry.diverged,
                }
                for entry in self.evaluation.rollout
            },
            "words": self.first.words,
            "versions": self.first.versions,
        }


def collect(plan: Plan) -> dict[str, list[Row]]:
    """For each budget the entrants that have ended, the best first: by the error at the resolution of training."""
    found: dict[str, list[Row]] = {}
    for entrant in plan.league.everyone:
        if entrant.name not in plan.speeds:
            continue
        for budget, first in plan.shown(entrant).items():
            jobs = [plan.again(first, seed) for seed in range(plan.league.budgets.seeds)]
            done = {job: outcome for job in jobs if (outcome := job.outcome) is not None and outcome.done}
            if done:
                found.setdefault(budget, []).append(_row(plan, done))
    for rows in found.values():
        rows.sort(key=lambda row: row.scores[f"mae {size(row.first.points)}"].mean)
    return found


def diverged(plan: Plan) -> dict[Job, str]:
    """The trainings that did not stay finite, and what they said."""
    return {job: outcome.message for job in plan.everything() if (outcome := job.outcome) and not outcome.done}


def outcomes(plan: Plan) -> list[Outcome]:
    """Of all trainings of the part that have ended, those with learning rates that are not shown too."""
    found = (Outcome.load(file.parent) for file in sorted(plan.league.runs.glob(f"*/*/{FILE}")))
    return [outcome for outcome in found if outcome is not None]


def hours(plan: Plan) -> float:
    """What all trainings took by the clock, with validation and without evaluation, one after the other."""
    return sum(outcome.seconds for outcome in outcomes(plan)) / 3600


def machines(plan: Plan) -> list[str]:
    """What the trainings that have ended were made on."""
    return sorted({outcome.machine for outcome in outcomes(plan)})


def packages(plan: Plan) -> list[str]:
    """Python and the packages that the trainings were made with."""
    versions = [(name, version) for outcome in outcomes(plan) for name, version in outcome.versions.items()]
    return sorted({f"{name} {version}" for name, version in versions if name not in ("mondrian", "source")})


def sources(plan: Plan) -> dict[str, int]:
    """Digests of our code in the states that made trainings, and how many of them."""
    made = (outcome.versions["source"] for outcome in outcomes(plan) if outcome.done)
    return dict(Counter(made).most_common())


def _row(plan: Plan, done: Mapping[Job, Outcome]) -> Row:
    values: dict[str, list[Summary]] = {}
    for job in done:
        for name, value in _scores(job).items():
            values.setdefault(name, []).append(value)
    jobs = tuple(done)
    return Row(
        jobs[0].entrant,
        jobs[0].budget,
        speed=plan.speeds[jobs[0].entrant.name],
        scores={name: Score.of(found) for name, found in values.items()},
        jobs=jobs,
        outcomes=tuple(done.values()),
        final=plan.rate(jobs[0].entrant) == jobs[0].rate,
    )


def unchanged(row: Row) -> dict[str, Score]:
    """The errors of one application that a forecast has in which nothing changes, where there is such a forecast."""
    return {name: Score.of([value]) for name, value in _one_step(row.jobs[0], learnt=False).items()}


def _scores(job: Job) -> dict[str, Summary]:
    found = _one_step(job, learnt=True)
    for prefix, evaluation in _evaluations(job).items():
        for rollout in evaluation.rollout:
            found[f"{prefix}rollout {size(rollout.points)}"] = rollout.mean_relative_l2
            found[f"{prefix}correlation time {size(rollout.points)}"] = rollout.correlation_time
    return found


def _one_step(job: Job, *, learnt: bool) -> dict[str, Summary]:
    """Errors of one application, of the model or of the forecast that nothing changes."""
    found = {}
    for prefix, evaluation in _evaluations(job).items():
        for entry in evaluation.one_step:
            errors = (entry.model if learnt else entry.persistence) or {}
            for name, key in (("mae", "mae"), ("relative L2", "relative_l2")):
                if key in errors:
                    found[f"{prefix}{name} {size(entry.points)}"] = errors[key]
    return found


def _evaluations(job: Job) -> dict[str, Evaluation]:
    """By what their scores begin with."""
    folders = {"": job.run.evaluation, "native ": job.folder / NATIVE}
    return {prefix: Evaluation.load(folder) for prefix, folder in folders.items() if folder.exists()}
