"""Other people's files: every layout is made small here, read back, and broken in the usual ways."""

import warnings
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import torch
from the_well.data import WellDataset
from the_well.utils.dummy_data import write_dummy_data

from mondrian import Grid, Spec
from mondrian.data.arrays import ChunkedArray, ContiguousArray, Handles, MemoryArray, hdf5_array
from mondrian.data.datasets import WindowDataset
from mondrian.data.sources import ArrayFile, Axis, PairFile, PDEBenchFile, WellFiles, same_grid
from mondrian.data.sources.files import read_arrays
from mondrian.data.store import Simulations, write_shard
from mondrian.surrogate import Window

ALL = slice(0, None)


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((3, 5, 6, 4)).astype(np.float32)


# The Well


def test_the_wells_own_dummy_file_reads_as_the_well_reads_it(tmp_path: Path) -> None:
    np.random.seed(0)  # noqa: NPY002  # the_well draws from the global generator
    write_dummy_data(str(tmp_path / "dummy.hdf5"))
    source = WellFiles(path=str(tmp_path)).open()
    assert len(source) == 2
    assert source.steps == (10, 10)
    assert source.grid.points == (32, 32)
    assert source.grid.periodic == (True, True)
    np.testing.assert_allclose(source.grid.axis(0), np.linspace(0, 1, 32), atol=1e-6)
    assert source.fields["field"].channels == ("field_x", "field_y")
    well = WellDataset(path=str(tmp_path), n_steps_input=2, n_steps_output=3)
    window = Window(
        input=("field", "constant_field", "a", "time_varying_scalar"),
        target=("field",),
        steps_in=2,
        steps_out=3,
    )
    data = WindowDataset(source, window)
    assert len(data) == len(well)
    for index in (0, 5, 11):
        ours, theirs = data[index], well[index]
        x = torch.cat(
            [
                torch.cat(
                    [
                        theirs["input_fields"].movedim(-1, 1),
                        theirs["input_scalars"][:, :, None, None].expand(2, 1, 32, 32),
                    ],
                    dim=1,
                ).flatten(0, 1),
                theirs["constant_fields"].movedim(-1, 0),
                theirs["constant_scalars"][0].expand(1, 32, 32),
            ]
        )
        torch.testing.assert_close(ours["x"], x.float(), rtol=0, atol=0)
        y = theirs["output_fields"].movedim(-1, 1).flatten(0, 1)
        torch.testing.assert_close(ours["y"], y, rtol=0, atol=0)


def test_chunked_and_compressed_files_read_like_contiguous_ones(tmp_path: Path, values: np.ndarray) -> None:
    grid = Grid(extent=(1.0, 1.0), points=(32, 32))
    field = np.random.default_rng(0).standard_normal((4, 6, 32, 32)).astype(np.float32)
    data = Simulations(grid=grid, times=np.arange(6.0), fields={"u": field}, scalars={})
    write_shard(tmp_path / "contiguous.hdf5", data, name="test", identity={})
    with (
        h5py.File(tmp_path / "contiguous.hdf5", "r") as old,
        h5py.File(tmp_path / "chunked.hdf5", "w") as new,
    ):
        for key in old:
            old.copy(key, new)
        new.attrs.update(old.attrs)
        attributes = dict(new["t0_fields/u"].attrs)
        del new["t0_fields/u"]
        new.create_dataset("t0_fields/u", data=field, chunks=(1, 2, 16, 16), compression="gzip")
        new["t0_fields/u"].attrs.update(attributes)
    kinds = {"contiguous": ContiguousArray, "chunked": ChunkedArray}
    for name, kind in kinds.items():
        source = WellFiles(path=str(tmp_path / f"{name}.hdf5")).open()
        assert isinstance(source.fields["u"].segments[0].array, kind)
        np.testing.assert_array_equal(source.fields["u"].read(3, slice(2, 5))[:, 0], field[3, 2:5])
        loaded = source.load(["u"], range(4))
        assert isinstance(loaded.fields["u"].segments[0].array, MemoryArray)
        np.testing.assert_array_equal(loaded.fields["u"].read(1, slice(0, 6))[:, 0], field[1])
        some = source.load(["u"], [3, 1])
        for number in (1, 3):
            np.testing.assert_array_equal(some.fields["u"].read(number, slice(2, 5))[:, 0], field[number, 2:5])


