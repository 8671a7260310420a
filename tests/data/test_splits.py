"""Parts of a data set: the resolution that is asked for is the one that is read."""

from pathlib import Path

import numpy as np
import pytest

from mondrian import Grid
from mondrian.data.sources import ArrayFile, Axis, WellFiles
from mondrian.data.splits import SPLITS, Splits
from mondrian.data.store import Simulations, write_shard
from mondrian.surrogate import Window

WINDOW = Window(input=("u",), target=("u",))


def write(path: Path, points: tuple[int, ...], count: int = 1) -> None:
    grid = Grid(extent=(1.0,), points=points)
    field = np.zeros((count, 2, *points), np.float32)
    write_shard(path, Simulations(grid, np.array([0.0, 1.0]), {"u": field}, {}), name="test", identity={})


def test_points_of_a_folder_without_a_manifest(tmp_path: Path) -> None:
    for split, points in zip(SPLITS, ((8,), (8,), (16,)), strict=True):
        write(tmp_path / "data" / split / "a.hdf5", points)
    files = WellFiles(path=str(tmp_path))
    splits = Splits(files=files, window=WINDOW, points=(8,))
    assert [splits.source(split).grid.points for split in SPLITS] == [(8,), (8,), (16,)]  # a test may be finer
    assert splits.resolutions("test") == ((16,),)
    for split in ("train", "valid"):
        with pytest.raises(ValueError, match=rf"points=\(16,\) are not available; .*{split} has \(8,\)"):
            Splits(files=files, window=WINDOW, points=(16,)).dataset(split)
    with pytest.raises(ValueError, match=r"points=\(8,\) are not available; .*test has \(16,\)"):
        splits.dataset("test", (8,))


def test_points_of_one_file(tmp_path: Path) -> None:
    write(tmp_path / "u.hdf5", (8,), count=9)
    np.save(tmp_path / "u.npy", np.zeros((9, 2, 8)))
    array = ArrayFile(path=str(tmp_path / "u.npy"), axes=(Axis.SIMULATION, Axis.TIME, Axis.SPACE))
    for files in (WellFiles(path=str(tmp_path / "u.hdf5")), array):
        assert Splits(files=files, window=WINDOW, points=(8,)).dataset("train").grid.points == (8,)
        with pytest.raises(ValueError, match=r"points=\(16,\) are not available; .*u\..* has \(8,\)"):
            Splits(files=files, window=WINDOW, points=(16,)).dataset("train")
