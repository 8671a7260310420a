"""Shards: The Well's layout, atomic writing, checksums."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from the_well.data import WellDataset

from mondrian import Grid
from mondrian.data.sources import WellFiles
from mondrian.data.store import (
    CHECKSUM,
    Simulations,
    damage,
    read_identity,
    read_shard,
    stored_checksum,
    write_shard,
)
from mondrian.support.files import remove_partial, write_atomically


@pytest.fixture
def data() -> Simulations:
    random = np.random.default_rng(0)
    return Simulations(
        grid=Grid(extent=(2.0, 1.0), points=(8, 4), periodic=(False, True)),
        times=np.array([0.0, 3.0, 6.0]),
        fields={"u": random.standard_normal((5, 3, 8, 4)).astype(np.float32)},
        scalars={"gamma": random.random(5).astype(np.float32)},
    )


def test_reading_is_the_inverse_of_writing(tmp_path: Path, data: Simulations) -> None:
    write_shard(tmp_path / "shard.hdf5", data, name="test", identity={"seed": 3})
    restored = read_shard(tmp_path / "shard.hdf5")
    assert restored.grid == data.grid
    np.testing.assert_array_equal(restored.times, data.times)
    np.testing.assert_array_equal(restored.fields["u"], data.fields["u"])
    np.testing.assert_array_equal(restored.scalars["gamma"], data.scalars["gamma"])
    assert read_identity(tmp_path / "shard.hdf5")["seed"] == 3


def test_the_well_opens_our_files(tmp_path: Path, data: Simulations) -> None:
    for number in range(2):
        file = tmp_path / "data" / "train" / f"shard_{number:05d}.hdf5"
        write_shard(file, data, name="test", identity={})
    well = WellDataset(path=str(tmp_path), well_split_name="train", n_steps_input=2, n_steps_output=1)
    assert len(well) == 10
    assert well.metadata.field_names[0] == ["u"]
    assert well.metadata.constant_scalar_names == ["gamma"]
    sample = well[7]
    np.testing.assert_array_equal(sample["input_fields"][..., 0].numpy(), data.fields["u"][2, :2])
    np.testing.assert_array_equal(sample["output_fields"][..., 0].numpy(), data.fields["u"][2, 2:])
    np.testing.assert_array_equal(sample["constant_scalars"].numpy(), data.scalars["gamma"][2:3])
    assert sample["boundary_conditions"].tolist() == [[0, 0], [2, 2]]  # walls along x, periodic along y
    coordinates = data.grid.coordinates().movedim(0, -1).numpy()
    np.testing.assert_allclose(sample["space_grid"].numpy(), coordinates, rtol=1e-6)


def test_content_decides_the_checksum(tmp_path: Path, data: Simulations) -> None:
    first = write_shard(tmp_path / "a.hdf5", data, name="test", identity={})
    assert write_shard(tmp_path / "b.hdf5", data, name="test", identity={}) == first
    assert stored_checksum(tmp_path / "a.hdf5") == first
    assert write_shard(tmp_path / "c.hdf5", data, name="test", identity={"seed": 1}) != first


def test_damage_is_found_wherever_it_is_in_the_data(tmp_path: Path, data: Simulations) -> None:
    path = tmp_path / "shard.hdf5"
    good = write_shard(path, data, name="test", identity={})
    assert damage(path) is None
    assert damage(path, good) is None
    assert "the manifest has" in (damage(path, "0" * 64) or "")
    content = bytearray(path.read_bytes())
    with h5py.File(path, "r") as file:
        offset = file["t0_fields/u"].id.get_offset()
        size = file["t0_fields/u"].id.get_storage_size()
    for place in (offset, offset + size // 2, offset + size - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert "checksum" in (damage(path) or "")
    path.write_bytes(content[: len(content) // 2])
    assert "cannot be read" in (damage(path) or "")
    path.write_bytes(b"")
    assert "cannot be read" in (damage(path) or "")


def test_a_shard_that_carries_no_checksum_is_not_trusted(tmp_path: Path, data: Simulations) -> None:
    path = tmp_path / "shard.hdf5"
    write_shard(path, data, name="test", identity={})
    with h5py.File(path, "r+") as file:
        del file.attrs[CHECKSUM]
    assert "it carries none" in (damage(path) or "")


def test_nothing_is_left_of_a_write_that_fails(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(OSError, match=r"cannot write .*target"):
        write_atomically(tmp_path / "target", b"x")  # a folder is in the way of the rename
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_path_below_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"cannot write .*file/below/shard.hdf5"):
        write_atomically(tmp_path / "file" / "below" / "shard.hdf5", b"x")


@pytest.mark.process
def test_a_full_disk_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    # A limit on the size of files fails in the same system call as a full disk.
    code = (
        "from pathlib import Path; from mondrian.support.files import write_atomically\n"
        f"write_atomically(Path({str(tmp_path / 'shard.hdf5')!r}), bytes(2**20))"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))

    run = subprocess.run([sys.executable, "-c", code], preexec_fn=limit, capture_output=True, text=True)
    assert run.returncode == 1
    assert f"cannot write {tmp_path / 'shard.hdf5'}: File too large" in run.stderr
    assert os.listdir(tmp_path) == []


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".shard.hdf5.0123abcd.partial").write_bytes(b"half")
    (tmp_path / ".other.hdf5.0123abcd.partial").write_bytes(b"half")
    remove_partial(tmp_path / "shard.hdf5")
    assert os.listdir(tmp_path) == [".other.hdf5.0123abcd.partial"]


def test_shapes_are_checked(data: Simulations) -> None:
    with pytest.raises(ValueError, match=r"field 'u' has shape \(5, 3, 8, 4\); needed \(5, 3, 8, 8\)"):
        Simulations(grid=data.grid.with_points((8, 8)), times=data.times, fields=data.fields, scalars={})
    with pytest.raises(ValueError, match="at least one field"):
        Simulations(grid=data.grid, times=data.times, fields={}, scalars={})
    finer = Simulations(
        grid=data.grid.with_points((8, 8)),
        times=data.times,
        fields={"u": np.zeros((5, 3, 8, 8), np.float32)},
        scalars={},
    )
    with pytest.raises(ValueError, match=r"different grids: \[\(8, 4\), \(8, 8\)\]"):
        Simulations.join([data, finer])


def test_a_missing_or_foreign_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.hdf5 does not exist"):
        read_shard(tmp_path / "none.hdf5")
    (tmp_path / "text.hdf5").write_text("no HDF5")
    with pytest.raises(OSError, match=r"text.hdf5 is not a readable HDF5 file"):
        WellFiles(path=str(tmp_path / "text.hdf5")).open()
    with h5py.File(tmp_path / "plain.hdf5", "w") as file:
        file["a"] = 1
    with pytest.raises(ValueError, match="needed a shard written by mondrian"):
        read_shard(tmp_path / "plain.hdf5")
