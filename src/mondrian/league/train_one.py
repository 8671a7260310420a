"""One training of a league and its evaluation: `python -m mondrian.league.train_one FILE` with the task in the file.

A process of its own: an entrant that fails stops nobody else, and memory and threads are its own. After a kill it
resumes from its last checkpoint when it is started again.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from mondrian.data.splits import Splits
from mondrian.evaluation import evaluate
from mondrian.evaluation.pictures import of_first_sample, of_one_resolution
from mondrian.league.jobs import NATIVE
from mondrian.league.outcome import Outcome
from mondrian.support.device import chosen_device
from mondrian.support.plugins import load_plugins
from mondrian.support.process import keep_large_blocks
from mondrian.training.guards import Diverged, Stopped
from mondrian.training.run import Run
from mondrian.training.train import train_config


def main(file: Path) -> int:
    """Train, evaluate, and write how it ended."""
    task = json.loads(file.read_text())
    keep_large_blocks()
    load_plugins()
    run = Run(file.parent)
    try:
        train_config(task["overrides"], progress=True)
    except Diverged as error:
        _end(run, Outcome.diverged(run, str(error).partition(";")[0]))
        return 0
    except Stopped:
        return 130
    outcome = Outcome.of(run)
    rivals = (Outcome.load(Path(folder)) for folder in task["rivals"])
    lost = any(rival is not None and rival.valid_loss < outcome.valid_loss for rival in rivals)
    if outcome.done and task["evaluate"] and not lost:  # one that has lost is not shown
        _evaluate(run, task)
    _end(run, outcome)
    return 0


def _evaluate(run: Run, task: dict[str, Any]) -> None:
    """Of fields only what the league shows, of paths only those it was given: its folder may be carried elsewhere."""
    surrogate, splits = run.surrogate().to(chosen_device(None)), run.data(Splits)
    tests = {run.evaluation: (splits, task["data"])}
    if task["native"] is not None:
        tests[run.folder / NATIVE] = (splits.of_other_data(task["native"]), task["native"])
    for folder, (data, path) in tests.items():
        evaluation = evaluate(surrogate, data, horizon=task["horizon"], name=run.name)
        fields = of_first_sample(evaluation.fields)
        if evaluation.rollout:
            fields = of_one_resolution(fields, splits.dataset("train").grid.points)
        replace(evaluation, data=path, fields=fields).save(folder)


def _end(run: Run, outcome: Outcome) -> None:
    outcome.save(run.folder)
    shutil.rmtree(run.checkpoints, ignore_errors=True)  # the best model is the artefact


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
