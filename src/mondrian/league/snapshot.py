"""The state of all trainings of a part at one moment, from which everything else follows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mondrian.evaluation.results import METRICS
from mondrian.league.jobs import Job
from mondrian.league.outcome import FILE, Outcome


@dataclass(frozen=True)
class Snapshot:
    """The outcomes of the trainings that have ended, by `Job.key`, and which of them were evaluated."""

    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    evaluated: frozenset[str] = frozenset()

    def outcome(self, job: Job) -> Outcome | None:
        """How a training ended; None where it has not."""
        return self.outcomes.get(job.key)

    def ended(self, job: Job) -> bool:
        return job.key in self.outcomes

    def loss(self, job: Job) -> float:
        """The best validation loss; infinite where the training diverged or has not ended."""
        outcome = self.outcome(job)
        return math.inf if outcome is None else outcome.valid_loss

    def can_be_shown(self, job: Job) -> bool:
        """Whether it has diverged, which is a result, or been evaluated, as those that lost to another rate are not."""
        outcome = self.outcome(job)
        return outcome is not None and (not outcome.done or job.key in self.evaluated)


class SnapshotReader:
    """Reads the trainings below a folder; of those that were read before only files that have changed.

    Trainings of `published` results count as ended where the folder has none of the same name.
    """

    def __init__(self, folder: Path, published: Snapshot | None = None) -> None:
        self.folder, self.published = folder, published or Snapshot()
        self._stamps: dict[str, tuple[int, int, bool]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._last = self.published

    def read(self) -> Snapshot:
        """The state of now; the same object as before where nothing has changed."""
        stamps = {}
        for file in sorted(self.folder.glob(f"*/*/{FILE}")):
            stat = file.stat()
            evaluated = (file.parent / "evaluation" / METRICS).exists()
            stamps[file.parent.relative_to(self.folder).as_posix()] = (stat.st_mtime_ns, stat.st_size, evaluated)
        if stamps == self._stamps:
            return self._last
        outcomes = {}
        for key, stamp in stamps.items():
            if stamp[:2] == self._stamps.get(key, ())[:2]:
                outcomes[key] = self._outcomes[key]
            elif (outcome := Outcome.load(self.folder / key)) is not None:
                outcomes[key] = outcome
        self._stamps, self._outcomes = stamps, outcomes
        shown = {key for key, stamp in stamps.items() if stamp[2]}
        shown |= {key for key in self.published.evaluated if key not in outcomes}
        self._last = Snapshot({**self.published.outcomes, **outcomes}, frozenset(shown))
        return self._last