@pytest.mark.parametrize("chunks", [None, (1, 2, 16, 16)], ids=["contiguous", "chunked"])
def test_a_relative_path_outlives_a_change_of_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunks: tuple[int, ...] | None
) -> None:
    field = np.random.default_rng(0).standard_normal((4, 6, 32, 32)).astype(np.float32)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with h5py.File("u.hdf5", "w") as file:
        kind = hdf5_array(Handles(), file.create_dataset("u", data=field, chunks=chunks))
        arrays = [kind, ChunkedArray(Handles(), file["u"])]
    monkeypatch.chdir(tmp_path / "elsewhere")
    for array in arrays:
        np.testing.assert_array_equal(array.read((2, slice(1, 3))), field[2, 1:3])


@pytest.mark.parametrize(
    ("breakage", "message"),
    [
        ("del file['t0_fields']", r"dummy\.hdf5: / has no key 't0_fields'"),
        ("del file['t1_fields/field']", r"dummy\.hdf5: /t1_fields has no key 'field'"),
        ("del file['dimensions'].attrs['spatial_dims']", "/dimensions has no attribute 'spatial_dims'"),
        ("del file['t1_fields/field'].attrs['dim_varying']", r"/field \(2, 10, 32, 32, 2\) has no attribute"),
        ("file['t1_fields/field'].attrs['sample_varying'] = False", r"field \(2, 10, 32, 32, 2\) has rank 5"),
        ("file.attrs['n_trajectories'] = 3", r"constant_field \(2, 32, 32\) holds 2 simulations; needed 3"),
        (
            "old = file['t1_fields/field']; new = file.create_dataset('t1_fields/new', data=old[:, :4]); "
            "new.attrs.update(old.attrs); file.move('t1_fields/field', 'old'); "
            "file.move('t1_fields/new', 't1_fields/field')",
            r"t1_fields/field \(2, 4, 32, 32, 2\) has 4 steps; simulation 0 needs 10",
        ),
        ("file['dimensions/x'][3] = 0.9", r"dimensions/x \(32,\) is not uniform"),
        ("file.attrs['grid_type'] = 'spherical'", "grid_type='spherical'"),
    ],
)
def test_broken_files_are_named_with_key_and_shape(tmp_path: Path, breakage: str, message: str) -> None:
    write_dummy_data(str(tmp_path / "dummy.hdf5"))
    with h5py.File(tmp_path / "dummy.hdf5", "a") as file:
        exec(breakage, {"file": file})
    with pytest.raises(ValueError, match=message):
        WellFiles(path=str(tmp_path)).open()


def test_fixed_length_bytes_are_words_too(tmp_path: Path) -> None:
    write_dummy_data(str(tmp_path / "dummy.hdf5"))
    with h5py.File(tmp_path / "dummy.hdf5", "a") as file:
        file.attrs["grid_type"] = np.bytes_(b"cartesian")
        for condition in file["boundary_conditions"].values():
            condition.attrs["bc_type"] = np.bytes_(b"PERIODIC")
    assert WellFiles(path=str(tmp_path)).open().grid.periodic == (True, True)


def test_points_that_a_folder_without_a_manifest_does_not_hold_are_refused(tmp_path: Path) -> None:
    (tmp_path / "data/train").mkdir(parents=True)
    write_dummy_data(str(tmp_path / "data/train/dummy.hdf5"))
    files = WellFiles(path=str(tmp_path), split="train", points=(32, 32))
    assert files.open().grid.points == (32, 32)
    with pytest.raises(ValueError, match=r"points=\(64, 64\) are not available; .*train has \(32, 32\)"):
        replace(files, points=(64, 64)).open()


