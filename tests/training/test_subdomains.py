"""Processes that share the subdomains of each sample train as one does."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mondrian.training import OperatorData, Run
from mondrian.training.train import train_config
from tests.training.test_processes import IN_TIME, NOISY, ROOT, environment, torchrun

STAGGERED = (*NOISY, "model.n_layers=2", "model.stagger=true")


@pytest.fixture(scope="module")
def runs(allen_cahn: Path, navier_stokes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of one process and of two, each in a folder of its name."""
    folder = tmp_path_factory.mktemp("subdomains")
    staggered = [*STAGGERED, f"data.path={allen_cahn}"]
    unrolled = [*IN_TIME, f"data.path={navier_stokes}", "unroll=2", "loss=h1"]
    train_config([*staggered, f"run={folder / 'one'}"])
    train_config([*unrolled, f"run={folder / 'one_unrolled'}"])
    jobs = {
        "ddp": [*staggered, "trainer=ddp"],
        "fsdp": [*staggered, "trainer=fsdp"],
        "ddp_unrolled": [*unrolled, "trainer=ddp"],
    }
    file = folder / "jobs.json"
    words = {name: [*job, "parallel.subdomains=2", f"run={folder / name}"] for name, job in jobs.items()}
    file.write_text(json.dumps(words))
    command = torchrun("-m", "tests.training.ranks", str(file))
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name, alone", [("ddp", "one"), ("fsdp", "one"), ("ddp_unrolled", "one_unrolled")])
def test_losses_and_models_are_those_of_one_process(runs: Path, name: str, alone: str) -> None:
    found, wanted = (Run.open(runs / folder) for folder in (name, alone))
    for column in ("step", "train_loss", "valid_loss", "valid_mae"):
        assert found.history()[column] == pytest.approx(wanted.history()[column], rel=1e-8, nan_ok=True)
    weights, others = (run.surrogate().state_dict() for run in (found, wanted))
    for key, weight in weights.items():
        assert torch.allclose(weight, others[key], rtol=1e-6, atol=1e-9)


def test_processes_that_share_subdomains_have_the_same_samples(allen_cahn_splits) -> None:
    taken = []
    for rank in range(4):
        data = OperatorData(allen_cahn_splits, batch_size=4, max_steps=3, subdomains=2)
        data.trainer = SimpleNamespace(  # type: ignore[assignment]
            accumulate_grad_batches=1, global_rank=rank, world_size=4,
            strategy=SimpleNamespace(root_device=torch.device("cpu")),
        )  # fmt: skip
        taken.append([batch["places"] for batch in data.train_dataloader()])
    assert taken[0] == taken[1] == [[0, 1], [4, 5], [8, 9]]
    assert taken[2] == taken[3] == [[2, 3], [6, 7], [10, 11]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["parallel.subdomains=2"], "parallel.subdomains=2 does not divide the 1 processes"),
        (["parallel.subdomains=0"], "parallel.subdomains=0 must be a whole number from 1 on"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_data_are_made(words, message, tmp_path) -> None:
    with pytest.raises(ValueError, match=message):
        train_config([*STAGGERED, *words, f"run={tmp_path / 'run'}", f"data.path={tmp_path / 'nothing'}"])
