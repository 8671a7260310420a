"""Shards: files of simulations in The Well's HDF5 layout, written atomically, each with a checksum.

A shard is built in memory and then written like any other file (temporary name, fsync, rename). A full disk is thus a
plain `OSError`, and a killed process leaves at most a file `*.partial`.
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

from mondrian.data.arrays import open_hdf5
from mondrian.grid import Grid
from mondrian.support.files import write_atomically

AXES = ("x", "y", "z")
CHECKSUM = "mondrian_checksum"
IDENTITY = "mondrian"


@dataclass(frozen=True, eq=False)
class Simulations:
    r"""Simulations $u^{(b)}(t, x)$ on one grid at common times, with scalars such as $\gamma^{(b)}$.

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
        all_parts = (first, *rest)
        if any(part.grid != first.grid for part in rest):
            raise ValueError(f"parts lie on different grids: {[part.grid.points for part in all_parts]}; needed one")
        return Simulations(
            grid=first.grid,
            times=first.times,
            fields={name: np.concatenate([part.fields[name] for part in all_parts]) for name in first.fields},
            scalars={name: np.concatenate([part.scalars[name] for part in all_parts]) for name in first.scalars},
        )


def write_shard(path: Path, data: Simulations, *, name: str, identity: Mapping[str, Any]) -> str:
    """Write one shard atomically and return its checksum.

    `name` is that of the data set (The Well needs the same in all files of a folder); `identity` identifies the
    simulations, and `read_identity` returns it.
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
    """The inverse of `write_shard`; for other files use `mondrian.data.sources.WellFiles`."""
    with open_hdf5(path) as file:
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
    """The `identity` that `write_shard` stored, with the grid."""
    with open_hdf5(path) as file:
        return identity_of(file, path)


def identity_of(file: h5py.File, path: Path) -> dict[str, Any]:
    """The identity in an open file."""
    if IDENTITY not in file.attrs:
        raise ValueError(f"{path} has no attribute {IDENTITY!r}; needed a shard written by mondrian")
    identity: dict[str, Any] = json.loads(file.attrs[IDENTITY])
    return identity


def stored_checksum(path: Path) -> str:
    """The checksum that is stored in the shard; the data are not read."""
    with open_hdf5(path) as file:
        return str(file.attrs.get(CHECKSUM, ""))


def damage(path: Path, expected: str | None = None) -> str | None:
    """A description of the damage of a shard, or `None`: its data must have the checksum that it stores.

    `expected` is the checksum in the manifest, if there is one.
    """
    try:
        with open_hdf5(path) as file:
            stored = str(file.attrs.get(CHECKSUM, ""))
            actual = checksum(file)
    # damaged files raise errors of any kind in h5py
    except (OSError, KeyError, ValueError, RuntimeError, TypeError) as error:
        return f"cannot be read ({error})"
    for where, needed in (("it carries", stored), ("the manifest has", expected)):
        if needed is not None and actual != needed:
            return f"its data have checksum {actual[:12]}, {where} {needed[:12] or 'none'}"
    return None


def checksum(file: h5py.File) -> str:
    """SHA-256 over every array (name, type, shape, bytes) and attribute, in order of their names.

    It depends on the content alone, not on the version of HDF5.
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


def _fill(file: h5py.File, data: Simulations, name: str) -> None:
    axes = AXES[: data.grid.dim]
    file.attrs["dataset_name"] = name
    file.attrs["grid_type"] = "cartesian"
    file.attrs["n_spatial_dims"] = data.grid.dim
    file.attrs["n_trajectories"] = len(data)
    file.attrs["simulation_parameters"] = _strings(data.scalars)

    dimensions = file.create_group("dimensions")
    dimensions.attrs["spatial_dims"] = _strings(axes)
    _dataset(dimensions, "time", data.times.astype(np.float32), sample=False)
    for number, axis in enumerate(axes):
        _dataset(dimensions, axis, data.grid.axis(number).numpy().astype(np.float32), sample=False, time=False)

    conditions = file.create_group("boundary_conditions")
    for axis, points, periodic in zip(axes, data.grid.points, data.grid.periodic, strict=True):
        kind = "PERIODIC" if periodic else "WALL"
        condition = conditions.create_group(f"{axis}_{kind.lower()}")
        condition.attrs["associated_dims"] = _strings([axis])
        condition.attrs["associated_fields"] = _strings([])
        condition.attrs["bc_type"] = kind
        condition.attrs["sample_varying"] = False
        condition.attrs["time_varying"] = False
        ends = np.zeros(points, dtype=bool)
        ends[[0, -1]] = True
        condition.create_dataset("mask", data=ends)

    scalars = file.create_group("scalars")
    scalars.attrs["field_names"] = _strings(data.scalars)
    for key, numbers in data.scalars.items():
        _dataset(scalars, key, numbers, sample=True, time=False)

    for order in range(3):
        group = file.create_group(f"t{order}_fields")
        group.attrs["field_names"] = _strings(data.fields if order == 0 else [])
    for key, field in data.fields.items():
        dataset = _dataset(file["t0_fields"], key, field, sample=True, time=True)
        dataset.attrs["dim_varying"] = np.ones(data.grid.dim, dtype=bool)


def _dataset(
    group: h5py.Group, key: str, values: Shaped[np.ndarray, "..."], *, sample: bool, time: bool | None = None
) -> h5py.Dataset:
    # contiguous and uncompressed, so that a window of a simulation is one read at a known position
    dataset = group.create_dataset(key, data=np.ascontiguousarray(values))
    dataset.attrs["sample_varying"] = sample
    if time is not None:
        dataset.attrs["time_varying"] = time
    return dataset


def _strings(names: Iterable[str]) -> np.ndarray:
    return np.array(list(names), dtype=h5py.string_dtype())
