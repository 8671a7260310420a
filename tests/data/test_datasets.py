"""Windows of simulations: channel order, splits, workers, memory, and batches that Lightning can move."""

import gc
import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.fabric.utilities.apply_func import move_data_to_device
from torch.utils.data import DataLoader, Subset

from mondrian import Grid
from mondrian.data import arrays
from mondrian.data.arrays import ContiguousArray, PartialArray
from mondrian.data.datasets import Batch, WindowDataset, collate, split_simulations
from mondrian.data.sources import ArrayFile, Axis, WellFiles
from mondrian.data.sources.base import Source
from mondrian.data.splits import Splits
from mondrian.data.store import Simulations, write_shard
from mondrian.surrogate import Window

GRID = Grid(extent=(2.0, 2.0), points=(8, 8))


def fields(simulations: int, steps: int) -> Simulations:
    """`u` counts simulations and steps, so that every sample can be told from its values."""
    number = np.arange(simulations)[:, None, None, None] * 100.0 + np.arange(steps)[None, :, None, None]
    u = np.broadcast_to(number, (simulations, steps, *GRID.points)).astype(np.float32)
    gamma = (np.arange(simulations) + 1).astype(np.float32) / 100
    return Simulations(
        grid=GRID, times=np.arange(steps, dtype=float), fields={"u": u, "v": -u}, scalars={"gamma": gamma}
    )


@pytest.fixture
def source(tmp_path: Path) -> Source:
    """Two files: three simulations of six steps, two of four."""
    write_shard(tmp_path / "a.hdf5", fields(3, 6), name="test", identity={})
    write_shard(tmp_path / "b.hdf5", fields(2, 4), name="test", identity={})
    return WellFiles(path=str(tmp_path)).open()


@pytest.mark.parametrize("memory", [0, 2**30])
def test_channels_are_step_major_with_constants_last(source: Source, memory: int) -> None:
    window = Window(input=("gamma", "u", "v"), target=("v", "u"), steps_in=2, steps_out=2)
    data = WindowDataset(source, window, memory=memory)
    assert data.in_memory == (memory > 0)
    assert data.in_channels == ("u[-1]", "v[-1]", "u[0]", "v[0]", "gamma")
    assert data.out_channels == ("v[1]", "u[1]", "v[2]", "u[2]")
    assert len(data) == 3 * 3 + 2 * 1
    sample = data[4]  # simulation 1, from step 1 on
    assert (sample["simulation"], sample["step"]) == (1, 1)
    assert sample["x"][:, 0, 0].tolist() == pytest.approx([101, -101, 102, -102, 0.02])
    assert sample["y"][:, 3, 5].tolist() == [-103, 103, -104, 104]
    assert sample["grid"] == GRID
    last = data[-1]
    assert (last["simulation"], last["step"]) == (4, 0)
    assert last["x"][:, 0, 0].tolist() == pytest.approx([100, -100, 101, -101, 0.02])


@pytest.mark.parametrize("memory", [0, 2**30])
def test_without_a_given_frame_the_first_ones_are_the_only_window(source: Source, memory: int) -> None:
    data = WindowDataset(source, Window(input=("gamma",), target=("v", "u"), steps_out=3), memory=memory)
    assert data.in_channels == ("gamma",)
    assert data.out_channels == ("v[0]", "u[0]", "v[1]", "u[1]", "v[2]", "u[2]")  # counted from the first frame
    assert [(sample["simulation"], sample["step"]) for sample in data] == [(n, 0) for n in range(5)]
    assert data[1]["x"][:, 0, 0].tolist() == pytest.approx([0.02])
    assert data[1]["y"][:, 0, 0].tolist() == [-100, 100, -101, 101, -102, 102]


def test_the_whole_trajectory_is_one_window(source: Source) -> None:
    data = WindowDataset(source, Window(input=("u",), target=("u",), steps_out=5), simulations=(0, 1, 2))
    assert len(data) == 3
    assert data[2]["y"][:, 0, 0].tolist() == [201, 202, 203, 204, 205]


def test_splits_by_simulation_share_no_values(source: Source) -> None:
    window = Window(input=("u",), target=("u",))
    parts = split_simulations(3, (2 / 3, 1 / 3), seed=1)
    seen = []
    for part in parts:
        data = WindowDataset(source, window, simulations=part)
        assert {sample["simulation"] for sample in data} == set(part)
        seen.append({value for sample in data for key in ("x", "y") for value in sample[key].unique().tolist()})
    assert seen[0].isdisjoint(seen[1])
    assert parts == split_simulations(3, (2 / 3, 1 / 3), seed=1)


