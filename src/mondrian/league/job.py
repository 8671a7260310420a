"""One training of a league and its evaluation: `python -m mondrian.league.job FILE` with what the file says.

A process of its own: an entrant that fails takes nobody with it, and memory and threads are its own. Killed, it goes
on from its last checkpoint when it is started again.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from mondrian.evaluation import evaluate
from mondrian.files import write_json
from mondrian.league.plan import NATIVE, OUTCOME
from mondrian.process import keep_large_blocks
from mondrian.run import Run
from mondrian.training.guards import Diverged, Stopped
from mondrian.training.train import train_config


def main(file: Path) -> int:
    """Train, evaluate, and write how it ended."""
    task = json.loads(file.read_text())
    keep_large_blocks()
    run = Run(file.parent)
    try:
        train_config(task["words"], progress=True)
    except Diverged as error:
        _end(run, {"state": "diverged", "message": str(error).partition(";")[0]})
        return 0
    except Stopped:
        return 130
    history = run.history()
    losses = history["valid_loss"][np.isfinite(history["valid_loss"])]
    if not len(losses):
        _end(run, {"state": "diverged", "message": "no validation loss was finite"})
        return 0
    if task["evaluate"]:
        _evaluate(run, task)
    _end(run, {"state": "done", "valid_loss": float(losses.min())})
    return 0


def _evaluate(run: Run, task: dict[str, Any]) -> None:
    surrogate, splits = run.surrogate(), run.data()
    folders = {run.evaluation: splits}
    if task["native"] is not None:
        folders[run.folder / NATIVE] = splits.of_other_data(task["native"])
    for folder, data in folders.items():
        evaluate(surrogate, data, horizon=task["horizon"], name=run.name).save(folder)


def _end(run: Run, outcome: dict[str, Any]) -> None:
    write_json(run.folder / OUTCOME, outcome)
    shutil.rmtree(run.checkpoints, ignore_errors=True)  # the best model is the artefact


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
