"""From a simulation to a report in one and in three dimensions, by the examples and by the command."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mondrian.cli import main
from mondrian.training.run import Run
from tests import forked

ROOT = Path(__file__).parent.parent


def example(name: str, folder: Path, *words: str) -> str:
    """What an example prints that is run in an empty folder."""
    run = forked.run_script(ROOT / "examples" / name, *words, cwd=folder)
    assert run.returncode == 0, run.stderr
    return run.stdout


def colours(picture: Path) -> int:
    """How many different colours a picture has, made small."""
    with Image.open(picture) as image:
        return len(set(image.convert("RGB").resize((64, 64)).get_flattened_data()))


@pytest.mark.process
def test_the_example_on_a_ring_is_rolled_out_and_drawn_in_space_and_time(tmp_path: Path) -> None:
    out = example("kuramoto_sivashinsky.py", tmp_path, "max_steps=3", "model.n_layers=1")
    lasted = re.findall(r"(\d+) points: correlation with the truth above 0.8 for ([\d.]+) units of time", out)
    assert [points for points, _ in lasted] == ["64", "128"]
    run = Run(tmp_path / "runs/kuramoto_sivashinsky/staggered_smoke")
    assert run.config["unroll"] == 2
    assert colours(run.folder / "report" / "rollout-128-1.png") > 100


@pytest.mark.process
def test_the_example_in_a_cube_goes_to_a_resolution_it_was_not_trained_at(tmp_path: Path) -> None:
    out = example("allen_cahn_3d.py", tmp_path, "max_steps=2", "model.n_layers=1", "validate_every=2")
    assert re.findall(r"^(\d+x\d+x\d+) ", out, re.MULTILINE) == ["16x16x16", "24x24x24"]
    assert "share of the cube with u > 0" in out
    assert colours(tmp_path / "runs/allen_cahn3d/staggered_smoke/report/fields-1.png") > 100


@pytest.mark.training
def test_the_command_learns_a_ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["data=kuramoto_sivashinsky", "model=staggered", "scale=smoke", "run=ring", "unroll=1", "model.n_layers=1"]
    longer = [
        "data.problem.spin_up=100",
        "max_steps=40",
        "validate_every=10",
        "model.hidden_channels=16",
        "batch_size=8",
        "optimizer.lr=5e-3",
    ]
    assert main(["train", *words, *longer, "augment=[reflections,translations]"]) == 0
    run = Run(tmp_path / "ring")
    assert run.surrogate().spec.default_grid.periodic == (True,)
    losses = run.history()["valid_loss"]
    losses = losses[np.isfinite(losses)]
    assert losses.min() < 0.7 * losses[0]
