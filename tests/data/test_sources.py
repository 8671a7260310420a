"""Files in the layout of The Well, as others write them: read as The Well reads them, and broken in the usual ways."""

from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from the_well.data import WellDataset
from the_well.utils.dummy_data import write_dummy_data

from mondrian import Grid
from mondrian.data.arrays import ChunkedArray, ContiguousArray, Handles, MemoryArray, hdf5_array
from mondrian.data.datasets import WindowDataset
from mondrian.data.sources import WellFiles, same_grid
from mondrian.data.store import Simulations, write_shard
from mondrian.surrogate import Window


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
