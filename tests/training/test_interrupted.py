"""Runs that are interrupted: they resume to the same end, nothing is lost, and a run resumes only as itself."""

import math
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer

from mondrian import Grid, vit_no
from mondrian.artefact import ModelSpec
from mondrian.data import AllenCahn, Splits
from mondrian.data.generate import generate, plan
from mondrian.support import files
from mondrian.training import Diverged, Stopped, train_model
from mondrian.training.checkpoints import newest, saved
from mondrian.training.grids import GridTraining
from mondrian.training.history import HistoryFile
from mondrian.training.recorder import Recorder
from mondrian.training.train import train_config
from tests.training.cases import interrupt, losses, refused, same, weights

pytestmark = pytest.mark.training


@pytest.mark.parametrize("step", [1, 4, 5, 7])
@pytest.mark.parametrize("extra", [(), ("trainer.accumulate_grad_batches=2", "augment=[rotations,reflections]")])
def test_a_run_that_broke_off_resumes_to_the_same_end(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, extra: tuple[str, ...]
) -> None:
    reference = train_config([*words, *extra, f"run={tmp_path / 'reference'}"])

    def crash() -> None:
        raise RuntimeError("power cut")

    with monkeypatch.context() as broken:
        interrupt(broken, step, crash)
        with pytest.raises(RuntimeError, match="power cut"):
            train_config([*words, *extra])
    run = train_config([f"run={tmp_path / 'run'}", "resume=true"])  # the other words are known
    assert same(weights(run), weights(reference))
    assert losses(run) == losses(reference)
    assert (run.artefact / "model.safetensors").read_bytes() == (reference.artefact / "model.safetensors").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("step", [4, 5])  # after step 4 comes a validation
def test_a_signal_saves_and_stops_and_the_run_resumes_to_the_same_end(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, step: int
) -> None:
    reference = train_config([*words, f"run={tmp_path / 'reference'}"])
    with monkeypatch.context() as broken:
        interrupt(broken, step - 1, lambda: os.kill(os.getpid(), number))
        with pytest.raises(Stopped, match=f"{number.name} at step {step} of 8"):
            train_config(words)
    assert newest(tmp_path / "run" / "checkpoints").name.startswith(f"step_{step:08d}")
    run = train_config([*words, "resume=true"])
    assert same(weights(run), weights(reference))
    assert losses(run) == losses(reference)
    assert (run.artefact / "model.safetensors").read_bytes() == (reference.artefact / "model.safetensors").read_bytes()


