"""A small data set of each kind, made once for all tests of training."""

from pathlib import Path

import pytest

from mondrian import Grid
from mondrian.data import AllenCahn, NavierStokes, Splits, WellFiles, Window
from mondrian.data.generate import generate, plan
from tests.training.cases import TINY


@pytest.fixture(scope="session")
def allen_cahn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve simulations to train on, five to validate, four to test, at 16^2, the test part also at 32^2."""
    folder = tmp_path_factory.mktemp("allen_cahn")
    problem = AllenCahn(grid=Grid(extent=(2.0, 2.0), points=(32, 32)))
    points = {"train": [(16, 16)], "valid": [(16, 16)], "test": [(16, 16), (32, 32)]}
    generate(
        folder, plan(problem, seed=1, simulations={"train": 12, "valid": 5, "test": 4}, points=points, shard_size=4)
    )
    return folder


@pytest.fixture(scope="session")
def navier_stokes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two simulations of six frames in each part, at 16^2."""
    folder = tmp_path_factory.mktemp("navier_stokes")
    grid = Grid(extent=(6.283185307179586,) * 2, points=(32, 32), periodic=(True, True))
    problem = NavierStokes(grid=grid, steps=60, frames=6)
    points = {split: [(16, 16)] for split in ("train", "valid", "test")}
    generate(folder, plan(problem, seed=1, simulations=dict.fromkeys(points, 2), points=points, shard_size=2))
    return folder


@pytest.fixture
def allen_cahn_splits(allen_cahn: Path) -> Splits:
    return Splits(files=WellFiles(path=str(allen_cahn)), window=Window(input=("u", "gamma"), target=("u",)))


@pytest.fixture
def navier_stokes_splits(navier_stokes: Path) -> Splits:
    window = Window(input=("vorticity",), target=("vorticity",), steps_in=2, steps_out=1)
    return Splits(files=WellFiles(path=str(navier_stokes)), window=window)


@pytest.fixture
def words(allen_cahn: Path, tmp_path: Path) -> list[str]:
    """The overrides of a tiny run on `allen_cahn`."""
    return [*TINY, f"data.path={allen_cahn}", f"run={tmp_path / 'run'}"]
