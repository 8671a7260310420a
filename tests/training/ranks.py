"""What torchrun starts in the tests: several runs one after the other, and a note of the places that this rank took.

torchrun ... -m tests.training.ranks jobs.json      {"name": ["word", ...], ...}; places go to jobs_0.json, jobs_1.json
"""

import json
import os
import sys
from pathlib import Path

from torch import Tensor

from mondrian.training.module import OperatorTraining
from mondrian.training.train import train_config


def main(file: Path) -> None:
    original = OperatorTraining.training_step
    places: list[list[int]] = []

    def training_step(self: OperatorTraining, batch: dict, batch_idx: int) -> Tensor:
        places.append(batch["places"])
        return original(self, batch, batch_idx)

    OperatorTraining.training_step = training_step
    taken = {}
    for name, words in json.loads(file.read_text()).items():
        train_config(words)
        taken[name], places[:] = list(places), []
    file.with_name(f"{file.stem}_{os.environ['RANK']}.json").write_text(json.dumps(taken))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
