"""Processes that die are started again, and the end is as if nothing had happened; silent ones are not waited for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from benchmarks.faults import workers

from mondrian.data import AllenCahn
from mondrian.data.generate import plan
from mondrian.training import Run
from mondrian.training.checkpoints import newest
from mondrian.training.peers import PeersLost, check_restarts, naming_lost_peers
from mondrian.training.settings import _wait_for
from tests.training.test_kill import LONG, rows
from tests.training.test_processes import environment, free_port, torchrun
from tests.training.test_train import losses

WORDS = (*LONG, "trainer.accelerator=cpu", "resume=true")


def start(command: list[str], **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**more))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_killed_rank_is_restarted_and_the_run_ends_like_one_that_was_left_alone(
    allen_cahn: Path, tmp_path: Path, strategy: str
) -> None:
    whole, killed = Run(tmp_path / "whole"), Run(tmp_path / "killed")
    words = [*WORDS, f"data.path={allen_cahn}", f"trainer={strategy}"]
    for run in (whole, killed):
        process = start(torchrun("--max-restarts=1", "-m", "mondrian", "train", *words, f"run={run.folder}"))
        if run is killed:
            while process.poll() is None and rows(killed) <= 16:
                time.sleep(0.002)
            os.kill(workers(process.pid)[1], signal.SIGKILL)
            assert process.poll() is None  # only a restart brings it to the end
        out, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert "best validation loss" in out
    one, other = (torch.load(newest(run.checkpoints), weights_only=True) for run in (whole, killed))
    assert one["global_step"] == other["global_step"] == 60
    assert all(torch.equal(one["state_dict"][key], other["state_dict"][key]) for key in one["state_dict"])
    assert losses(whole) == losses(killed)
    best = [(run.artefact / "model.safetensors").read_bytes() for run in (whole, killed)]
    assert best[0] == best[1]


@pytest.mark.slow
def test_a_rank_that_hears_nothing_from_the_others_stops_with_a_message(allen_cahn: Path, tmp_path: Path) -> None:
    """Two ranks, each for itself because they have other ports; and two, one of which falls asleep."""
    command = [sys.executable, "-m", "mondrian", "train", *WORDS, f"data.path={allen_cahn}", "trainer=ddp"]
    ranks = {
        (name, rank): start(
            [*command, "max_steps=100000", "trainer.timeout=4", f"run={tmp_path / name}"],
            RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", GROUP_RANK="0",
            MASTER_ADDR="127.0.0.1", MASTER_PORT=ports[rank], TORCHELASTIC_RUN_ID="test",
        )
        for name, ports in {"strangers": [free_port(), free_port()], "asleep": [free_port()] * 2}.items()
        for rank in range(2)
    }  # fmt: skip
    asleep = Run(tmp_path / "asleep")
    try:
        while ranks["asleep", 0].poll() is None and rows(asleep) < 8:
            time.sleep(0.01)
        ranks["asleep", 1].send_signal(signal.SIGSTOP)
        since = time.monotonic()
        for name, rank in (("asleep", 0), ("strangers", 0), ("strangers", 1)):
            _, errors = ranks[name, rank].communicate(timeout=60)
            assert ranks[name, rank].returncode == 2, errors
            assert f"mondrian train: process {rank} of 2 cannot reach the others (trainer.timeout=4 s)" in errors
            assert "Traceback" not in errors.splitlines()[-1]
        assert time.monotonic() - since < 40
    finally:
        for process in ranks.values():
            process.kill()
            process.communicate()


def test_only_errors_about_other_processes_are_theirs() -> None:
    with (
        pytest.raises(PeersLost, match=r"process 1 of 2 .*timeout=9 s.*Connection closed by peer"),
        naming_lost_peers(1, 2, timeout=9.0),
    ):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1\nand more")
    with pytest.raises(RuntimeError, match="sizes do not match"), naming_lost_peers(1, 2, timeout=9.0):
        raise RuntimeError("sizes do not match")
    with pytest.raises(RuntimeError, match="timed out") as error, naming_lost_peers(0, 1, timeout=9.0):
        raise RuntimeError("a download timed out")  # one process has no others
    assert not isinstance(error.value, PeersLost)


def test_restarts_that_would_meet_the_dead_are_refused() -> None:
    shared = {"TORCHELASTIC_MAX_RESTARTS": "3", "TORCHELASTIC_USE_AGENT_STORE": "True", "WORLD_SIZE": "2"}
    with pytest.raises(ValueError, match="needed TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 before torchrun"):
        check_restarts(shared)
    for key, harmless in (
        ("TORCHELASTIC_MAX_RESTARTS", "0"), ("TORCHELASTIC_USE_AGENT_STORE", "False"), ("WORLD_SIZE", "1"),
    ):  # fmt: skip
        check_restarts({**shared, key: harmless})
    check_restarts({})


def test_data_that_nobody_makes_are_not_waited_for(tmp_path: Path) -> None:
    wanted = plan(AllenCahn(), seed=0, simulations={"train": 4}, points={"train": [(16, 16)]}, shard_size=2)
    with pytest.raises(TimeoutError, match=r"0 of 2 files .* no new one for 0\.5 s .*the first process"):
        _wait_for(tmp_path, wanted, 0.5)