def test_a_batch_is_a_dictionary_that_lightning_moves(source: Source) -> None:
    data = WindowDataset(source, Window(input=("u", "gamma"), target=("u",)))
    batch = next(iter(DataLoader(data, batch_size=4, collate_fn=collate)))
    assert isinstance(batch, dict)
    assert batch["x"].shape == (4, 2, 8, 8)
    assert batch["y"].shape == (4, 1, 8, 8)
    assert batch["grid"] == GRID
    assert batch["simulation"].tolist() == [0, 0, 0, 0]
    assert batch["step"].tolist() == [0, 1, 2, 3]
    moved = move_data_to_device(batch, torch.device("meta"))
    assert isinstance(moved, Batch)
    assert moved["x"].device.type == "meta"
    assert moved["grid"] == GRID


def test_batches_do_not_mix_grids(source: Source) -> None:
    sample = WindowDataset(source, Window(input=("u",), target=("u",)))[0]
    with pytest.raises(ValueError, match="a batch mixes the grids"):
        collate([sample, {**sample, "grid": GRID.with_points((4, 16))}])


@pytest.mark.process
@pytest.mark.parametrize(("start", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers_read_what_one_process_reads(source: Source, start: str, workers: int) -> None:
    data = WindowDataset(source, Window(input=("u", "gamma"), target=("v",)), memory=0)
    data[0]  # handles are open before the workers start

    def batches(**options: object) -> list[Batch]:
        order = torch.Generator().manual_seed(3)
        loader = DataLoader(data, batch_size=4, shuffle=True, generator=order, collate_fn=collate, **options)
        return list(loader)

    for one, other in zip(batches(), batches(num_workers=workers, multiprocessing_context=start), strict=True):
        for key in ("x", "y", "simulation", "step"):
            assert torch.equal(one[key], other[key])


def test_a_pickled_dataset_and_a_subset_read_the_same(source: Source) -> None:
    data = WindowDataset(source, Window(input=("u",), target=("u",)), memory=0)
    again = pickle.loads(pickle.dumps(data))
    assert torch.equal(again[7]["y"], data[7]["y"])
    part = Subset(data, [7, 3])
    (batch,) = DataLoader(part, batch_size=2, collate_fn=collate)
    assert torch.equal(batch["x"][0], data[7]["x"])


def test_reading_keeps_few_files_open_and_little_in_memory(tmp_path: Path) -> None:
    for number in range(80):
        u = np.full((5, 2, 64, 64), number, np.float32)
        data = Simulations(grid=GRID.with_points((64, 64)), times=np.array([0.0, 1.0]), fields={"u": u}, scalars={})
        write_shard(tmp_path / f"{number:03d}.hdf5", data, name="test", identity={})
    source = WellFiles(path=str(tmp_path)).open()
    size = source.fields["u"].nbytes(range(len(source)))
    assert size > 10 * 2**20
    before = len(os.listdir("/proc/self/fd"))
    lazy = WindowDataset(source, Window(input=("u",), target=("u",)), memory=size - 1)
    array = source.fields["u"].segments[0].array
    assert isinstance(array, ContiguousArray)
    array.handles.limit = 16  # all arrays of a source share their handles
    tracemalloc.start()
    for batch in DataLoader(lazy, batch_size=8, collate_fn=collate):
        assert batch["x"].shape[0] == 8
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * 2**20
    assert len(os.listdir("/proc/self/fd")) - before <= 16
    del lazy, source, array
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("axes", ["stxx", "txxs", "xxst"])
@pytest.mark.parametrize("bite", [1, 3 * 2**15, 2**24])
def test_only_the_simulations_that_are_chosen_are_kept_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, axes: str, bite: int
) -> None:
    u = np.random.default_rng(0).standard_normal((9, 4, 32, 32))
    kinds = {"s": Axis.SIMULATION, "t": Axis.TIME, "x": Axis.SPACE}
    np.save(tmp_path / "u.npy", np.moveaxis(u, (0, 1), (axes.index("s"), axes.index("t"))))
    source = ArrayFile(path=str(tmp_path / "u.npy"), axes=tuple(kinds[axis] for axis in axes)).open()
    monkeypatch.setattr(arrays, "READ_BYTES", bite)
    window = Window(input=("u",), target=("u",))
    size = u[:3].nbytes
    data = WindowDataset(source, window, simulations=(7, 2, 3), memory=size)
    assert data.in_memory
    assert not WindowDataset(source, window, simulations=(7, 2, 3), memory=size - 1).in_memory
    (segment,) = data.source.fields["u"].segments
    assert isinstance(segment.array, PartialArray)
    assert segment.array.values.nbytes == size
    for index in range(len(data)):
        simulation, step = data.locate(index)
        np.testing.assert_array_equal(data[index]["y"][0], u[simulation, step + 1].astype(np.float32))
    again = WindowDataset(data.source, window, simulations=(3,))  # of those that are in memory
    np.testing.assert_array_equal(again[2]["x"][0], u[3, 2].astype(np.float32))
    with pytest.raises(IndexError, match=r"4 along axis \d of .*u\.npy: u \(.*\) was not loaded"):
        WindowDataset(data.source, window, simulations=(4,))[0]


def test_parts_of_one_file_hold_it_once(tmp_path: Path) -> None:
    u = np.zeros((20, 2, 64))
    np.save(tmp_path / "u.npy", u)
    files = ArrayFile(path=str(tmp_path / "u.npy"), axes=(Axis.SIMULATION, Axis.TIME, Axis.SPACE))
    splits = Splits(files=files, window=Window(input=("u",), target=("u",)), simulations=5)
    held = 0
    for split, count in {"train": 5, "valid": 3, "test": 3}.items():
        (segment,) = splits.dataset(split).source.fields["u"].segments
        assert isinstance(segment.array, PartialArray)
        assert segment.array.values.nbytes == count * u[0].nbytes
        held += count
    assert held < len(u)


def test_files_without_a_chosen_simulation_are_not_read(source: Source) -> None:
    data = WindowDataset(source, Window(input=("u", "gamma"), target=("v",)), simulations=(3, 4))
    (first, second) = data.source.fields["u"].segments
    assert first is source.fields["u"].segments[0]
    assert second is not source.fields["u"].segments[1]
    assert data[3]["x"][:, 0, 0].tolist() == pytest.approx([100, 0.02])


@pytest.mark.parametrize("memory", [0, 2**30])
def test_simulations_may_be_an_array_of_numpy(tmp_path: Path, memory: int) -> None:
    u = np.random.default_rng(0).standard_normal((4, 3, 64, 64))
    np.save(tmp_path / "u.npy", u)
    axes = (Axis.SIMULATION, Axis.TIME, Axis.SPACE, Axis.SPACE)
    source = ArrayFile(path=str(tmp_path / "u.npy"), axes=axes).open()
    data = WindowDataset(source, Window(input=("u",), target=("u",)), simulations=np.arange(1, 4), memory=memory)
    np.testing.assert_array_equal(data[0]["x"][0], u[1, 0].astype(np.float32))
    assert type(data[0]["simulation"]) is int
    array = source.fields["u"].segments[0].array
    np.testing.assert_array_equal(array.read((np.int64(2), np.int64(1))), u[2, 1])


def test_not_a_number_is_named_by_file_key_and_shape(tmp_path: Path) -> None:
    u = np.zeros((4, 3, 6, 6))
    u[2, 1, 0, 0] = np.nan
    np.save(tmp_path / "u.npy", u)
    axes = (Axis.SIMULATION, Axis.TIME, Axis.SPACE, Axis.SPACE)
    data = WindowDataset(ArrayFile(path=str(tmp_path / "u.npy"), axes=axes).open(), Window(input=("u",), target=("u",)))
    data[2]
    with pytest.raises(ValueError, match=r"u\.npy: u \(4, 3, 6, 6\) holds NaN .* simulation 2, steps 0 to 1"):
        data[4]


def test_a_file_cut_short_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "u.npy"
    np.save(path, np.zeros((4, 3, 64, 64)))
    axes = (Axis.SIMULATION, Axis.TIME, Axis.SPACE, Axis.SPACE)
    source = ArrayFile(path=str(path), axes=axes).open()
    data = WindowDataset(source, Window(input=("u",), target=("u",)), memory=0)
    os.truncate(path, 10_000)
    with pytest.raises(OSError, match=r"u\.npy: u \(4, 3, 64, 64\) ends too early"):
        data[7]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input": ("w",), "target": ("u",)}, r"has no field 'w'; it has \['gamma', 'u', 'v'\]"),
        (
            {"input": ("u",), "target": ("u",), "steps_in": 4, "steps_out": 4},
            "need 8 steps; simulation 0 .* has 6",
        ),
        ({"input": (), "target": ("u",)}, "input=.. must name at least one field"),
        ({"input": ("u", "u"), "target": ("u",)}, "none twice"),
        ({"input": ("u",), "target": ("u",), "steps_out": 0}, "steps_out=0 must be at least 1"),
    ],
)
def test_windows_that_do_not_fit_are_refused(source: Source, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        WindowDataset(source, Window(**options))


def test_empty_and_impossible_splits_are_refused(source: Source) -> None:
    window = Window(input=("u",), target=("u",))
    with pytest.raises(ValueError, match="no windows in 0 simulations"):
        WindowDataset(source, window, simulations=())
    with pytest.raises(ValueError, match=r"simulations name 5; .* has 5"):
        WindowDataset(source, window, simulations=(5,))
    with pytest.raises(IndexError, match="sample 99"):
        WindowDataset(source, window)[99]
    with pytest.raises(ValueError, match="add up to 1"):
        split_simulations(10, (0.7, 0.4), seed=0)
    with pytest.raises(ValueError, match="leave a part empty"):
        split_simulations(1, (0.7, 0.3), seed=0)
