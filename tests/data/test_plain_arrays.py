"""Plain arrays in files of NumPy, MATLAB and PyTorch: in any order of axes, damaged, and of shapes that do not fit."""

import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from mondrian import Grid, Spec
from mondrian.data.sources import ArrayFile, Axis
from mondrian.data.sources.files import read_arrays

ALL = slice(0, None)

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
