"""Two processes make the same steps as one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mondrian.run import Run
from tests.training.test_train import TINY


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one_with_the_same_batches(allen_cahn: Path, tmp_path: Path) -> None:
    words = [*TINY, f"data.path={allen_cahn}", "trainer.accelerator=cpu", "trainer.precision=64-true", "noise=0.1",
             "augment=[rotations,reflections]"]  # fmt: skip
    runs = {}
    for name, extra in {"one": ["trainer.devices=1"], "two": ["trainer.devices=2", "trainer.strategy=ddp"]}.items():
        command = [sys.executable, "-m", "mondrian.cli", "train", *words, *extra, f"run={tmp_path / name}"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("best validation loss") == 1
        runs[name] = Run.open(tmp_path / name).history()
    for column in ("step", "train_loss", "valid_loss", "valid_mae"):
        assert runs["two"][column] == pytest.approx(runs["one"][column], rel=1e-6, nan_ok=True)
