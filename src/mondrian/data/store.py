"""Shards: simulations in The Well's HDF5 layout, written whole or not at all, each with its own checksum.

A shard is built in memory and then written like any other file (temporary name, fsync, rename), so that a
full disk is a plain `OSError` and a killed process leaves at most a file called `*.partial`.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float, Shaped

from mondrian.grid import Grid
from mondrian.support.files import write_atomically

AXES = ("x", "y", "z")
CHECKSUM = "mondrian_checksum"
IDENTITY = "mondrian"


@dataclass(frozen=True, eq=False)
class Simulations:
    r"""Simulations $u^{(b)}(t, x)$ on one grid at common times, with numbers such as $\gamma^{(b)}$.

    Shapes: a field is `(simulation, time, *grid.points)`, a scalar `(simulation,)`.

    >>> grid = Grid(extent=(2.0, 2.0), points=(4, 4))
    >>> data = Simulations(
    ...     grid=grid,
    ...     times=np.array([0.0, 6.0]),
    ...     fields={"u": np.zeros((3, 2, 4, 4), dtype=np.float32)},
    ...     scalars={"gamma": np.full(3, 1e-3)},
    ... )
    >>> len(data)
    3
    """

    grid: Grid
    times: Float[np.ndarray, " time"]
    fields: Mapping[str, Float[np.ndarray, "simulation time ..."]]
    scalars: Mapping[str, Float[np.ndarray, " simulation"]]

    def __post_init__(self) -> None:
        if not self.fields:
            raise ValueError("fields={} is empty; needed at least one field")
        needed = (len(self), len(self.times), *self.grid.points)
        for name, field in self.fields.items():
            if field.shape != needed:
                raise ValueError(f"field {name!r} has shape {field.shape}; needed {needed}, (simulation, time, *space)")
        for name, scalar in self.scalars.items():
            if scalar.shape != (len(self),):
                raise ValueError(f"scalar {name!r} has shape {scalar.shape}; needed ({len(self)},)")

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))

    @staticmethod
    def join(parts: Iterable[Simulations]) -> Simulations:
        """The simulations of all parts, in order; the parts share grid and times."""
        first, *rest = parts
        everything = (first, *rest)
        if any(part.grid != first.grid for part in rest):
            raise ValueError(f"parts lie on different grids: {[part.grid.points for part in everything]}")
        return Simulations(
            grid=first.grid,
            times=first.times,
            fields={name: np.concatenate([part.fields[name] for part in everything]) for name in first.fields},
            scalars={name: np.concatenate([part.scalars[name] for part in everything]) for name in first.scalars},
        )


def write_shard(path: Path, data: Simulations, *, name: str, identity: Mapping[str, Any]) -> str:
    """Write one shard atomically and return its checksum.

    `name` is the data set's (The Well wants the same in all files of a folder); `identity` says which
    simulations these are, and `read_identity` returns it.
    """
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        _fill(file, data, name)
        file.attrs[IDENTITY] = json.dumps({**identity, "grid": data.grid.to_json()}, sort_keys=True)
        digest = checksum(file)
        file.attrs[CHECKSUM] = digest
    write_atomically(path, image.getbuffer())
    return digest


def read_shard(path: Path) -> Simulations:
    """The inverse of `write_shard`; for other people's files use `mondrian.data.sources.WellFiles`."""
    with _open(path) as file:
        identity = identity_of(file, path)
        grid = Grid.from_json(identity["grid"])
        assert isinstance(grid, Grid)
        return Simulations(
            grid=grid,
            times=file["dimensions/time"][...].astype(np.float64),
            fields={key: file["t0_fields"][key][...] for key in file["t0_fields"].attrs["field_names"]},
            scalars={key: file["scalars"][key][...] for key in file["scalars"].attrs["field_names"]},
        )


def read_identity(path: Path) -> dict[str, Any]:
    """What `write_shard` was given as `identity`, and the grid."""
    with _open(path) as file:
        return identity_of(file, path)


def identity_of(file: h5py.File, path: Path) -> dict[str, Any]:
    """The same of an open file."""
    if IDENTITY not in file.attrs:
        raise ValueError(f"{path} has no attribute {IDENTITY!r}; needed a shard written by mondrian")
    identity: dict[str, Any] = json.loads(file.attrs[IDENTITY])
    return identity


