"""Several processes make the steps of one, whole or sharded, and a run of one number of them resumes with another."""

import itertools
import json
import os
import socket
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mondrian.data.meshes import PerforatedPoisson
from mondrian.data.meshes.poisson import write_poisson
from mondrian.support.process import launched
from mondrian.training import Run
from mondrian.training.order import Order
from mondrian.training.strategy import placed
from mondrian.training.train import train_config
from tests.forked import Forked
from tests.training import ranks
from tests.training.cases import TINY

COMMON = (
    "validate_every=2", "trainer.accelerator=cpu", "trainer.precision=64-true", "trainer.timeout=20",
    "optimizer.decay=none", "optimizer.warmup=0",
)  # fmt: skip
NOISY = (*TINY, *COMMON, "noise=0.1", "augment=[rotations,reflections]")
IN_TIME = (
    "data=files", "scale=smoke", "data.input=[vorticity]", "data.target=[vorticity]", "data.steps_in=2",
    "data.steps_out=1", "batch_size=2", "max_steps=4", "log_every=1", *COMMON,
)  # fmt: skip
ON_MESHES = (
    "experiment=poisson/boxes", "scale=smoke", "model.hidden_channels=4", "model.n_layers=1", "batch_size=2",
    "max_steps=4", "log_every=1", *COMMON,
)  # fmt: skip


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def tasks(file: Path, number: int = 2) -> list[dict[str, Any]]:
    """What several processes saw that were started as srun starts tasks on one machine."""
    count = str(number)
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "train", "SLURM_NODELIST": "127.0.0.1", "SLURM_NODEID": "0",
             "SLURM_NTASKS": count, "SLURM_NTASKS_PER_NODE": count, "SLURM_NNODES": "1", "SLURM_STEP_NUM_TASKS": count,
             "SLURM_STEP_NUM_NODES": "1", "MASTER_PORT": free_port(), "OMP_NUM_THREADS": "1"}  # fmt: skip
    with ExitStack() as processes:
        first, *_ = [
            processes.enter_context(
                Forked(
                    partial(ranks.main, file),
                    env=os.environ | slurm | {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
                )
            )
            for rank in range(number)
        ]
        assert first.wait() == 0, first.said()
    return [json.loads(file.with_name(f"{file.stem}_{rank}.json").read_text()) for rank in range(number)]


def assert_same(actual: Run, wanted: Run) -> None:
    """Losses and best models are equal to rounding; means over the validation part are taken in float32."""
    columns = {"step": 0.0, "train_loss": 1e-8, "learning_rate": 0.0, "valid_loss": 1e-6, "valid_mae": 1e-6}
    for column, rounding in columns.items():
        assert actual.history()[column] == pytest.approx(wanted.history()[column], rel=rounding, nan_ok=True)
    weights, others = (run.surrogate().state_dict() for run in (actual, wanted))
    assert weights.keys() == others.keys()
    assert all(torch.allclose(weights[key], others[key], rtol=1e-6, atol=1e-9) for key in weights)


@pytest.mark.process
@pytest.mark.slow
def test_two_processes_train_like_one_and_each_resumes_what_the_other_began(
    allen_cahn: Path, navier_stokes: Path, tmp_path: Path
) -> None:
    """In one test, because each process takes seconds to start."""
    noisy, in_time = [*NOISY, f"data.path={allen_cahn}"], [*IN_TIME, f"data.path={navier_stokes}"]
    write_poisson(tmp_path / "poisson", PerforatedPoisson(spacing=0.2), {"train": 6, "valid": 3})
    meshes = [*ON_MESHES, f"data.path={tmp_path / 'poisson'}"]
    unrolled, pushed = [*in_time, "unroll=3", "grow_every=1"], [*in_time, "unroll=2", "pushforward=true"]

    def run_of(name: str, *words: str) -> Run:
        return train_config([*words, f"run={tmp_path / name}"])

    run_of("handed_over", *noisy, "max_steps=2")
    jobs = {
        "ddp": [*noisy, "trainer=ddp"],
        "fsdp": [*noisy, "trainer=fsdp", "trainer.accumulate_grad_batches=2"],
        "unrolled": [*unrolled, "trainer=fsdp"],
        "pushed": [*pushed, "trainer=fsdp"],
        "meshes": [*meshes, "trainer=fsdp"],
        "sharded": ["resume=true", "trainer=fsdp", "max_steps=4"],
        "together": ["resume=true", "trainer=ddp", "max_steps=6"],
        "diverged": [*noisy, "trainer=ddp", "optimizer.lr=1e200", "validate_every=1"],
        "asleep": [*noisy, "trainer=ddp", "checkpoint_every=1", "log_every=4"],
    }
    folders = {"sharded": "handed_over", "together": "handed_over"}
    file = tmp_path / "jobs.json"
    file.write_text(
        json.dumps({name: [*words, f"run={tmp_path / folders.get(name, name)}"] for name, words in jobs.items()})
    )
    seen = tasks(file)
    handed_over = run_of("handed_over", "resume=true", "trainer=default", "max_steps=8")

    alone = run_of("alone", *noisy)
    for run in (Run.open(tmp_path / "ddp"), Run.open(tmp_path / "fsdp"), handed_over):
        assert_same(run, alone)
        assert_same_checkpoint(run, alone)
    # several applications with gradients, and some without: gathered weights must be those of the present step
    assert_same(Run.open(tmp_path / "unrolled"), run_of("unrolled_alone", *unrolled))
    assert_same(Run.open(tmp_path / "pushed"), run_of("pushed_alone", *pushed))
    assert_same(Run.open(tmp_path / "meshes"), run_of("meshes_alone", *meshes))

    assert all("validation loss is nan at step 1" in rank["diverged"] for rank in seen)
    assert "rank 0 of 2 cannot reach the others (trainer.timeout=20 s)" in seen[0]["asleep"]
    woken = run_of("asleep", "resume=true", "trainer=default").history()["train_loss"]
    means = alone.history()["train_loss"]
    means = means[~np.isnan(means)].reshape(2, 4).mean(axis=1)  # the first half of the first one by two processes
    assert woken[~np.isnan(woken)] == pytest.approx(means, rel=1e-8)
    order = Order(12, seed=0)
    for name, portions in {"ddp": 1, "fsdp": 2}.items():
        taken = [rank[name] for rank in seen]
        assert sorted(itertools.chain(*taken[0], *taken[1])) == list(range(32))  # eight batches of four
        for number in range(2):  # three steps are a pass over the twelve samples
            steps = slice(3 * portions * number, 3 * portions * (number + 1))
            samples = [order[place] for rank in taken for place in itertools.chain(*rank[steps])]
            assert sorted(samples) == list(range(12))


def assert_same_checkpoint(actual: Run, wanted: Run) -> None:
    """What several processes wrote is what one would have written."""
    one, other = (
        torch.load(next(run.checkpoints.glob("step_00000008_*.ckpt")), weights_only=True) for run in (wanted, actual)
    )
    assert other.keys() == one.keys()
    assert other["loops"].keys() == one["loops"].keys()
    for key, weight in one["state_dict"].items():
        assert other["state_dict"][key].dtype == weight.dtype
        assert torch.allclose(other["state_dict"][key], weight, rtol=1e-6, atol=1e-9)
    (moments,), (others,) = one["optimizer_states"], other["optimizer_states"]
    assert moments["state"].keys() == others["state"].keys()
    for number, state in moments["state"].items():
        assert torch.allclose(others["state"][number]["exp_avg"], state["exp_avg"], rtol=1e-6, atol=1e-12)
        assert others["state"][number]["step"] == state["step"] == 8


# What the launchers say


def test_the_launcher_says_how_many_processes_there_are() -> None:
    assert launched({}) is None
    assert launched({"WORLD_SIZE": "2", "LOCAL_RANK": "1"}) is None  # Lightning's own children
    assert launched({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}) == (4, 2)
    step = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_NUM_NODES": "3"}
    assert launched(step) == (2, 3)
    assert launched({"SLURM_JOB_NUM_NODES": "3", "SLURM_NTASKS": "6"}) is None  # a batch script without srun
    with pytest.raises(ValueError, match="5 tasks on 2 machines; needed --ntasks-per-node"):
        launched({**step, "SLURM_STEP_NUM_TASKS": "5", "SLURM_STEP_NUM_NODES": "2"})
    with pytest.raises(ValueError, match="started 5 processes; needed the same number on each machine"):
        launched({"WORLD_SIZE": "5", "LOCAL_WORLD_SIZE": "2"})


def test_strategies_are_placed_where_the_launcher_put_the_processes() -> None:
    settings = {"accelerator": "cpu", "devices": "auto", "num_nodes": "auto", "strategy": "auto", "timeout": 60}
    assert placed(settings, {}) == {"accelerator": "cpu", "devices": "auto", "num_nodes": 1, "strategy": "auto"}
    two_machines = {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    chosen = placed(settings, two_machines)
    assert (chosen["devices"], chosen["num_nodes"], type(chosen["strategy"]).__name__) == (
        4,
        2,
        "DDPStrategy",
    )
    assert chosen["strategy"]._timeout.total_seconds() == 60
    sharded = placed({**settings, "strategy": "fsdp", "timeout": 0.5}, two_machines)["strategy"]
    assert (sharded._data_parallel_size, sharded._tensor_parallel_size) == (8, 1)
    assert sharded._timeout.total_seconds() == 0.5
    assert type(placed({**settings, "devices": [0, 2]}, {})["strategy"]).__name__ == "DDPStrategy"
    assert type(placed({**settings, "devices": "2"}, {})["strategy"]).__name__ == "DDPStrategy"
    assert placed({**settings, "strategy": "ddp_find_unused_parameters_true"}, {})["strategy"].startswith("ddp_find")
    for key, value, message in (
        ("strategy", "deepspeed_stage_2", "shards the model in a way that cannot be saved; needed fsdp"),
        ("timeout", 0, "trainer.timeout=0 must be a positive number of seconds"),
        ("timeout", "long", "trainer.timeout=long must be a positive number"),
        ("num_nodes", "two", "trainer.num_nodes=two must be auto or a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            placed({**settings, key: value}, {})
