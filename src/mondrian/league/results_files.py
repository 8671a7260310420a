"""`results.json` and `fields.npz` of a part: enough to draw every table and figure again, and to resume the trainings.

`results.json` has the rows of the tables for whoever wants to read them, and all that they follow from: settings,
speeds, how each training ended, and the errors of those that are shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mondrian.league.compact_json import compact_json, rounded
from mondrian.league.evaluations import EvaluationSummary, Shared
from mondrian.league.field_panels import FieldPanels
from mondrian.league.outcome import Outcome
from mondrian.league.panel_files import FILE as FIELDS
from mondrian.league.panel_files import packed, unpacked
from mondrian.league.plan import LeaguePlan
from mondrian.league.results import Row, collect
from mondrian.league.snapshot import Snapshot
from mondrian.league.spec import LeagueSpec
from mondrian.league.tables import facts
from mondrian.support.files import write_atomically

FILE, FORMAT = "results.json", 2
_OF_SHOWN = ("parameters", "points", "samples", "mae", "samples_per_second")


@dataclass(frozen=True)
class LeagueResults:
    """What a part of a league shows: evaluations by `Job.key`, field panels by the name of their figure.

    `drawn` are the budgets whose figures are drawn.
    """

    plan: LeaguePlan
    evaluations: Mapping[str, EvaluationSummary]
    panels: Mapping[str, FieldPanels] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()

    def rows(self) -> dict[str, list[Row]]:
        return collect(self.plan, self.evaluations)

    def save(self, folder: Path) -> list[Path]:
        """Write both files."""
        described, arrays = packed(self.panels)
        shared = Shared()
        speeds = self.plan.speeds
        trainings = {key: self._training(key, outcome, shared) for key, outcome in self.plan.snapshot.outcomes.items()}
        content = {
            "format": FORMAT,
            **rounded(facts(self.plan, self.rows()), 9),
            "speeds": {each.name: speeds[each.name] for each in self.plan.league.everyone if each.name in speeds},
            "drawn": list(self.drawn),
            "fields": described,
            "shared": shared,
            "trainings": trainings,
        }
        write_atomically(folder / FILE, f"{compact_json(content)}\n".encode())
        if described:
            write_atomically(folder / FIELDS, arrays)
        return [folder / FILE, *([folder / FIELDS] if described else [])]

    @classmethod
    def load(cls, folder: Path) -> LeagueResults:
        """What `save` wrote."""
        file = folder / FILE
        try:
            content: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            raise ValueError(f"{folder} has no {FILE}; needed a folder that `mondrian league` published") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{file} is damaged: {error}") from error
        if content.get("format") != FORMAT:
            raise ValueError(f"{file} has format={content.get('format')}; needed {FORMAT}: publish it again")
        shared, trainings = Shared(content["shared"]), content["trainings"]
        evaluations = {
            key: EvaluationSummary.from_json(training.pop("evaluation"), shared)
            for key, training in trainings.items()
            if "evaluation" in training
        }
        outcomes = {
            key: Outcome.from_json({**shared["environments"][training.pop("environment")], **training})
            for key, training in trainings.items()
        }
        league = LeagueSpec.from_json(content["settings"], folder.parent)
        plan = LeaguePlan(league, content["speeds"], Snapshot(outcomes, frozenset(evaluations)))
        return cls(plan, evaluations, _panels(folder, content["fields"]), tuple(content["drawn"]))

    def _training(self, key: str, outcome: Outcome, shared: Shared) -> dict[str, Any]:
        environment = {"machine": outcome.machine, "versions": dict(outcome.versions)}
        content: dict[str, Any] = {"environment": shared.index("environments", environment), "seconds": outcome.seconds}
        content |= {"valid_loss": outcome.valid_loss} if outcome.done else {"message": outcome.message}
        content = rounded(content, 9)
        if (evaluation := self.evaluations.get(key)) is not None:
            content |= rounded({name: getattr(outcome, name) for name in _OF_SHOWN}, 9)
            content["evaluation"] = evaluation.to_json(shared)
        return content


def _panels(folder: Path, described: Mapping[str, Any]) -> dict[str, FieldPanels]:
    if not described:
        return {}
    with np.load(folder / FIELDS, allow_pickle=False) as stored:
        return unpacked(described, {name: stored[name] for name in stored.files})
