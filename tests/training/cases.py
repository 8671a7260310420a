"""A tiny run, and what is compared of runs."""

import csv

import pytest
import torch

from mondrian.training import Run
from mondrian.training.checkpoints import newest
from mondrian.training.grids import GridTraining
from mondrian.training.train import train_config

TINY = (
    "experiment=allen_cahn/vit_sepmo", "scale=smoke", "model.hidden_channels=8", "model.n_layers=1",
    "model.subdomains=[4,4]", "max_steps=8", "batch_size=4", "validate_every=4", "checkpoint_every=3", "log_every=1",
)  # fmt: skip


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
    original = GridTraining.training_step

    def training_step(self: GridTraining, batch: object, batch_idx: int) -> torch.Tensor:
        if self.global_step == step:
            action()  # type: ignore[operator]
        return original(self, batch, batch_idx)

    monkeypatch.setattr(GridTraining, "training_step", training_step)


def refused(words: list[str], match: str, *extra: str, error: type[Exception] = ValueError) -> None:
    with pytest.raises(error, match=match):
        train_config([*words, *extra])