def test_a_folder_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"train holds no \.hdf5 or \.h5 file"):
        WellFiles(path=str(tmp_path), split="train").open()
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        WellFiles(path=str(tmp_path / "nowhere")).open()


def test_splits_on_different_grids_are_refused(tmp_path: Path) -> None:
    grids = {
        "train": Grid(extent=(1.0,), points=(8,)),
        "valid": Grid(extent=(1.0,), points=(16,)),
        "test": Grid(extent=(2.0,), points=(8,)),
    }
    sources = {}
    for split, grid in grids.items():
        field = np.zeros((1, 2, *grid.points), np.float32)
        data = Simulations(grid=grid, times=np.array([0.0, 1.0]), fields={"u": field}, scalars={})
        write_shard(tmp_path / split / "a.hdf5", data, name="test", identity={})
        sources[split] = WellFiles(path=str(tmp_path / split)).open()
    with pytest.raises(ValueError, match=r"different grids: train .*points=\(8,\).* valid .*points=\(16,\)"):
        same_grid(sources)
    del sources["test"]
    assert same_grid(sources, points=False) == grids["train"]
    (tmp_path / "valid" / "a.hdf5").rename(tmp_path / "train" / "b.hdf5")
    with pytest.raises(ValueError, match=r"b\.hdf5 lies on .*needed one grid"):
        WellFiles(path=str(tmp_path / "train")).open()


# PDEBench


def coordinates(file: h5py.File, shape: tuple[int, ...]) -> None:
    for axis, n in zip("xyz", shape, strict=False):
        file[f"{axis}-coordinate"] = ((np.arange(n) + 0.5) / n).astype(np.float32)


def test_pdebench_one_tensor(tmp_path: Path, values: np.ndarray) -> None:
    with h5py.File(tmp_path / "burgers.hdf5", "w") as file:
        file["tensor"] = values[..., 0]
        file["t-coordinate"] = np.linspace(0, 1, 6)  # one longer than the data, as theirs is
        coordinates(file, (6,))
    source = PDEBenchFile(path=str(tmp_path / "burgers.hdf5"), periodic=(True,)).open()
    assert source.grid == Grid(extent=(1.0,), points=(6,), periodic=(True,))
    assert len(source.times) == 5
    np.testing.assert_array_equal(source.fields["tensor"].read(2, slice(1, 3))[:, 0], values[2, 1:3, :, 0])


def test_pdebench_states_with_a_key_each(tmp_path: Path, values: np.ndarray) -> None:
    with h5py.File(tmp_path / "cfd.hdf5", "w") as file:
        for number, key in enumerate(("Vx", "Vy", "density", "pressure")):
            file[key] = values + number
        file["t-coordinate"] = np.linspace(0, 1, 5)
        coordinates(file, (6, 4))
    source = PDEBenchFile(path=str(tmp_path / "cfd.hdf5")).open()
    assert set(source.fields) == {"Vx", "Vy", "density", "pressure"}
    np.testing.assert_array_equal(source.fields["Vy"].read(0, ALL)[:, 0], values[0] + 1)


def test_pdebench_darcy_has_no_time(tmp_path: Path, values: np.ndarray) -> None:
    with h5py.File(tmp_path / "darcy.hdf5", "w") as file:
        file["tensor"] = values[:, :1]
        file["nu"] = values[:, 1]
        coordinates(file, (6, 4))
    source = PDEBenchFile(path=str(tmp_path / "darcy.hdf5")).open()
    data = WindowDataset(source, Window(input=("nu",), target=("tensor",)))
    assert len(data) == 3
    np.testing.assert_array_equal(data[1]["x"].numpy(), values[1, 1:2])
    np.testing.assert_array_equal(data[1]["y"].numpy(), values[1, :1])


