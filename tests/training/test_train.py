"""Whole runs: what a configuration asks for happens, nothing is lost, and bad input is named."""

import csv
import json
import math
import os
import signal
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig

from mondrian import files
from mondrian.history import HistoryFile
from mondrian.training import Diverged, Run, Stopped
from mondrian.training.checkpoints import newest, saved
from mondrian.training.module import OperatorTraining
from mondrian.training.settings import configure
from mondrian.training.train import train_config

TINY = (
    "experiment=allen_cahn/vit_sepmo", "scale=smoke", "model.hidden_channels=8", "model.n_layers=1",
    "model.subdomains=[4,4]", "max_steps=8", "batch_size=4", "validate_every=4", "checkpoint_every=3", "log_every=1",
)  # fmt: skip


@pytest.fixture
def words(allen_cahn: Path, tmp_path: Path) -> list[str]:
    return [*TINY, f"data.path={allen_cahn}", f"run={tmp_path / 'run'}"]


def weights(run: Run) -> dict[str, torch.Tensor]:
    checkpoint = newest(run.checkpoints)
    assert checkpoint is not None
    state: dict[str, torch.Tensor] = torch.load(checkpoint, weights_only=True)["state_dict"]
    return state


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert one.keys() == other.keys()
    return all(torch.equal(one[key], other[key]) for key in one)


def losses(run: Run) -> list[tuple[str, ...]]:
    with open(run.history_file) as file:
        return [(r["step"], r["train_loss"], r["valid_loss"], r["valid_mae"]) for r in csv.DictReader(file)]


def interrupt(monkeypatch: pytest.MonkeyPatch, step: int, action: object) -> None:
    """Let something happen in the middle of a step of training."""
    original = OperatorTraining.training_step

    def training_step(self: OperatorTraining, batch: object, batch_idx: int) -> torch.Tensor:
        if self.global_step == step:
            action()  # type: ignore[operator]
        return original(self, batch, batch_idx)

    monkeypatch.setattr(OperatorTraining, "training_step", training_step)


# What a run leaves


def test_a_run_leaves_its_record_history_checkpoints_and_best_model(words: list[str]) -> None:
    run = train_config(words)
    history = run.history()
    assert history["step"].tolist() == [1, 2, 3, 4, 4, 5, 6, 7, 8, 8]
    assert history["samples"].tolist() == [4 * step for step in history["step"]]
    assert [path.name[:13] for path in saved(run.checkpoints)] == ["step_00000008", "step_00000006"]
    assert run.config["max_steps"] == 8
    assert set(run.facts["versions"]) >= {"mondrian", "torch", "python"}
    assert list((run.folder / "tensorboard").glob("events*"))
    surrogate = run.surrogate()
    assert surrogate.spec.in_names == ("u[0]", "gamma")
    assert surrogate.spec.in_scales[1].log
    data = run.data().dataset("valid")
    batch = [data[n] for n in range(len(data))]
    x, y = (torch.stack([sample[key] for sample in batch]) for key in ("x", "y"))
    best = min(value for value in history["valid_loss"] if not math.isnan(value))
    with torch.no_grad():
        found = surrogate(x, data.grid)
        scaled = (surrogate.scaled_output(found) - surrogate.scaled_output(y)).square().mean().item()
    assert scaled == pytest.approx(best, rel=1e-5)
    at_best = history["valid_loss"] == best
    assert (found - y).abs().mean().item() == pytest.approx(history["valid_mae"][at_best][0], rel=1e-5)


def test_training_is_the_same_each_time_and_differs_by_seed(words: list[str], tmp_path: Path) -> None:
    first = train_config(words)
    again = train_config([*words, f"run={tmp_path / 'again'}"])
    other = train_config([*words, f"run={tmp_path / 'other'}", "seed=1"])
    assert same(weights(first), weights(again))
    assert losses(first) == losses(again)
    assert not same(weights(first), weights(other))


