"""`kill -9` at any moment, then `resume=true`: the end is that of a run that nobody disturbed, bit for bit."""

import signal
import sys
import time
from pathlib import Path

import pytest
import torch

from mondrian.cli import main
from mondrian.training import Run
from mondrian.training.checkpoints import newest
from tests.forked import Forked
from tests.training.cases import TINY, losses

pytestmark = pytest.mark.process

LONG = (*TINY, "max_steps=60", "validate_every=10", "checkpoint_every=7", "augment=[rotations]", "noise=0.01")


def start(*words: str) -> Forked:
    """The command in a process of its own."""
    return Forked(lambda: sys.exit(main(["train", *LONG, *words])))


def rows(run: Run) -> int:
    return run.history_file.read_text().count("\n") - 1 if run.history_file.exists() else 0


@pytest.mark.slow
def test_a_killed_run_ends_like_one_that_was_left_alone(allen_cahn: Path, tmp_path: Path) -> None:
    data = f"data.path={allen_cahn}"
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    with start(data, f"run={whole.folder}") as reference:
        assert reference.wait() == 0, reference.said()
    for number, victim_rows in enumerate((0, 16, 45)):  # before the first checkpoint, and in the middle
        with start(data, f"run={killed.folder}", *(["resume=true"] if number else [])) as process:
            while process.poll() is None and (rows(killed) <= victim_rows or not killed.record.exists()):
                time.sleep(0.002)
            assert process.poll() is None, process.said()
            process.kill()
            assert process.wait() == -signal.SIGKILL
    with start(f"run={killed.folder}", "resume=true") as last:
        assert last.wait() == 0, last.said()
    one, other = (torch.load(newest(run.checkpoints), weights_only=True) for run in (whole, killed))
    assert one["global_step"] == other["global_step"] == 60
    assert all(torch.equal(one["state_dict"][key], other["state_dict"][key]) for key in one["state_dict"])
    assert losses(whole) == losses(killed)
    best = [(run.artefact / "model.safetensors").read_bytes() for run in (whole, killed)]
    assert best[0] == best[1]
