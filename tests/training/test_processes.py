"""Several processes make the steps of one, whole or sharded, and what one number of them began another goes on with."""

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mondrian.process import launched
from mondrian.training import Run
from mondrian.training.order import Order
from mondrian.training.strategy import placed
from mondrian.training.train import train_config
from tests.training.test_train import TINY

ROOT = Path(__file__).parents[2]
COMMON = ("trainer.accelerator=cpu", "trainer.precision=64-true", "optimizer.decay=none", "optimizer.warmup=0")
NOISY = (*TINY, *COMMON, "noise=0.1", "augment=[rotations,reflections]")
IN_TIME = (
    "data=files", "scale=smoke", "data.input=[vorticity]", "data.target=[vorticity]", "data.steps_in=2",
    "data.steps_out=1", "batch_size=2", "max_steps=6", "validate_every=3", "log_every=1", *COMMON,
)  # fmt: skip


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} | more


def torchrun(*words: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", *words]


@pytest.fixture(scope="module")
def runs(
    allen_cahn: Path, navier_stokes: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[dict[str, list[list[int]]]]]:
    """Runs of one process and of two, each in a folder of its name; and the places that the two took in each run."""
    folder = tmp_path_factory.mktemp("runs")
    noisy = [*NOISY, f"data.path={allen_cahn}"]
    in_time = [*IN_TIME, f"data.path={navier_stokes}"]
    unrolled, pushed = [*in_time, "unroll=3", "grow_every=2"], [*in_time, "unroll=2", "pushforward=true"]

    def train(name: str, *words: str) -> None:
        train_config([*words, f"run={folder / name}"])

    train("one", *noisy)
    train("one_unrolled", *unrolled)
    train("one_pushed", *pushed)
    for name in ("one_to_ddp", "one_to_fsdp"):
        train(name, *noisy, "max_steps=4")
    jobs = {
        "ddp": [*noisy, "trainer=ddp"],
        "fsdp": [*noisy, "trainer=fsdp"],
        "fsdp_in_portions": [*noisy, "trainer=fsdp", "trainer.accumulate_grad_batches=2"],
        "fsdp_unrolled": [*unrolled, "trainer=fsdp"],
        "fsdp_pushed": [*pushed, "trainer=fsdp"],
        "ddp_to_one": [*noisy, "trainer=ddp", "max_steps=4"],
        "fsdp_to_one": [*noisy, "trainer=fsdp", "max_steps=4"],
        "one_to_ddp": ["resume=true", "trainer=ddp", "max_steps=8"],
        "one_to_fsdp": ["resume=true", "trainer=fsdp", "max_steps=8"],
    }
    file = folder / "jobs.json"
    file.write_text(json.dumps({name: [*words, f"run={folder / name}"] for name, words in jobs.items()}))
    command = torchrun("-m", "tests.training.ranks", str(file))
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    for name in ("ddp_to_one", "fsdp_to_one"):
        shutil.copytree(folder / name, folder / f"{name}_half")
        train(name, "resume=true", "trainer=default", "max_steps=8")
    return folder, [json.loads((folder / f"jobs_{rank}.json").read_text()) for rank in range(2)]


# The same training


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, alone",
    [
        ("ddp", "one"), ("fsdp", "one"), ("fsdp_in_portions", "one"), ("fsdp_unrolled", "one_unrolled"),
        ("fsdp_pushed", "one_pushed"), ("ddp_to_one", "one"), ("fsdp_to_one", "one"), ("one_to_ddp", "one"),
        ("one_to_fsdp", "one"),
    ],
)  # fmt: skip
def test_losses_and_models_are_those_of_one_process_with_the_same_batches(
    runs: tuple[Path, object], name: str, alone: str
) -> None:
    found, wanted = (Run.open(runs[0] / folder) for folder in (name, alone))
    # means over the validation part are taken in float32
    for column, rounding in {
        "step": 0,
        "train_loss": 1e-8,
        "learning_rate": 0,
        "valid_loss": 1e-6,
        "valid_mae": 1e-6,
    }.items():
        assert found.history()[column] == pytest.approx(wanted.history()[column], rel=rounding, nan_ok=True)
    weights, others = (run.surrogate().state_dict() for run in (found, wanted))
    assert weights.keys() == others.keys()
    for key, weight in weights.items():
        assert torch.allclose(weight, others[key], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp", "fsdp", "fsdp_in_portions"])
def test_two_processes_take_every_sample_of_a_pass_once(
    runs: tuple[Path, list[dict[str, list[list[int]]]]], name: str
) -> None:
    taken = [ranks[name] for ranks in runs[1]]
    portions = 2 if "portions" in name else 1
    assert len(taken[0]) == len(taken[1]) == 8 * portions
    assert sorted(itertools.chain(*taken[0], *taken[1])) == list(range(32))  # eight batches of four
    order = Order(12, seed=0)
    for number in range(2):  # three steps are a pass
        steps = slice(3 * portions * number, 3 * portions * (number + 1))
        samples = [order[place] for ranks in taken for place in itertools.chain(*ranks[steps])]
        assert sorted(samples) == list(range(12))


@pytest.mark.slow
def test_the_checkpoints_of_one_and_of_two_processes_hold_the_same(runs: tuple[Path, object]) -> None:
    states = []
    for name in ("one", "ddp", "fsdp"):
        (last,) = (runs[0] / name / "checkpoints").glob("step_00000008_*.ckpt")
        states.append(torch.load(last, weights_only=True))
    one = states[0]
    for other in states[1:]:
        assert other.keys() == one.keys()
        assert other["loops"].keys() == one["loops"].keys()
        assert {key: (t.shape, t.dtype) for key, t in other["state_dict"].items()} == {
            key: (t.shape, t.dtype) for key, t in one["state_dict"].items()
        }
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
    assert placed(settings, {}) == {"accelerator": "cpu", "devices": 1, "num_nodes": 1, "strategy": "auto"}
    two_machines = {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    found = placed(settings, two_machines)
    assert (found["devices"], found["num_nodes"], type(found["strategy"]).__name__) == (4, 2, "DDPStrategy")
    assert found["strategy"]._timeout.total_seconds() == 60
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


def free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@pytest.mark.slow
def test_tasks_of_srun_train_one_run(allen_cahn: Path, tmp_path: Path, runs: tuple[Path, object]) -> None:
    """With the variables that Slurm gives to two tasks on one machine."""
    words = [*NOISY, f"data.path={allen_cahn}", f"run={tmp_path / 'run'}", "trainer=ddp"]
    slurm = {"SLURM_JOB_ID": "1", "SLURM_JOB_NAME": "train", "SLURM_NODELIST": "127.0.0.1", "SLURM_NODEID": "0",
             "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "1", "SLURM_STEP_NUM_TASKS": "2",
             "SLURM_STEP_NUM_NODES": "1", "MASTER_PORT": free_port()}  # fmt: skip
    tasks = [
        subprocess.Popen(
            [sys.executable, "-m", "mondrian", "train", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**slurm, SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank)),
        )
        for rank in range(2)
    ]
    said = [task.communicate(timeout=300) for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], said
    assert "best validation loss" in said[0][0]
    assert said[1][0] == ""
    found, wanted = Run.open(tmp_path / "run").history(), Run.open(runs[0] / "ddp").history()
    assert found["train_loss"] == pytest.approx(wanted["train_loss"], rel=1e-10, nan_ok=True)
