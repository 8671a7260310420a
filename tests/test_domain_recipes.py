"""The recipes of larger domains and of fixed points a cell, by the commands of their page."""

from pathlib import Path

import pytest
import torch

import mondrian
from mondrian import Grid
from mondrian.cli import main
from mondrian.evaluation import Evaluation
from mondrian.training.run import Run

pytestmark = pytest.mark.training

TINY = ["scale=smoke", "max_steps=2", "validate_every=2", "model.n_layers=1"]
LONG = [
    "data=allen_cahn",
    "scale=smoke",
    "path=data/long",
    "data.problem.grid={spec: Grid, extent: [4.0, 2.0], points: [64, 32]}",
    "data.points={train: [[32, 16]], valid: [[32, 16]], test: [[64, 32]]}",
    "simulations={train: 1, valid: 1, test: 2}",
]


def test_a_model_of_a_square_is_measured_on_a_box_twice_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "experiment=allen_cahn/larger_domain", "run=run", *TINY]) == 0
    assert main(["generate", *LONG]) == 0
    assert main(["evaluate", "run", "path=data/long", "out=long"]) == 0
    assert [entry.points for entry in Evaluation.load(tmp_path / "long").one_step] == [(64, 32)]
    spec = Run(tmp_path / "run").surrogate().spec.model
    assert spec.subdomain_size == (0.25, 0.25)
    assert spec.counts() == (8, 8)
    assert spec.decompose(Grid((4.0, 2.0), points=(64, 32))).subdomains == (16, 8)


def test_fixed_points_a_cell_learn_from_the_detail_of_the_training_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reference points are fewer than those it is trained at, or the map of details would learn nothing."""
    monkeypatch.chdir(tmp_path)
    assert main(["train", "experiment=allen_cahn/cell_points", "run=run", *TINY]) == 0
    detail = Run(tmp_path / "run").surrogate().model.detail
    assert detail is not None
    assert detail.out.weight.abs().amax() > 0


def test_a_larger_domain_has_the_subdomains_that_its_size_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "allen_cahn/larger_domain"]) == 0
    assert "8 x 8" in capsys.readouterr().out
    with torch.device("meta"):
        assert mondrian.build("allen_cahn/larger_domain").spec.subdomains == ()