def stored_checksum(path: Path) -> str:
    """The checksum that the shard carries, without looking at the data."""
    with _open(path) as file:
        return str(file.attrs.get(CHECKSUM, ""))


def damage(path: Path, expected: str | None = None) -> str | None:
    """What is wrong with a shard, in words, or `None`: its data must hash to the checksum that it carries.

    `expected` is the checksum that a manifest has for it, if one has.
    """
    try:
        with _open(path) as file:
            carried = str(file.attrs.get(CHECKSUM, ""))
            found = checksum(file)
    # h5py raises whatever the broken bytes happen to break.
    except (OSError, KeyError, ValueError, RuntimeError, TypeError) as error:
        return f"cannot be read ({error})"
    for meaning, wanted in (("it carries", carried), ("the manifest has", expected)):
        if wanted is not None and found != wanted:
            return f"its data have checksum {found[:12]}, {meaning} {wanted[:12] or 'none'}"
    return None


def checksum(file: h5py.File) -> str:
    """SHA-256 over every array (name, type, shape, bytes) and attribute, in the order of their names.

    Equal for equal content, whichever version of HDF5 wrote the file.
    """
    digest = hashlib.sha256()
    names: list[str] = []
    file.visit(names.append)
    for name in ["/", *sorted(names)]:
        node = file[name]
        for key in sorted(node.attrs):
            if key != CHECKSUM:
                digest.update(f"{name}@{key}={np.asarray(node.attrs[key]).tolist()!r}\n".encode())
        if isinstance(node, h5py.Dataset):
            values = np.ascontiguousarray(node[...])
            digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
            digest.update(values.data)
    return digest.hexdigest()


def _open(path: Path) -> h5py.File:
    try:
        return h5py.File(path, "r")
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist; needed a shard") from None
    except OSError as error:
        raise OSError(f"{path} is no readable HDF5 file: {error}") from error


def _fill(file: h5py.File, data: Simulations, name: str) -> None:
    axes = AXES[: data.grid.dim]
    file.attrs["dataset_name"] = name
    file.attrs["grid_type"] = "cartesian"
    file.attrs["n_spatial_dims"] = data.grid.dim
    file.attrs["n_trajectories"] = len(data)
    file.attrs["simulation_parameters"] = _words(data.scalars)

    dimensions = file.create_group("dimensions")
    dimensions.attrs["spatial_dims"] = _words(axes)
    _dataset(dimensions, "time", data.times.astype(np.float32), sample=False)
    for number, axis in enumerate(axes):
        _dataset(dimensions, axis, data.grid.axis(number).numpy().astype(np.float32), sample=False, time=False)

    conditions = file.create_group("boundary_conditions")
    for axis, points, periodic in zip(axes, data.grid.points, data.grid.periodic, strict=True):
        kind = "PERIODIC" if periodic else "WALL"
        condition = conditions.create_group(f"{axis}_{kind.lower()}")
        condition.attrs["associated_dims"] = _words([axis])
        condition.attrs["associated_fields"] = _words([])
        condition.attrs["bc_type"] = kind
        condition.attrs["sample_varying"] = False
        condition.attrs["time_varying"] = False
        ends = np.zeros(points, dtype=bool)
        ends[[0, -1]] = True
        condition.create_dataset("mask", data=ends)

    scalars = file.create_group("scalars")
    scalars.attrs["field_names"] = _words(data.scalars)
    for key, numbers in data.scalars.items():
        _dataset(scalars, key, numbers, sample=True, time=False)

    for order in range(3):
        group = file.create_group(f"t{order}_fields")
        group.attrs["field_names"] = _words(data.fields if order == 0 else [])
    for key, field in data.fields.items():
        dataset = _dataset(file["t0_fields"], key, field, sample=True, time=True)
        dataset.attrs["dim_varying"] = np.ones(data.grid.dim, dtype=bool)


def _dataset(
    group: h5py.Group, key: str, values: Shaped[np.ndarray, "..."], *, sample: bool, time: bool | None = None
) -> h5py.Dataset:
    # Contiguous and uncompressed: a window of a simulation is then one read at a known place in the file.
    dataset = group.create_dataset(key, data=np.ascontiguousarray(values))
    dataset.attrs["sample_varying"] = sample
    if time is not None:
        dataset.attrs["time_varying"] = time
    return dataset


def _words(names: Iterable[str]) -> np.ndarray:
    return np.array(list(names), dtype=h5py.string_dtype())
