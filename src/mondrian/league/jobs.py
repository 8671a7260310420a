"""One training of a league: who, with which budget, learning rate and seed, and in which folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mondrian.league.entrants import Entrant
from mondrian.training.run import Run

TASK, NATIVE = "task.json", "evaluation_native"  # in the folder of a training


@dataclass(frozen=True)
class Job:
    """One training of an entrant, in a folder of its own."""

    entrant: Entrant
    budget: str
    rate: float
    seed: int
    steps: int
    folder: Path

    @property
    def run(self) -> Run:
        return Run(self.folder)

    @property
    def key(self) -> str:
        """Its folder below that of the part.

        >>> Job(Entrant("fno", "FNO", ours=False), "time", 0.006, 0, 100, Path("main/fno/time_lr0.006_seed0")).key
        'fno/time_lr0.006_seed0'
        """
        return f"{self.entrant.name}/{self.folder.name}"
