"""A run that resumes: with the data that it knows, and with the newest overrides."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.support.lock import Lock, LockedError
from mondrian.training.checkpoints import saved
from mondrian.training.guards import Diverged
from mondrian.training.run import Run
from mondrian.training.session import Session, resumed_config
from mondrian.training.settings import read_training, resolved_config
from mondrian.training.train import train_config
from tests.training.cases import TINY

pytestmark = pytest.mark.training

SIMULATED = (*TINY, "simulations.train=8", "simulations.valid=4", "simulations.test=4", "shard_size=4", "max_steps=2")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a run is gone on with; it begins in another folder, which is the working one now."""
    for name in ("home", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "elsewhere"


def test_data_that_were_simulated_for_a_run_are_found_from_everywhere(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train_config([*SIMULATED, "run=runs/a"])
    data, folder = run.data().files.path, run.folder.resolve()
    monkeypatch.chdir(elsewhere)
    again = train_config([f"run={folder}", "resume=true", "max_steps=3"])
    assert again.history()["step"].max() == 3
    assert again.data().files.path == data
    train_config([*SIMULATED, f"run={folder}", "resume=true", "max_steps=4"])  # the same words, as is advised
    assert not list(elsewhere.iterdir())


def test_data_that_are_gone_are_simulated_again(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train_config([*SIMULATED, "run=runs/a"])
    folder = run.folder.resolve()
    Path(run.data().files.path).rename(elsewhere.parent / "lost")
    monkeypatch.chdir(elsewhere)
    again = train_config([f"run={folder}", "resume=true", "max_steps=3"])
    assert Path(again.data().files.path) == elsewhere / "data" / "allen_cahn_smoke"


def test_relative_paths_of_folders_and_files_are_found_from_everywhere(
    allen_cahn: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("ac").symlink_to(allen_cahn)
    np.save("u.npy", np.random.default_rng(0).normal(size=(10, 16, 16)).astype(np.float32))
    reader = "data.reader={spec: ArrayFile, path: u.npy, axes: [simulation,space,space], extent: [1.0,1.0]}"
    small = ["scale=smoke", "model.hidden_channels=8", "model.n_layers=1", "max_steps=2", "batch_size=2"]
    of_file = train_config(["data=files", reader, "data.input=[u]", "data.target=[u]", *small, "run=b"])
    assert Path(of_file.data().files.path) == Path("u.npy").resolve()
    runs = [of_file, train_config([*TINY, "max_steps=2", "data.path=ac", "run=a"])]
    folders = [run.folder.resolve() for run in runs]
    monkeypatch.chdir(elsewhere)
    for folder in folders:
        assert train_config([f"run={folder}", "resume=true", "max_steps=3"]).history()["step"].max() == 3


def test_a_run_without_steps_left_keeps_its_record(
    allen_cahn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = f"run={tmp_path / 'run'}"
    run = train_config([*TINY, f"data.path={allen_cahn}", place, "max_steps=2", "optimizer.lr=1e-3"])
    record, artefact = run.record.read_text(), (run.artefact / "model.safetensors").read_bytes()
    again = train_config([place, "resume=true", "optimizer.lr=0.3", "max_steps=1", "workers=1"])
    assert f"{run.folder}: no step of max_steps=1 is left to train" in capsys.readouterr().err
    assert again.record.read_text() == record
    assert (run.artefact / "model.safetensors").read_bytes() == artefact
    moved = shutil.copytree(allen_cahn, tmp_path / "elsewhere")
    assert train_config([place, "resume=true", f"data.path={moved}"]).data().files.path == str(moved)


def test_what_was_said_last_is_written_down(allen_cahn: Path, tmp_path: Path) -> None:
    constant = ["optimizer.decay=none", "optimizer.warmup=0"]
    place = f"run={tmp_path / 'run'}"
    train_config([*TINY, *constant, f"data.path={allen_cahn}", place, "max_steps=2"])
    train_config([place, "resume=true", "max_steps=4", "optimizer.lr=1e-4", "checkpoint_every=1"])
    run = train_config([place, "resume=true"])  # with no other words: those of the second time
    assert run.history()["step"].max() == 4
    assert run.config["max_steps"] == 4
    assert run.config["optimizer"]["lr"] == 1e-4
    assert run.config["checkpoint_every"] == 1
    assert {"max_steps=4", "optimizer.lr=1e-4", "experiment=allen_cahn/vit_sepmo"} < set(run.facts["words"])
    assert not any(word.startswith("resume=") for word in run.facts["words"])
    rates = train_config([place, "resume=true", "max_steps=5"]).history()["learning_rate"]
    assert rates[~np.isnan(rates)].tolist() == [2e-3, 2e-3, 1e-4, 1e-4, 1e-4]


def without_its_end(allen_cahn: Path, folder: Path, *words: str) -> Run:
    """A run of eighteen steps that has lost its last checkpoint."""
    constant = ["optimizer.decay=none", "optimizer.lr=5e-3", "optimizer.warmup=0"]
    place = [f"data.path={allen_cahn}", f"run={folder}", "checkpoint_every=10", "max_steps=18"]
    run = train_config([*TINY, *constant, *place, *words])
    saved(run.checkpoints)[0].unlink()
    return run


def test_the_best_model_is_one_of_the_history(allen_cahn: Path, tmp_path: Path) -> None:
    run = without_its_end(allen_cahn, tmp_path / "run", "validate_every=2")
    first = run.history()["valid_loss"]
    train_config([f"run={run.folder}", "resume=true", "optimizer.lr=0.3"])
    losses = run.history()["valid_loss"]
    assert np.nanmin(losses) > np.nanmin(first)  # the other branch was better, and is no more
    assert valid_loss(run) == pytest.approx(np.nanmin(losses), rel=1e-5)


def test_a_model_of_steps_that_are_lost_is_not_kept(allen_cahn: Path, tmp_path: Path) -> None:
    run = without_its_end(allen_cahn, tmp_path / "run", "validate_every=14")
    with pytest.raises(Diverged):
        train_config([f"run={run.folder}", "resume=true", "optimizer.lr=1e9"])
    with pytest.raises(ValueError, match="holds no model yet"):
        run.surrogate()


def valid_loss(run: Run) -> float:
    """The validation loss of the model that a run has kept."""
    surrogate, data = run.surrogate(), run.data().dataset("valid")
    batch = [data[n] for n in range(len(data))]
    x, y = (torch.stack([sample[key] for sample in batch]) for key in ("x", "y"))
    with torch.no_grad():
        prediction = surrogate(x, data.grid)
    return (surrogate.scaled_output(prediction) - surrogate.scaled_output(y)).square().mean().item()


def test_a_run_whose_record_lacks_something_does_not_resume_and_says_what(tmp_path: Path) -> None:
    overrides = [*TINY, f"run={tmp_path}", "resume=true"]
    config = resolved_config(overrides)
    spec = read_training(config)
    whole = {"words": [], "data": Grid(extent=(1.0,)).to_json(), "config": config}
    steps: dict[str, Callable[[], object]] = {
        "words": lambda: resumed_config(overrides),
        "data": lambda: resumed_config(overrides),
        "config": lambda: Session.open(spec, overrides, progress=False),
        "id": lambda: Session.open(spec, overrides, progress=False),
    }
    for part, step in steps.items():
        Run(tmp_path).write({name: value for name, value in whole.items() if name != part})
        with pytest.raises(ValueError, match=rf"run\.json has no {part}; needed the record of a training run"):
            step()


def test_a_folder_in_which_another_process_trains_is_refused(allen_cahn: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    with (
        Lock.of_file(run.record),
        pytest.raises(LockedError, match=rf"run\.json is in use by process {os.getpid()} on "),
    ):
        train_config([*TINY, f"data.path={allen_cahn}", f"run={run.folder}"])
    assert not run.record.exists()
