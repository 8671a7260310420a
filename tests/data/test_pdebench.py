"""Files of PDEBench: every layout is made small here, read back, and broken in the usual ways."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from mondrian import Grid
from mondrian.data.datasets import WindowDataset
from mondrian.data.sources import PDEBenchFile
from mondrian.surrogate import Window

ALL = slice(0, None)


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
