"""The rows of a league's tables: what the trainings of each entrant gave under each budget."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mondrian.evaluation.statistics import Summary
from mondrian.evaluation.tables import size
from mondrian.league.entrants import Entrant
from mondrian.league.evaluations import EvaluationSummary
from mondrian.league.jobs import Job
from mondrian.league.outcome import Outcome
from mondrian.league.plan import LeaguePlan


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
    def of(cls, summaries: Sequence[Summary]) -> Score:
        values = [summary.mean for summary in summaries]
        several = len(values) > 1 and all(map(math.isfinite, values))
        deviation = statistics.stdev(values) if several else None
        return cls(statistics.fmean(values), deviation, len(values), summaries[0].low, summaries[0].high)

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
    evaluation: EvaluationSummary  # of the first

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

    def to_json(self) -> dict[str, Any]:
        """Without scores, which `results.csv` has, and which follow from those of the trainings."""
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
            "trainings": [job.key for job in self.jobs],
        }


def collect(plan: LeaguePlan, evaluations: Mapping[str, EvaluationSummary]) -> dict[str, list[Row]]:
    """For each budget the entrants that have ended, the best first: by the error at the resolution of training.

    `evaluations` go by `Job.key`.
    """
    rows: dict[str, list[Row]] = {}
    for entrant in plan.league.everyone:
        if entrant.name not in plan.speeds:
            continue
        for budget, first in plan.shown(entrant).items():
            jobs = [plan.again(first, seed) for seed in range(plan.league.budgets.seeds)]
            outcomes = ((job, plan.snapshot.outcome(job)) for job in jobs)
            done = {job: outcome for job, outcome in outcomes if outcome is not None and outcome.done}
            if done:
                rows.setdefault(budget, []).append(_row(plan, done, evaluations))
    for ranked in rows.values():
        ranked.sort(key=lambda row: row.scores[f"mae {size(row.first.points)}"].mean)
    return rows


def _row(plan: LeaguePlan, done: Mapping[Job, Outcome], evaluations: Mapping[str, EvaluationSummary]) -> Row:
    values: dict[str, list[Summary]] = {}
    for job in done:
        for name, value in evaluations[job.key].scores.items():
            values.setdefault(name, []).append(value)
    jobs = tuple(done)
    return Row(
        jobs[0].entrant,
        jobs[0].budget,
        speed=plan.speeds[jobs[0].entrant.name],
        scores={name: Score.of(summaries) for name, summaries in values.items()},
        jobs=jobs,
        outcomes=tuple(done.values()),
        final=plan.rate(jobs[0].entrant) == jobs[0].rate,
        evaluation=evaluations[jobs[0].key],
    )


def persistence(row: Row) -> dict[str, Score]:
    """One-step errors of the persistence baseline, where there is one."""
    return {name: Score.of([value]) for name, value in row.evaluation.persistence.items()}


def diverged(plan: LeaguePlan) -> dict[Job, str]:
    """The trainings that did not stay finite, and the messages of their errors."""
    outcomes = ((job, plan.snapshot.outcome(job)) for job in plan.everything())
    return {job: outcome.message for job, outcome in outcomes if outcome is not None and not outcome.done}


def hours(plan: LeaguePlan) -> float:
    """What all trainings took by the clock, with validation and without evaluation, one after the other."""
    return sum(outcome.seconds for outcome in plan.snapshot.outcomes.values()) / 3600


def machines(plan: LeaguePlan) -> list[str]:
    """The machines of the trainings that have ended."""
    return sorted({outcome.machine for outcome in plan.snapshot.outcomes.values()})


def packages(plan: LeaguePlan) -> list[str]:
    """Python and the packages of the trainings."""
    versions = (version for outcome in plan.snapshot.outcomes.values() for version in outcome.versions.items())
    return sorted({f"{name} {version}" for name, version in versions if name not in ("mondrian", "source")})


def sources(plan: LeaguePlan) -> dict[str, int]:
    """Digests of our code in the states that made trainings, and how many of them."""
    made = (outcome.versions["source"] for outcome in plan.snapshot.outcomes.values() if outcome.done)
    return dict(Counter(made).most_common())