def test_pdebench_one_group_for_each_seed(tmp_path: Path, values: np.ndarray) -> None:
    fields = np.stack([values, values + 10], axis=-1)
    with h5py.File(tmp_path / "diff-react.h5", "w") as file:
        for seed in range(3):
            file[f"{seed:04d}/data"] = fields[seed]
            file[f"{seed:04d}/grid/x"] = np.linspace(-1, 1, 6, dtype=np.float32)
            file[f"{seed:04d}/grid/y"] = np.linspace(-1, 1, 4, dtype=np.float32)
            file[f"{seed:04d}/grid/t"] = np.linspace(0, 5, 5, dtype=np.float32)
    source = PDEBenchFile(path=str(tmp_path / "diff-react.h5")).open()
    assert source.fields["data"].channels == ("data_0", "data_1")
    np.testing.assert_allclose(source.grid.axis(1), np.linspace(-1, 1, 4), atol=1e-6)
    read = source.fields["data"].read(2, slice(1, 4))
    np.testing.assert_array_equal(read, np.moveaxis(fields[2, 1:4], -1, 1))


def test_pdebench_incompressible_flow(tmp_path: Path, values: np.ndarray) -> None:
    velocity = np.stack([values, values + 10], axis=-1)
    with h5py.File(tmp_path / "ns_incom_inhom_2d_6-0.h5", "w") as file:
        for key, array in {
            "velocity": velocity,
            "particles": values[..., None] + 20,
            "force": velocity[:, 0] + 30,
            "t": np.tile(np.linspace(0, 2, 5, dtype=np.float32), (3, 1)),
        }.items():
            file.create_dataset(key, data=array, chunks=(1, 1, *array.shape[2:]), compression="lzf", shuffle=True)
    source = PDEBenchFile(path=str(tmp_path / "ns_incom_inhom_2d_6-0.h5")).open()
    assert source.grid == Grid(extent=(1.0, 1.0), points=(6, 4))
    assert source.times.tolist() == [0, 0.5, 1, 1.5, 2]
    data = WindowDataset(source, Window(input=("velocity", "particles", "force"), target=("velocity",)))
    assert data.in_channels == ("velocity_x[0]", "velocity_y[0]", "particles[0]", "force_x", "force_y")
    assert data.out_channels == ("velocity_x[1]", "velocity_y[1]")
    sample = data[4 + 2]  # simulation 1, from step 2 on
    u = values[1, 2]
    np.testing.assert_array_equal(sample["x"], [u, u + 10, u + 20, values[1, 0] + 30, values[1, 0] + 10 + 30])
    np.testing.assert_array_equal(sample["y"], [values[1, 3], values[1, 3] + 10])


def test_pdebench_errors_name_file_key_and_shape(tmp_path: Path, values: np.ndarray) -> None:
    path = tmp_path / "bad.hdf5"
    with h5py.File(path, "w") as file:
        file["vorticity"] = values
    with pytest.raises(ValueError, match=r"bad\.hdf5 has keys \['vorticity'\]"):
        PDEBenchFile(path=str(path)).open()
    with h5py.File(path, "w") as file:
        file["velocity"] = values
    with pytest.raises(ValueError, match=r"bad\.hdf5: velocity \(3, 5, 6, 4\) must be \(b, t, x, \.\.\., component\)"):
        PDEBenchFile(path=str(path)).open()
    with h5py.File(path, "w") as file:
        file["tensor"] = values[0, 0]
    with pytest.raises(ValueError, match=r"bad\.hdf5: tensor \(6, 4\) has rank 2"):
        PDEBenchFile(path=str(path)).open()
    with h5py.File(path, "w") as file:
        file["tensor"] = values
        coordinates(file, (6,))
    with pytest.raises(ValueError, match=r"bad\.hdf5 has no key 'y-coordinate'"):
        PDEBenchFile(path=str(path)).open()
    with h5py.File(path, "w") as file:
        file["tensor"] = values
        coordinates(file, (6, 5))
    with pytest.raises(ValueError, match=r"tensor \(3, 5, 6, 4\) must have the points of the grid, \(6, 5\)"):
        PDEBenchFile(path=str(path)).open()
    for lengths in ((5, 1), (1, 5)):  # a length of 1 would broadcast
        with h5py.File(path, "w") as file:
            file["density"], file["Vx"] = (values[:, :steps] for steps in lengths)
            coordinates(file, (6, 4))
        with pytest.raises(ValueError, match=r"bad\.hdf5: Vx .* must have simulations and steps as density "):
            PDEBenchFile(path=str(path)).open()
    with h5py.File(path, "w") as file:
        file["tensor"], file["t-coordinate"] = values, np.linspace(0, 1, 3)
        coordinates(file, (6, 4))
    with pytest.raises(ValueError, match=r"bad\.hdf5 lists 3 times; needed 5, one for each step"):
        PDEBenchFile(path=str(path)).open()
    with h5py.File(path, "w") as file:
        file["0000/data"], file["0001/data"] = values[0], values[0, :, :3]
    with pytest.raises(ValueError, match=r"0001/data \(5, 3, 4\) differs from 0000/data \(5, 6, 4\)"):
        PDEBenchFile(path=str(path)).open()


