"""A validation loss that is no number ends a run before anything of it is kept."""

import math
from pathlib import Path

import pytest
import torch

from mondrian.cli import main
from mondrian.training import Diverged
from mondrian.training.checkpoints import newest, saved
from mondrian.training.grids import GridTraining
from mondrian.training.run import Run
from mondrian.training.train import train_config
from tests.training.cases import TINY

pytestmark = pytest.mark.training


@pytest.fixture
def words(allen_cahn: Path, tmp_path: Path) -> list[str]:
    return [*TINY, "checkpoint_every=1", f"data.path={allen_cahn}", f"run={tmp_path / 'run'}"]


def spoil_validation(monkeypatch: pytest.MonkeyPatch, *, after: int, value: float) -> None:
    original = GridTraining.validation_step

    def validation_step(self: GridTraining, batch: object, batch_idx: int) -> None:
        original(self, batch, batch_idx)
        if self.global_step > after:
            self.valid_loss.update(torch.tensor(value))

    monkeypatch.setattr(GridTraining, "validation_step", validation_step)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nothing_of_such_a_validation_is_kept(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    with monkeypatch.context() as spoilt:
        spoil_validation(spoilt, after=4, value=value)
        with pytest.raises(Diverged, match=rf"validation loss is {value} at step 8; the last good checkpoint is kept"):
            train_config(words)
    run = Run(tmp_path / "run")
    checkpoint = newest(run.checkpoints)
    assert checkpoint is not None
    assert checkpoint.name.startswith("step_00000007")
    losses = run.history()["valid_loss"]
    assert losses[~torch.tensor(losses).isnan().numpy()].shape == (1,)  # that of step 4
    again = train_config([*words, "resume=true"])
    assert math.isfinite(again.history()["valid_loss"][-1])


def test_before_the_first_checkpoint_it_says_that_there_is_none(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)
    assert main(["train", *words, "validate_every=1", "optimizer.lr=1e30", "optimizer.warmup=0"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "validation loss is nan at step 1; no checkpoint has been saved yet" in error
    run = Run(tmp_path / "run")
    assert saved(run.checkpoints) == []
    with pytest.raises(ValueError, match="holds no model yet: training has not reached a finite validation loss"):
        run.surrogate()


def test_a_run_that_ends_without_a_model_says_so(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier versions left them."""
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)
    run = train_config(words)
    for file in run.artefact.iterdir():
        file.unlink()
    run.artefact.rmdir()
    assert main(["train", f"run={run.folder}", "resume=true"]) == 2
    assert f"{run.folder} has ended without a model" in capsys.readouterr().err
