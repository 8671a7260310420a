"""Processes that die are started again, and the end is as if nothing had happened; silent ones are not waited for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.faults import workers

from mondrian.cli import main
from mondrian.parallel.peers import PeersLost, check_restarts, naming_lost_peers
from mondrian.training import Run
from mondrian.training.preparation import wait_for_files
from mondrian.training.train import train_config
from tests.training.test_kill import LONG, rows
from tests.training.test_processes import free_port


@pytest.mark.process
@pytest.mark.slow
def test_a_killed_rank_is_restarted_and_the_run_ends_like_one_that_was_left_alone(
    allen_cahn: Path, tmp_path: Path
) -> None:
    """To rounding like one of a single process; `python -m benchmarks.faults` compares bit for bit."""
    words = [*LONG, f"data.path={allen_cahn}", "trainer.accelerator=cpu", "trainer.precision=64-true"]
    whole, killed = train_config([*words, f"run={tmp_path / 'whole'}"]), Run(tmp_path / "killed")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    command = [*launcher, "-m", "mondrian", "train", *words, "trainer=fsdp", f"run={killed.folder}", "resume=true"]
    variables = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | variables
    )
    while process.poll() is None and rows(killed) <= 16:
        time.sleep(0.002)
    os.kill(workers(process.pid)[1], signal.SIGKILL)
    assert process.poll() is None  # only a restart brings it to the end
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert "best validation loss" in out
    for column in ("step", "train_loss", "learning_rate", "valid_loss"):
        assert killed.history()[column] == pytest.approx(whole.history()[column], rel=1e-6, nan_ok=True)


@pytest.mark.training
def test_a_rank_without_the_others_stops_with_a_message(
    allen_cahn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "GROUP_RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    for name, value in {
        **ranks,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "TORCHELASTIC_RUN_ID": "a",
    }.items():
        monkeypatch.setenv(name, value)
    words = [*LONG, f"data.path={allen_cahn}", f"run={tmp_path / 'run'}", "trainer=ddp", "trainer.accelerator=cpu"]
    with pytest.raises(PeersLost, match=r"rank 0 of 2 cannot reach the others \(trainer\.timeout=1 s\)"):
        train_config([*words, "trainer.timeout=1"])


def test_a_prediction_without_the_others_stops_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["predict", str(tmp_path), "x.npy", "-o", "y.npy", "--timeout", "1"]
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(words) == 2
    assert "2 processes were started that cannot find each other; needed torchrun" in capsys.readouterr().err
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", free_port())
    assert main(words) == 2
    assert "rank 0 of 2 cannot reach the others (timeout=1 s)" in capsys.readouterr().err
    assert main([*words[:-1], "0"]) == 2
    assert "timeout=0.0 must be a positive number of seconds" in capsys.readouterr().err


def test_only_errors_about_other_processes_are_theirs() -> None:
    words = {"patience": "timeout=9 s", "advice": "Try again"}
    with (
        pytest.raises(PeersLost, match=r"rank 1 of 2 .*timeout=9 s.*Connection closed by peer .*Try again"),
        naming_lost_peers(1, 2, **words),
    ):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1\nand more")
    with pytest.raises(RuntimeError, match="sizes do not match"), naming_lost_peers(1, 2, **words):
        raise RuntimeError("sizes do not match")
    with pytest.raises(RuntimeError, match="timed out") as error, naming_lost_peers(0, 1, **words):
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
    (tmp_path / "a").touch()
    files = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(TimeoutError, match=r"1 of 2 files .* no new one for 0\.5 s .*the first rank"):
        wait_for_files(files, 0.5, tmp_path)
    (tmp_path / "b").touch()
    wait_for_files(files, 0.0, tmp_path)
    with pytest.raises(TimeoutError, match="2 of 2 files"):
        wait_for_files(files, 0.0, tmp_path, done=lambda: False)
