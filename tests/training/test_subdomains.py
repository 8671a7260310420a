"""Processes that share the subdomains of each sample train as one does."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mondrian.training import GridData, Run
from mondrian.training.train import train_config
from tests.training.test_processes import IN_TIME, NOISY, assert_same, tasks

STAGGERED = (*NOISY, "model.n_layers=2", "model.stagger=true", "max_steps=4")


@pytest.mark.process
@pytest.mark.slow
def test_two_processes_that_share_subdomains_train_like_one(
    allen_cahn: Path, navier_stokes: Path, tmp_path: Path
) -> None:
    """In one test, because each process takes seconds to start."""
    staggered, periodic = [*STAGGERED, f"data.path={allen_cahn}"], [*IN_TIME, f"data.path={navier_stokes}"]
    unrolled = [*periodic, "unroll=2", "loss=h1"]  # the gradient of an error reaches over the cut
    jobs = {
        "ddp": [*staggered, "trainer=ddp"],
        "fsdp": [*staggered, "trainer=fsdp"],
        "unrolled": [*unrolled, "trainer=ddp"],
    }
    file = tmp_path / "jobs.json"
    spread = {name: [*words, "parallel.subdomains=2", f"run={tmp_path / name}"] for name, words in jobs.items()}
    file.write_text(json.dumps(spread))
    seen = tasks(file)
    assert seen[0]["ddp"] == seen[1]["ddp"] == [list(range(first, first + 4)) for first in range(0, 16, 4)]
    alone = train_config([*staggered, f"run={tmp_path / 'alone'}"])
    for name in ("ddp", "fsdp"):
        assert_same(Run.open(tmp_path / name), alone)
    assert_same(Run.open(tmp_path / "unrolled"), train_config([*unrolled, f"run={tmp_path / 'unrolled_alone'}"]))


@pytest.mark.process
@pytest.mark.slow
def test_batches_and_subdomains_are_shared_at_once_by_four_processes(allen_cahn: Path, tmp_path: Path) -> None:
    """Two by two; of the five samples to validate on one pair has three."""
    words, file = [*STAGGERED, f"data.path={allen_cahn}"], tmp_path / "jobs.json"
    shared = [*words, "trainer=fsdp", "parallel.subdomains=2", f"run={tmp_path / 'four'}"]
    file.write_text(json.dumps({"four": shared}))
    seen = [rank["four"] for rank in tasks(file, 4)]
    assert seen[0] == seen[1] == [[first, first + 1] for first in range(0, 16, 4)]
    assert seen[2] == seen[3] == [[first + 2, first + 3] for first in range(0, 16, 4)]
    assert_same(Run.open(tmp_path / "four"), train_config([*words, f"run={tmp_path / 'alone'}"]))


def test_processes_that_share_subdomains_have_the_same_samples(allen_cahn_splits) -> None:
    taken = []
    for rank in range(4):
        data = GridData(allen_cahn_splits, batch_size=4, max_steps=3, subdomains=2)
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
        (["parallel.subdomains=2"], "parallel.subdomains=2 does not divide the number of ranks, 1"),
        (["parallel.subdomains=0"], "parallel.subdomains=0 must be a whole number from 1 on"),
        (["trainer.devices=3", "trainer=ddp"], "batch_size=4 cannot be divided among 3 ranks in 1 portions"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_data_are_made(words, message, tmp_path) -> None:
    with pytest.raises(ValueError, match=message):
        train_config([*STAGGERED, *words, f"run={tmp_path / 'run'}", f"data.path={tmp_path / 'nothing'}"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["model.subdomains=[1,4]"],
            "1 rows of subdomains cannot be shared by 2 ranks; needed at least one row for each",
        ),
        (["model.subdomains=[3,4]"], r"subdomains=\(3, 4\) do not divide the points=\(16, 16\)"),
        (["+model.cell_points=[4,4]"], r"cell_points=\(4, 4\) resample the whole field; needed a model without them"),
        (["experiment=allen_cahn/unet_sepmo", "model.levels=2"], "a U-Net of levels=2 cannot be cut into slabs"),
        (["experiment=allen_cahn/ffno"], "has no subdomains to spread; needed a TransformerOperator"),
    ],
)
def test_what_cannot_be_spread_is_refused_before_processes_meet(words, message, allen_cahn, tmp_path) -> None:
    settings = [f"run={tmp_path / 'run'}", f"data.path={allen_cahn}", "trainer=ddp", "trainer.accelerator=cpu"]
    small = ("scale=smoke", "batch_size=4") if "experiment" in words[0] else STAGGERED
    with pytest.raises(ValueError, match=message):
        train_config([*small, *settings, "trainer.devices=2", "parallel.subdomains=2", *words])
