"""The part of an evaluation that tables and figures of a league show: errors, rollouts over time, and spectra."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mondrian.evaluation import Evaluation
from mondrian.evaluation.entries import OneStep, Spectrum, Trajectories
from mondrian.evaluation.statistics import Summary
from mondrian.evaluation.tables import size
from mondrian.league.compact_json import rounded
from mondrian.league.jobs import NATIVE
from mondrian.training.run import Run

ONE_STEP, ROLLOUT = "one step", "rollout"
ERRORS = {"mae": "mae", "relative L2": "relative_l2"}  # names of scores, and keys in an evaluation


class Shared(dict[str, list[Any]]):
    """Values that several trainings of a part have, each stored once in a list of its kind."""

    def index(self, kind: str, value: Any) -> int:
        """The place of a value, which is added if it is not there yet."""
        values = self.setdefault(kind, [])
        if value not in values:
            values.append(value)
        return values.index(value)


@dataclass(frozen=True)
class RolloutCurve:
    """Means over simulations of the errors of a rollout, and of its correlation with the truth, at `times`."""

    times: tuple[float, ...]
    relative_l2: tuple[float, ...]
    correlation: tuple[float, ...]
    diverged: int

    @classmethod
    def of(cls, rollout: Trajectories) -> RolloutCurve:
        return cls(
            rollout.times,
            tuple(value.mean for value in rollout.relative_l2),
            tuple(value.mean for value in rollout.correlation),
            rollout.diverged,
        )


@dataclass(frozen=True)
class EvaluationSummary:
    """`scores` are named `mae 32x32`, `native mae 64x64`, `rollout 64x64` and so on, those of the persistence baseline
    alike; `rollouts` go by resolution, `spectra` are of one step and of a rollout's end at the resolution of training.
    """

    scores: Mapping[str, Summary]
    persistence: Mapping[str, Summary] = field(default_factory=dict)
    rollouts: Mapping[str, RolloutCurve] = field(default_factory=dict)
    spectra: Mapping[str, Spectrum] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, points: Sequence[int]) -> EvaluationSummary:
        """Of a training on `points` that has been evaluated."""
        folders = {"": run.evaluation, "native ": run.folder / NATIVE}
        evaluations = {prefix: Evaluation.load(folder) for prefix, folder in folders.items() if folder.exists()}
        main = evaluations[""]
        entries = {ONE_STEP: _at(points, main.one_step), ROLLOUT: _at(points, main.rollout)}
        return cls(
            _one_step(evaluations, learnt=True) | _rollout_scores(evaluations),
            _one_step(evaluations, learnt=False),
            {size(entry.points): RolloutCurve.of(entry) for entry in main.rollout},
            {name: entry.spectrum for name, entry in entries.items() if entry is not None and entry.spectrum},
        )

    def to_json(self, shared: Shared) -> dict[str, Any]:
        """Scores to twelve digits, curves and spectra to four; what trainings have in common goes to `shared`."""
        spectra = {}
        for name, spectrum in self.spectra.items():
            truth = {"wavenumber": rounded(spectrum.wavenumber, 6), "truth": rounded(spectrum.truth, 4)}
            own = {"prediction": rounded(spectrum.prediction, 4), "error": rounded(spectrum.error, 4)}
            spectra[name] = {"of": shared.index("truths", truth), **own}
        persistence = {name: _values(value) for name, value in self.persistence.items()}
        return {
            "scores": {name: _values(value) for name, value in self.scores.items()},
            "persistence": shared.index("persistence", persistence),
            "rollouts": {name: rounded(asdict(curve), 4) for name, curve in self.rollouts.items()},
            "spectra": spectra,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any], shared: Shared) -> EvaluationSummary:
        persistence = shared["persistence"][content["persistence"]]
        spectra = {}
        for name, values in content["spectra"].items():
            own = {key: value for key, value in values.items() if key != "of"}
            spectra[name] = Spectrum(**_numbers(shared["truths"][values["of"]] | own))
        return cls(
            {name: _summary(values) for name, values in content["scores"].items()},
            {name: _summary(values) for name, values in persistence.items()},
            {name: RolloutCurve(**_numbers(curve)) for name, curve in content["rollouts"].items()},
            spectra,
        )


def _one_step(evaluations: Mapping[str, Evaluation], *, learnt: bool) -> dict[str, Summary]:
    """Errors of one step, of the model or of the persistence baseline."""
    return {
        f"{prefix}{name} {size(entry.points)}": errors[key]
        for prefix, evaluation in evaluations.items()
        for entry in evaluation.one_step
        for errors in [(entry.model if learnt else entry.persistence) or {}]
        for name, key in ERRORS.items()
        if key in errors
    }


def _rollout_scores(evaluations: Mapping[str, Evaluation]) -> dict[str, Summary]:
    scores = {}
    for prefix, evaluation in evaluations.items():
        for rollout in evaluation.rollout:
            scores[f"{prefix}rollout {size(rollout.points)}"] = rollout.mean_relative_l2
            scores[f"{prefix}correlation time {size(rollout.points)}"] = rollout.correlation_time
    return scores


def _at(points: Sequence[int], entries: Sequence[OneStep] | Sequence[Trajectories]) -> OneStep | Trajectories | None:
    return next((entry for entry in entries if entry.points == tuple(points)), None)


def _values(summary: Summary) -> list[float]:
    return rounded([summary.mean, summary.low, summary.high, summary.count], 12)


def _summary(values: Sequence[float | None]) -> Summary:
    mean, low, high, count = (math.nan if value is None else value for value in values)
    return Summary(mean, low, high, int(count))


def _numbers(content: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, with NaN where JSON has null."""
    return {
        key: tuple(math.nan if item is None else item for item in value) if isinstance(value, list) else value
        for key, value in content.items()
    }