# neuraloperator


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


# plain arrays

ORDERS = [
    (Axis.SIMULATION, Axis.TIME, Axis.SPACE, Axis.SPACE),
    (Axis.SPACE, Axis.SPACE, Axis.TIME, Axis.SIMULATION),
    (Axis.TIME, Axis.SIMULATION, Axis.SPACE, Axis.SPACE),
]


@pytest.mark.parametrize("axes", ORDERS)
@pytest.mark.parametrize("kind", ["npy", "npz", "pt", "mat", "mat73"])
def test_plain_arrays_in_any_order(tmp_path: Path, values: np.ndarray, kind: str, axes: tuple[Axis, ...]) -> None:
    spaces = iter((2, 3))
    order = [{Axis.SIMULATION: 0, Axis.TIME: 1}.get(axis, -1) for axis in axes]
    order = [next(spaces) if number < 0 else number for number in order]
    stored = np.ascontiguousarray(values.transpose(order))
    path = tmp_path / f"data.{kind.removesuffix('73')}"
    if kind == "npy":
        np.save(path, stored)
    elif kind == "npz":
        np.savez(path, u=stored)
    elif kind == "pt":
        torch.save({"u": torch.from_numpy(stored)}, path)
    elif kind == "mat":
        scipy.io.savemat(path, {"u": stored})
    else:
        with h5py.File(path, "w") as file:  # MATLAB writes its axes in reverse
            file["u"] = stored.T
    spec = ArrayFile(path=str(path), axes=axes, extent=(3.0, 2.0), periodic=(True, False))
    assert Spec.from_json(spec.to_json()) == spec
    source = spec.open()
    assert source.grid == Grid(extent=(3.0, 2.0), points=(6, 4), periodic=(True, False))
    for simulation in range(3):
        read = source.fields["u"].read(simulation, slice(1, 4))
        np.testing.assert_array_equal(read[:, 0], values[simulation, 1:4])


def test_channels_last(tmp_path: Path, values: np.ndarray) -> None:
    np.save(tmp_path / "u.npy", values)
    axes = (Axis.SIMULATION, Axis.SPACE, Axis.SPACE, Axis.CHANNEL)
    source = ArrayFile(path=str(tmp_path / "u.npy"), axes=axes).open()
    assert source.fields["u"].channels == ("u_0", "u_1", "u_2", "u_3")
    np.testing.assert_array_equal(source.fields["u"].read(1, ALL)[0], np.moveaxis(values[1], -1, 0))


def stored(kind: str, values: np.ndarray, folder: Path) -> bytes:
    """The bytes of a file that holds `values`, compressed where it can be."""
    path = folder / f"whole.{kind.removesuffix(' of old')}"
    if kind == "npy":
        np.save(path, values)
    elif kind == "npz":
        np.savez_compressed(path, u=values)
    elif kind == "mat":
        scipy.io.savemat(path, {"u": values}, do_compression=True)
    else:
        torch.save({"u": torch.from_numpy(values)}, path, _use_new_zipfile_serialization=kind == "pt")
    return path.read_bytes()


