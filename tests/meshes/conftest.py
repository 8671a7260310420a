"""A small data set of meshes, made once."""

from pathlib import Path

import pytest

from mondrian.data.meshes import MeshFiles, MeshSplits, PerforatedPoisson
from mondrian.data.meshes.poisson import write_poisson

COUNTS = {"train": 6, "valid": 3, "test": 3, "test_fine": 2}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("poisson")
    write_poisson(made, PerforatedPoisson(spacing=0.15), COUNTS, seed=1)
    return made


@pytest.fixture
def splits(folder: Path) -> MeshSplits:
    return MeshSplits(files=MeshFiles(path=str(folder)), input=("source", "distance"), target=("u",))
