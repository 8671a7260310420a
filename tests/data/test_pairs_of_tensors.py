"""Pairs of tensors as neuraloperator stores them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mondrian.data.datasets import WindowDataset
from mondrian.data.sources import PairFile
from mondrian.surrogate import Window


@pytest.mark.parametrize("channels", [False, True])
def test_neuraloperator_pairs(tmp_path: Path, values: np.ndarray, channels: bool) -> None:
    x, y = torch.from_numpy(values[:, 0]), torch.from_numpy(values[:, 1])
    pair = {"x": x[:, None], "y": y[:, None]} if channels else {"x": x, "y": y}
    torch.save(pair, tmp_path / "darcy_train_6.pt")
    data = WindowDataset(PairFile(path=str(tmp_path / "darcy_train_6.pt")).open(), Window(input=("x",), target=("y",)))
    torch.testing.assert_close(data[2]["x"], x[2:3])
    torch.testing.assert_close(data[2]["y"], y[2:3])


def test_tensors_in_half_precision(tmp_path: Path) -> None:
    x = torch.arange(32.0).view(2, 4, 4)
    torch.save({"x": x.bfloat16(), "y": x.half()}, tmp_path / "half.pt")
    data = WindowDataset(PairFile(path=str(tmp_path / "half.pt")).open(), Window(input=("x",), target=("y",)))
    torch.testing.assert_close(data[1]["x"], x[1:])
    torch.testing.assert_close(data[1]["y"], x[1:])


@pytest.mark.parametrize("kind", [torch.float32, torch.bool], ids=["numbers", "as its Darcy files"])
def test_neuraloperator_reads_the_pair_that_we_read(tmp_path: Path, kind: torch.dtype) -> None:
    from neuralop.data.datasets.pt_dataset import PTDataset

    random = torch.Generator().manual_seed(0)
    pair = {key: torch.randn(4, 16, 16, generator=random) for key in ("x", "y")}
    if kind is torch.bool:
        pair["x"] = pair["x"] > 0
    for split in ("train", "test"):
        torch.save(pair, tmp_path / f"tiny_{split}_16.pt")
    theirs = PTDataset(
        root_dir=tmp_path,
        dataset_name="tiny",
        n_train=4,
        n_tests=[4],
        batch_size=2,
        test_batch_sizes=[2],
        train_resolution=16,
        test_resolutions=[16],
        encode_output=False,
    ).train_db
    ours = WindowDataset(PairFile(path=str(tmp_path / "tiny_train_16.pt")).open(), Window(input=("x",), target=("y",)))
    for index in range(4):
        torch.testing.assert_close(ours[index]["x"], theirs[index]["x"])
        torch.testing.assert_close(ours[index]["y"], theirs[index]["y"])


def test_pairs_that_do_not_fit_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "pair.pt"
    torch.save({"x": torch.zeros(2, 4, 4)}, path)
    with pytest.raises(ValueError, match=r"pair\.pt has no key 'y'; it has \['x'\]"):
        PairFile(path=str(path)).open()
    torch.save({"x": torch.zeros(2, 4), "y": torch.zeros(2, 4)}, path)
    with pytest.raises(ValueError, match=r"pair\.pt: x \(2, 4\) has rank 2; needed 3"):
        PairFile(path=str(path)).open()
    torch.save({"x": torch.zeros(2, 4, 4), "y": torch.zeros(2, 8, 8)}, path)
    with pytest.raises(ValueError, match=r"y \(2, 8, 8\) and .*x \(2, 4, 4\) differ"):
        PairFile(path=str(path)).open()


def test_tensors_of_the_format_before_zip(tmp_path: Path) -> None:
    x = torch.arange(32.0).view(2, 4, 4)
    torch.save({"x": x, "y": -x}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    data = WindowDataset(PairFile(path=str(tmp_path / "old.pt")).open(), Window(input=("x",), target=("y",)))
    torch.testing.assert_close(data[1]["x"], x[1:])
    torch.testing.assert_close(data[1]["y"], -x[1:])