def test_portions_of_a_batch_make_the_same_step(words: list[str], tmp_path: Path) -> None:
    words = [*words, "trainer.precision=64-true"]  # Adam makes full steps of gradients that are nothing but rounding
    whole = train_config(words)
    portions = train_config([*words, f"run={tmp_path / 'two'}", "trainer.accumulate_grad_batches=2"])
    for name in ("step", "train_loss", "valid_loss"):
        assert portions.history()[name] == pytest.approx(whole.history()[name], rel=1e-8, nan_ok=True)


def test_it_learns(words: list[str]) -> None:
    run = train_config([*words, "max_steps=60", "validate_every=20", "optimizer.lr=5e-3", "optimizer.warmup=5"])
    found = [value for value in run.history()["valid_loss"] if not math.isnan(value)]
    assert found[-1] < 0.5  # of the variance of the target, which is 1 in these units


# Nothing lost


@pytest.mark.parametrize("step", [1, 4, 5, 7])
@pytest.mark.parametrize("extra", [(), ("trainer.accumulate_grad_batches=2", "augment=[rotations,reflections]")])
def test_a_run_that_broke_off_goes_on_to_the_same_end(
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


def test_ctrl_c_saves_and_stops_and_the_run_goes_on_to_the_same_end(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = train_config([*words, f"run={tmp_path / 'reference'}"])
    with monkeypatch.context() as broken:
        interrupt(broken, 4, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(Stopped, match="SIGINT at step 5 of 8"):
            train_config(words)
    assert newest(tmp_path / "run" / "checkpoints").name.startswith("step_00000005")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    run = train_config([*words, "resume=true"])
    assert same(weights(run), weights(reference))
    assert losses(run) == losses(reference)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_stops_the_run_and_leaves_the_last_good_checkpoint(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    original = OperatorTraining.training_step

    def training_step(self: OperatorTraining, batch: object, batch_idx: int) -> torch.Tensor:
        loss = original(self, batch, batch_idx)
        self.last_loss = (loss * value if self.global_step == 4 else loss).detach()
        return loss * value if self.global_step == 4 else loss

    monkeypatch.setattr(OperatorTraining, "training_step", training_step)
    with pytest.raises(Diverged, match=rf"loss is {value} at step 5; the last good checkpoint is kept"):
        train_config(words)
    checkpoint = newest(tmp_path / "run" / "checkpoints")
    assert checkpoint.name.startswith("step_00000003")
    assert all(tensor.isfinite().all() for tensor in torch.load(checkpoint, weights_only=True)["state_dict"].values())


def test_weights_that_are_no_numbers_are_never_saved(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(self: OperatorTraining, *_: object) -> None:
        if self.global_step == 3:
            next(iter(self.parameters())).data.fill_(math.nan)

    monkeypatch.setattr(OperatorTraining, "on_before_zero_grad", spoil, raising=False)
    monkeypatch.setattr(OperatorTraining, "on_train_batch_end", spoil, raising=False)
    with pytest.raises(Diverged, match="at step"):
        train_config([*words, "checkpoint_every=1"])
    for checkpoint in saved(tmp_path / "run" / "checkpoints"):
        assert all(t.isfinite().all() for t in torch.load(checkpoint, weights_only=True)["state_dict"].values())


def test_a_full_disk_names_the_file(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_: int) -> None:
        raise OSError(28, "No space left on device")

    interrupt(monkeypatch, 2, lambda: monkeypatch.setattr(files.os, "fsync", fsync))
    with pytest.raises(OSError, match=r"cannot write .*step_00000003_[0-9a-f]{16}\.ckpt: No space left on device"):
        train_config(words)


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


# Autoregressive


def test_unrolled_noisy_training_of_a_simulation_in_time(navier_stokes: Path, tmp_path: Path) -> None:
    words = [
        "data=files", "scale=smoke", f"data.path={navier_stokes}", "data.input=[vorticity]", "data.target=[vorticity]",
        "data.steps_in=2", "data.steps_out=1", "data.symmetries=[rotations,translations]", "unroll=3", "grow_every=2",
        "noise=0.05", "augment=[rotations,translations]", "max_steps=6", "batch_size=2", "validate_every=4",
        "checkpoint_every=2", "log_every=1", "loss=h1", f"run={tmp_path / 'run'}",
    ]  # fmt: skip
    run = train_config(words)
    surrogate = run.surrogate()
    assert surrogate.spec.in_names == ("vorticity[-1]", "vorticity[0]")
    assert surrogate.spec.out_names == ("vorticity[1]",)
    assert surrogate.spec.model.subdomains == (4, 4)
    assert surrogate.spec.default_grid.periodic == (True, True)
    assert run.history()["step"].tolist() == [1, 2, 3, 4, 4, 5, 6, 6]  # a last validation after the last step


# Bad input


def refused(words: list[str], match: str, *extra: str, error: type[Exception] = ValueError) -> None:
    with pytest.raises(error, match=match):
        train_config([*words, *extra])


def test_bad_input_is_named(words: list[str], tmp_path: Path) -> None:
    refused(words, "data=burgers is not known; needed one of allen_cahn, files, navier_stokes", "data=burgers")
    refused(words, "scale=huge is not known; needed one of cpu, demo, paper, smoke", "scale=huge")
    refused(words, "'resume' is no setting; needed words such as max_steps=1000", "resume")
    refused(words, "max_steps=0 must be a whole number from 1 on", "max_steps=0")
    refused(words, r"batch_size=1\.5 must be a whole number", "batch_size=1.5")
    refused(words, "model.in_channels=3; the data set has 2: u.0., gamma", "model.in_channels=3")
    refused(words, "has no field 'v'; it has", "data.input=[v]")
    refused(words, "must be a list of words", "data.input=u")
    refused(words, "nowhere does not exist", f"data.path={tmp_path / 'nowhere'}", error=OSError)
    refused(words, r"points=\(8, 8\) are not stored", "data.train_points=[8,8]")
    refused(words, "decay=sudden is not known", "optimizer.decay=sudden")
    refused(words, "AdamW has lr='fast'; needed float", "optimizer.lr=fast")
    refused(words, "simulations=100 are wanted; .* has 12", "data.simulations=100")
    refused(words, "needs 4 steps|need 4 steps", "unroll=3")
    assert not (tmp_path / "run").exists()


def test_an_existing_run_is_neither_overwritten_nor_continued_as_another(words: list[str]) -> None:
    train_config([*words, "max_steps=2"])
    refused(words, "holds a run already; resume=true goes on with it")
    refused(words, "seed was 0 when .* began; a run cannot go on with 1", "resume=true", "seed=1")
    longer = train_config([*words, "resume=true", "max_steps=4"])
    assert longer.history()["step"].max() == 4


def test_an_empty_part_is_named(allen_cahn: Path, tmp_path: Path) -> None:
    record = json.loads((allen_cahn / "manifest.json").read_text())
    assert record
    words = [*TINY, f"run={tmp_path / 'run'}", f"data.path={tmp_path / 'empty'}"]
    (tmp_path / "empty" / "data" / "train").mkdir(parents=True)
    with pytest.raises(OSError, match=r"data/train holds no \.hdf5 or \.h5 file"):
        train_config(words)


def test_every_recipe_and_scale_can_be_configured() -> None:
    for experiment in ("allen_cahn/fno", "navier_stokes/swin_mo", "custom"):
        for scale in ("paper", "cpu", "smoke"):
            config = configure([f"experiment={experiment}", f"scale={scale}"])
            assert isinstance(config, DictConfig)
    paper = configure(["experiment=allen_cahn/vit_sepmo"])
    assert (paper.max_steps, paper.batch_size, paper.optimizer.lr, paper.optimizer.clip) == (30000, 128, 1e-3, 0.5)
    assert (paper.optimizer.weight_decay, paper.optimizer.decay, paper.optimizer.final_lr) == (0.01, "cosine", 1e-8)
    turbulence = configure(["experiment=navier_stokes/vit_sepmo"])
    assert (turbulence.max_steps, turbulence.batch_size, turbulence.augment) == (100000, 32, ["rotations"])
    assert (turbulence.optimizer.weight_decay, turbulence.optimizer.decay) == (1e-4, "linear")