KINDS = ["npy", "npz", "mat", "pt", "pt of old"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["empty", "nonsense", "cut short", "another kind"])
def test_files_that_cannot_be_read_are_named(tmp_path: Path, values: np.ndarray, kind: str, damage: str) -> None:
    path = tmp_path / f"u.{kind.removesuffix(' of old')}"
    whole = stored(kind, values, tmp_path)
    other = stored("npz" if kind == "npy" else "npy", values, tmp_path)
    contents = {
        "empty": b"",
        "nonsense": b"nonsense" * 100,
        "cut short": whole[: len(whole) // 2],
        "another kind": other,
    }
    path.write_bytes(contents[damage])
    with pytest.raises(ValueError, match=rf"u\{path.suffix} cannot be read as \{path.suffix}: ."):
        ArrayFile(path=str(path), axes=ORDERS[0]).open()


@pytest.mark.parametrize("kind", KINDS[1:])
def test_altered_files_are_read_or_named(tmp_path: Path, values: np.ndarray, kind: str) -> None:
    path = tmp_path / f"u.{kind.removesuffix(' of old')}"
    whole, random = stored(kind, values, tmp_path), np.random.default_rng(0)
    messages = []
    for _ in range(100):
        altered = bytearray(whole)
        altered[random.integers(min(len(whole), 600))] = random.integers(256)
        path.write_bytes(altered)
        with warnings.catch_warnings(action="ignore"):  # the readers' own
            try:
                read_arrays(path)
            except ValueError as error:
                messages.append(str(error))
    assert len(messages) > 10
    assert all(message.startswith(str(path)) and "\n" not in message for message in messages)


def test_plain_arrays_that_do_not_fit_are_refused(tmp_path: Path, values: np.ndarray) -> None:
    axes = (Axis.SIMULATION, Axis.SPACE)
    np.save(tmp_path / "u.npy", values)
    with pytest.raises(ValueError, match=r"u\.npy: u \(3, 5, 6, 4\) has rank 4; needed axes \(simulation, space\)"):
        ArrayFile(path=str(tmp_path / "u.npy"), axes=axes).open()
    with pytest.raises(ValueError, match=r"extent=\(1\.0,\) has 1 entries; .*needs 2"):
        ArrayFile(path=str(tmp_path / "u.npy"), axes=ORDERS[0], extent=(1.0,)).open()
    np.savez(tmp_path / "steps.npz", u=values[..., 0], a=values[:, :1, :, 0])
    with pytest.raises(ValueError, match=r"steps\.npz: a \(3, 1, 6\) has 1 steps; simulation 0 needs 5"):
        ArrayFile(path=str(tmp_path / "steps.npz"), axes=(Axis.SIMULATION, Axis.TIME, Axis.SPACE)).open()
    np.savez(tmp_path / "u.npz", a=values)
    with pytest.raises(ValueError, match=r"u\.npz has no key 'u'; it has \['a'\]"):
        ArrayFile(path=str(tmp_path / "u.npz"), axes=axes, keys=("u",)).open()
    np.save(tmp_path / "c.npy", values.astype(complex))
    with pytest.raises(ValueError, match=r"has type complex128; needed real numbers"):
        ArrayFile(path=str(tmp_path / "c.npy"), axes=ORDERS[0]).open()
    (tmp_path / "u.csv").write_text("1")
    with pytest.raises(ValueError, match=r"u\.csv ends in '\.csv'"):
        ArrayFile(path=str(tmp_path / "u.csv"), axes=axes).open()
    with pytest.raises(ValueError, match="'time' more than once"):
        ArrayFile(path="u.npy", axes=(Axis.TIME, Axis.TIME, Axis.SPACE))
    with pytest.raises(ValueError, match="name no 'space'"):
        ArrayFile(path="u.npy", axes=(Axis.SIMULATION,))
    with pytest.raises(ValueError, match="axes name 'width'"):
        Spec.from_json({"spec": "ArrayFile", "path": "u.npy", "axes": ["width"]})
