"""HDF5 files in The Well's layout, which is also ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from mondrian.data import manifest
from mondrian.data.arrays import Handles, MemoryArray, hdf5_array, open_hdf5
from mondrian.data.sources.base import Axis, Field, Files, Segment, Source
from mondrian.data.sources.grids import grid_from_axes, grids_agree
from mondrian.data.store import IDENTITY, identity_of
from mondrian.grid import Grid


@dataclass(frozen=True)
class WellFiles(Files):
    """Files in The Well's layout: one file, a folder of files, a data set of The Well, or one of ours.

    `split` picks `data/SPLIT` (`train`, `valid`, `test`); `points` picks a resolution of a folder made by
    `mondrian generate` and may be left out if the split is stored at one resolution only; for other files it must be
    theirs. Scalars become fields that are constant in space, vectors and tensors fields of several channels.
    """

    split: str | None = None
    points: tuple[int, ...] = ()

    def open(self) -> Source:
        """The simulations of all files, in the order of their names."""
        files = self.files()
        handles = Handles()
        parts = [_read(file, handles) for file in files]
        first = parts[0]
        for part in parts[1:]:
            if not grids_agree(part.grid, first.grid):
                raise ValueError(f"{part.name} lies on {part.grid}, {first.name} on {first.grid}; needed one grid")
            for key in sorted(first.fields.keys() ^ part.fields.keys()):
                lacking = part if key in first.fields else first
                raise ValueError(f"{lacking.name} has no field {key!r}; needed it, as in other files of the folder")
        fields = {
            key: Field(
                name=key,
                channels=first.fields[key].channels,
                segments=tuple(segment for part in parts for segment in part.fields[key].segments),
            )
            for key in first.fields
        }
        steps = tuple(count for part in parts for count in part.steps)
        name = files[0] if Path(self.path).is_file() else files[0].parent
        source = Source(name=str(name), grid=first.grid, fields=fields, steps=steps, times=first.times)
        source.check_points(self.points)
        return source

    def files(self) -> list[Path]:
        """The HDF5 files, checked against the manifest if there is one."""
        root = Path(self.path)
        if not root.exists():
            raise FileNotFoundError(f"{root} does not exist; needed an HDF5 file or a folder of them")
        if root.is_file():
            return [root]
        folder = self._resolution(root) if (root / manifest.FILE).exists() else root
        if self.split is not None:
            folder = folder / "data" / self.split
        files = sorted(path for kind in ("*.hdf5", "*.h5") for path in folder.glob(kind))
        if not files:
            raise FileNotFoundError(
                f"{folder} holds no .hdf5 or .h5 file (split={self.split!r}, points={self.points}); needed at least one"
            )
        return files

    def _resolution(self, root: Path) -> Path:
        known = manifest.Manifest.load(root)
        if self.split is None or self.split not in known.points:
            raise ValueError(f"split={self.split!r} is not in {root}; needed one of {list(known.points)}")
        stored = known.points[self.split]
        if not self.points and len(stored) > 1:
            raise ValueError(f"{root} holds split {self.split!r} at points {stored}; needed points=... to choose one")
        points = self.points or stored[0]
        if points not in stored:
            raise ValueError(f"points={points} are not stored for split {self.split!r} of {root}; it has {stored}")
        name = "x".join(map(str, points))
        folder = f"{name}/data/{self.split}/"
        lacking = [path for path in known.missing if path.startswith(folder)]
        if lacking:
            raise ValueError(f"{root} is unfinished: {len(lacking)} files of {folder} are missing, first {lacking[0]}")
        return root / name


def _read(path: Path, handles: Handles) -> Source:
    with open_hdf5(path) as file:
        names = _strings(_attribute(_group(file, "dimensions"), "spatial_dims"))
        simulations = int(_attribute(file, "n_trajectories"))
        grid = _grid(file, path, names)
        times = np.atleast_2d(np.asarray(_group(file, "dimensions/time")[()], dtype=np.float64))
        fields: dict[str, Field] = {}
        for order in range(3):
            group = _group(file, f"t{order}_fields")
            for key in _strings(_attribute(group, "field_names")):
                dataset = _group(group, key)
                varying = [n for n, yes in enumerate(np.atleast_1d(_attribute(dataset, "dim_varying"))) if yes]
                channels = tuple(
                    "_".join([key, "".join(index)]) if index else key for index in product(names, repeat=order)
                )
                axes: tuple[Axis | int, ...] = (*_leading(dataset), *varying, *(Axis.CHANNEL,) * order)
                fields[key] = _field(key, channels, dataset, axes, handles, grid.dim, simulations)
        group = _group(file, "scalars")
        for key in _strings(_attribute(group, "field_names")):
            dataset = _group(group, key)
            fields[key] = _field(key, (key,), dataset, _leading(dataset), handles, grid.dim, simulations)
        return Source(name=str(path), grid=grid, fields=fields, steps=(times.shape[-1],) * simulations, times=times[0])


def _field(
    key: str,
    channels: tuple[str, ...],
    dataset: h5py.Dataset,
    axes: tuple[Axis | int, ...],
    handles: Handles,
    dim: int,
    simulations: int,
) -> Field:
    array = hdf5_array(handles, dataset)
    if not axes and array.shape == (1,):  # shape (1,) in the specification, () in The Well's own files
        array = MemoryArray(array.read((0,)), file=array.file, key=array.key)
    segment = Segment(array, axes, dim=dim, simulations=simulations)
    return Field(name=key, channels=channels, segments=(segment,))


def _leading(dataset: h5py.Dataset) -> tuple[Axis, ...]:
    flags = (("sample_varying", Axis.SIMULATION), ("time_varying", Axis.TIME))
    return tuple(axis for name, axis in flags if bool(_attribute(dataset, name)))


def _grid(file: h5py.File, path: Path, names: Sequence[str]) -> Grid:
    if IDENTITY in file.attrs:  # ours: the exact grid, not float32 coordinates
        grid = Grid.from_json(identity_of(file, path)["grid"])
        assert isinstance(grid, Grid)
        return grid
    kind = _string(file, "grid_type")
    if kind != "cartesian":
        raise ValueError(f"{path} has grid_type={kind!r}; needed 'cartesian'")
    periodic = dict.fromkeys(names, False)
    for condition in _group(file, "boundary_conditions").values():
        if _string(condition, "bc_type").upper() == "PERIODIC":
            periodic |= dict.fromkeys(_strings(_attribute(condition, "associated_dims")), True)
    axes = [np.asarray(_group(file, f"dimensions/{name}")[()]) for name in names]
    keys = [f"dimensions/{name}" for name in names]
    return grid_from_axes(axes, tuple(periodic[name] for name in names), file=str(path), keys=keys)


def _group(node: h5py.Group, key: str) -> h5py.Group | h5py.Dataset:
    if key not in node:
        where = f"{node.file.filename}: {node.name}"
        raise ValueError(f"{where} has no key {key!r}; it has {sorted(node)}")
    return node[key]


def _attribute(node: h5py.Group | h5py.Dataset, key: str) -> Any:
    if key not in node.attrs:
        where = f"{node.file.filename}: {node.name}"
        shape = f" {node.shape}" if isinstance(node, h5py.Dataset) else ""
        raise ValueError(f"{where}{shape} has no attribute {key!r}; it has {sorted(node.attrs)}")
    return node.attrs[key]


def _string(node: h5py.Group, key: str) -> str:
    return _strings(_attribute(node, key))[0]


def _strings(value: Any) -> list[str]:
    return [text.decode() if isinstance(text, bytes) else str(text) for text in np.atleast_1d(value)]
