"""A run that goes on: with the data that it knows, and with what was said last."""

from pathlib import Path

import numpy as np
import pytest

from mondrian.training.train import train_config
from tests.training.test_train import TINY

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
