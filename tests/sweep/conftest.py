"""A small data set, made once, and an empty working directory for each test."""

from pathlib import Path

import pytest

from mondrian.cli import main


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "data"
    sizes = ("train", "valid", "test")
    words = [f"simulations.{split}={count}" for split, count in zip(sizes, (8, 4, 4), strict=True)]
    assert main(["generate", f"path={folder}", "scale=smoke", "workers=1", "shard_size=4", *words]) == 0
    return folder


@pytest.fixture
def words(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Overrides of a run of four steps, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)
    size = ["model.n_layers=1", "model.hidden_channels=8", "max_steps=4", "validate_every=2"]
    return ["experiment=allen_cahn/vit_sepmo", "scale=smoke", f"data.path={data}", *size]
