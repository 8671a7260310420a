"""`kill -9` at any moment, then `resume=true`: the end is that of a run that nobody disturbed, bit for bit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from mondrian.training import Run
from mondrian.training.checkpoints import newest
from tests.training.test_train import TINY, losses

LONG = (*TINY, "max_steps=60", "validate_every=10", "checkpoint_every=7", "augment=[rotations]", "noise=0.01")


def start(*words: str) -> subprocess.Popen[bytes]:
    """The command as a shell starts it, on one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mondrian.cli", "train", *LONG, *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)


def rows(run: Run) -> int:
    return run.history_file.read_text().count("\n") - 1 if run.history_file.exists() else 0


@pytest.mark.slow
def test_a_killed_run_ends_like_one_that_was_left_alone(allen_cahn: Path, tmp_path: Path) -> None:
    data = f"data.path={allen_cahn}"
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    reference = start(data, f"run={whole.folder}")
    _, errors = reference.communicate(timeout=300)
    assert reference.returncode == 0, errors.decode()
    for number, victim_rows in enumerate((0, 16, 45)):  # before the first checkpoint, and in the middle
        process = start(data, f"run={killed.folder}", *(["resume=true"] if number else []))
        while process.poll() is None and (rows(killed) <= victim_rows or not killed.record.exists()):
            time.sleep(0.002)
        assert process.poll() is None, process.communicate()[1].decode()
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    last = start(f"run={killed.folder}", "resume=true")
    _, errors = last.communicate(timeout=300)
    assert last.returncode == 0, errors.decode()
    one, other = (torch.load(newest(run.checkpoints), weights_only=True) for run in (whole, killed))
    assert one["global_step"] == other["global_step"] == 60
    assert all(torch.equal(one["state_dict"][key], other["state_dict"][key]) for key in one["state_dict"])
    assert losses(whole) == losses(killed)
    best = [(run.artefact / "model.safetensors").read_bytes() for run in (whole, killed)]
    assert best[0] == best[1]
