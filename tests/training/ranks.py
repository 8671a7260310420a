"""What the tests start twice: several runs one after the other, and a note of what this process saw in each of them.

`jobs.json` holds {"name": ["word", ...], ...}; places of samples go to jobs_RANK.json.

In a run named "asleep" the second process stops to answer after two steps.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

from torch import Tensor

from mondrian.parallel.peers import PeersLost
from mondrian.support.process import rank
from mondrian.training.grids import GridTraining
from mondrian.training.guards import Diverged
from mondrian.training.train import train_config


def main(file: Path) -> None:
    number, _ = rank(os.environ)
    seen: dict[str, Any] = {}
    original = GridTraining.training_step

    def training_step(self: GridTraining, batch: dict[str, Any], batch_idx: int) -> Tensor:
        if name == "asleep" and number == 1 and self.global_step == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        seen[name].append(batch["places"])
        return original(self, batch, batch_idx)

    GridTraining.training_step = training_step
    for name, words in json.loads(file.read_text()).items():
        seen[name] = []
        try:
            train_config(words)
        except (PeersLost, Diverged) as error:
            seen[name] = str(error)
        file.with_name(f"{file.stem}_{number}.json").write_text(json.dumps(seen))
