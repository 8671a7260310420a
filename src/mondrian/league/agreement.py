"""A folder holds one league: what was trained there before had the settings that this call has."""

from __future__ import annotations

import json
from typing import Any

from mondrian.league.plan import TASK, Plan

PRACTICAL = ("run", "resume", "data.path", "validate_every", "checkpoint_every")  # words that change no result


def refuse_changes(plan: Plan) -> None:
    """Refuse to go on with, or to show, trainings that were told something else."""
    for job in plan.everything():
        file = job.folder / TASK
        if not file.exists():
            continue
        former, wanted = _told(json.loads(file.read_text())), _told(plan.task(job))
        for key in former | wanted:
            if former.get(key) != wanted.get(key):
                raise ValueError(
                    f"{key} was {former.get(key)} when {job.folder} began, and is {wanted.get(key)} now; "
                    "needed the same settings, or another folder=..."
                )


def _told(task: dict[str, Any]) -> dict[str, Any]:
    """The settings of a training by name."""
    words = dict(word.split("=", 1) for word in task["words"])
    kept = {key: value for key, value in words.items() if key not in PRACTICAL}
    return kept | {"horizon": task["horizon"], "threads": task["threads"], "native": task["native"] is not None}