def test_signals_are_handled_as_before_once_a_run_has_ended(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    train_config(words)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    interrupt(monkeypatch, 2, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Stopped):
        train_config([*words, f"run={tmp_path / 'stopped'}"])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_leaves_the_last_good_checkpoint(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    original = GridTraining.training_step

    def training_step(self: GridTraining, batch: object, batch_idx: int) -> torch.Tensor:
        loss = original(self, batch, batch_idx)
        self.last_loss = (loss * value if self.global_step == 4 else loss).detach()
        return loss * value if self.global_step == 4 else loss

    monkeypatch.setattr(GridTraining, "training_step", training_step)
    with pytest.raises(Diverged, match=rf"loss is {value} at step 5; the last good checkpoint is kept"):
        train_config(words)
    checkpoint = newest(tmp_path / "run" / "checkpoints")
    assert checkpoint.name.startswith("step_00000003")
    assert all(tensor.isfinite().all() for tensor in torch.load(checkpoint, weights_only=True)["state_dict"].values())


def test_weights_that_are_no_numbers_are_never_saved(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Recorder.on_train_batch_end

    def spoil(self: Recorder, trainer: Trainer, module: GridTraining, *rest: object) -> None:
        original(self, trainer, module, *rest)
        if trainer.global_step == 3:  # after the loss has been looked at, before the checkpoint
            next(iter(module.parameters())).data.fill_(math.nan)

    monkeypatch.setattr(Recorder, "on_train_batch_end", spoil)
    with pytest.raises(Diverged, match="weights are not finite at step 3"):
        train_config([*words, "checkpoint_every=1"])
    assert [path.name[:13] for path in saved(tmp_path / "run" / "checkpoints")] == ["step_00000002", "step_00000001"]
    for checkpoint in saved(tmp_path / "run" / "checkpoints"):
        assert all(t.isfinite().all() for t in torch.load(checkpoint, weights_only=True)["state_dict"].values())


def test_a_full_disk_names_the_file(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_: int) -> None:
        raise OSError(28, "No space left on device")

    interrupt(monkeypatch, 2, lambda: monkeypatch.setattr(files.os, "fsync", fsync))
    with pytest.raises(OSError, match=r"cannot write .*step_00000003_[0-9a-f]{16}\.ckpt: No space left on device"):
        train_config(words)


def test_a_full_disk_names_the_history_too() -> None:
    with pytest.raises(OSError, match="cannot write /dev/full: No space left on device"):
        HistoryFile(Path("/dev/full")).append({"step": 1})


def test_a_row_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "history.csv")
    file.keep(0)
    for step in range(1, 5):
        file.append({"step": step, "train_loss": step / 10})
    with open(file.path, "a") as stream:
        stream.write("5,0.")
    assert [row["step"] for row in file.rows()] == ["1", "2", "3", "4"]
    file.keep(2)
    file.append({"step": 3})
    assert [row["step"] for row in file.rows()] == ["1", "2", "3"]


def test_an_existing_run_is_neither_overwritten_nor_continued_as_another(words: list[str]) -> None:
    train_config([*words, "max_steps=2"])
    refused(words, "holds a run already; resume=true resumes it")
    refused(words, "seed was 0 when .* began; it cannot resume with 1", "resume=true", "seed=1")
    refused(words, "trainer.accumulate_grad_batches was 1 when", "resume=true", "trainer.accumulate_grad_batches=2")
    refused(words, "trainer.precision was 32-true when", "resume=true", "trainer.precision=64-true")
    longer = train_config([*words, "resume=true", "max_steps=4"])
    assert longer.history()["step"].max() == 4


def test_a_run_resumes_with_data_that_moved(words: list[str], tmp_path: Path) -> None:
    train_config([*words, "max_steps=2"])
    (place,) = [word.partition("=")[2] for word in words if word.startswith("data.path=")]
    shutil.copytree(place, tmp_path / "moved")
    moved = [f"data.path={tmp_path / 'moved'}", "resume=true", "max_steps=4"]
    run = train_config([*words, *moved])
    assert run.history()["step"].max() == 4
    assert run.data().files.path == run.config["data"]["path"] == str(tmp_path / "moved")
    assert train_config([words[-1], "resume=true", "max_steps=5"]).history()["step"].max() == 5
    assert run.data().files.path == str(tmp_path / "moved")
    refused(words, "data.seed was 0 when .* began; it cannot resume with 1", *moved, "data.seed=1")


def test_a_run_does_not_resume_with_other_data(words: list[str], tmp_path: Path) -> None:
    train_config([*words, "max_steps=2"])
    grid = Grid(extent=(2.0, 2.0), points=(16, 16))
    points = {"train": [(16, 16)], "valid": [(16, 16)]}
    other = plan(AllenCahn(grid=grid), seed=2, simulations={"train": 12, "valid": 5}, points=points, shard_size=4)
    generate(tmp_path / "other", other)
    moved = [f"data.path={tmp_path / 'other'}", "resume=true", "max_steps=4"]
    refused(words, "the training samples are others .* needed the same data", *moved)


def test_a_run_that_resumes_with_another_learning_rate_has_it(words: list[str]) -> None:
    constant = ["optimizer.decay=none", "optimizer.warmup=0"]
    train_config([*words, *constant, "max_steps=2", "optimizer.lr=2e-3"])
    run = train_config(
        [*words, *constant, "resume=true", "max_steps=4", "optimizer.lr=1e-4", "optimizer.weight_decay=0.5"]
    )
    rates = run.history()["learning_rate"]
    assert rates[~np.isnan(rates)].tolist() == [2e-3, 2e-3, 1e-4, 1e-4]
    state = torch.load(newest(run.checkpoints), weights_only=True)["optimizer_states"][0]["param_groups"][0]
    assert state["weight_decay"] == 0.5


def test_a_model_of_ones_own_resumes_only_as_itself(allen_cahn_splits: Splits, tmp_path: Path) -> None:
    def model(width: int) -> ModelSpec:
        return vit_no(in_channels=2, out_channels=1, hidden_channels=width, n_layers=1, subdomains=(4, 4)).spec

    words = [f"run={tmp_path / 'run'}", "batch_size=4", "log_every=1", "optimizer.warmup=1"]
    run = train_model(model(8), allen_cahn_splits, *words, "max_steps=2")
    assert run.config["model"]["hidden_channels"] == 8
    assert run.config["data"]["input"] == ["u", "gamma"]
    with pytest.raises(ValueError, match=r"model.hidden_channels was 8 when .* began; it cannot resume with 16"):
        train_model(model(16), allen_cahn_splits, *words, "resume=true")
    other = replace(allen_cahn_splits, simulations=8)
    with pytest.raises(ValueError, match=r"the data's simulations was None when .* cannot resume with 8"):
        train_model(model(8), other, *words, "resume=true")
    longer = train_model(model(8), allen_cahn_splits, *words, "resume=true", "max_steps=4")
    assert longer.history()["step"].max() == 4


def test_a_run_in_float64_resumes_with_the_weights_that_it_had(words: list[str], tmp_path: Path) -> None:
    words = [*words, "trainer.precision=64-true", "optimizer.decay=none", "optimizer.warmup=0", "validate_every=2"]
    whole = train_config([*words, f"run={tmp_path / 'whole'}"])
    train_config([*words, "max_steps=4"])
    assert same(weights(train_config([*words, "resume=true"])), weights(whole))
