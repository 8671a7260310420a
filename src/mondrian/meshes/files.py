"""A folder of meshes with fields at their vertices, in parts for training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import Dataset

from mondrian.data.datasets import split_simulations
from mondrian.data.splits import SPLITS
from mondrian.grid import Grid
from mondrian.points.extras import extra
from mondrian.points.mesh import Mesh, read_mesh
from mondrian.points.partition import Partition, PartitionSpec
from mondrian.points.point_set import PointSet
from mondrian.spec import Spec


@dataclass(frozen=True, eq=False)
class MeshSample:
    """One mesh: its vertices as points, what a model is given there, what it should answer, and cells if wanted."""

    name: str
    mesh: Mesh
    points: PointSet
    x: Float[Tensor, "in_channel vertex"]
    y: Float[Tensor, "out_channel vertex"]
    partition: Partition | None = None


@dataclass(frozen=True)
class MeshFiles(Spec):
    """A folder of files that `meshio` reads; or one with folders of them, a part each (`train`, `valid`, `test`).

    Parts whose names begin with `test` are all for testing: `test_fine`, say.
    """

    path: str

    def parts(self) -> dict[str, tuple[Path, ...]]:
        """The files of each part in the order of their names; those without parts are called ''."""
        root = Path(self.path)
        if not root.is_dir():
            raise FileNotFoundError(f"{root} is no folder; needed one with meshes, or with train/, valid/ and test/")
        found = {folder.name: _meshes(folder) for folder in sorted(root.iterdir()) if folder.is_dir()}
        found = {name: files for name, files in found.items() if files} or {"": _meshes(root)}
        if not any(found.values()):
            raise ValueError(f"{root} holds no file that meshio reads, nor a folder of such files")
        return found


def _meshes(folder: Path) -> tuple[Path, ...]:
    known = extra("meshio").extension_to_filetypes
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return tuple(sorted(path for path in files if path.suffix.lower() in known))


@dataclass(frozen=True)
class MeshSplits(Spec):
    """Where meshes are, and which of their fields a model takes and gives.

    Files without parts are dealt out at random, `fractions` of them to train, valid and test. `box` holds all domains;
    without it each mesh has the bounding box of its vertices. `simulations` keeps the first so many to train with.

    >>> MeshSplits(files=MeshFiles(path="data/wings"), input=("angle",), target=("pressure",)).seed
    0
    """

    files: MeshFiles
    input: tuple[str, ...]
    target: tuple[str, ...]
    box: Grid | None = None
    simulations: int | None = None
    fractions: tuple[float, ...] = (0.7, 0.15, 0.15)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.input or not self.target:
            raise ValueError(f"input={self.input} and target={self.target} must both name fields of the meshes")
        if self.simulations is not None and self.simulations < 1:
            raise ValueError(f"simulations={self.simulations} must be at least 1")

    def of_other_data(self, path: str) -> MeshSplits:
        """The same fields of the meshes at `path`."""
        return replace(self, files=MeshFiles(path=path), simulations=None)

    def parts(self, split: str = "test") -> tuple[str, ...]:
        """The parts whose names begin with that of `split`."""
        known = tuple(self._parts())
        found = tuple(name for name in known if name.startswith(split))
        if not found:
            raise ValueError(f"split={split!r} is not in {self.files.path}; it has {', '.join(known)}")
        return found

    def meshes(self, split: str, *, partition: PartitionSpec | None = None, memory: int = 2**32) -> Meshes:
        """The meshes of a part, cut into cells if asked for, and kept in `memory` bytes once they have been read."""
        parts = self._parts()
        if split not in parts:
            raise ValueError(f"split={split!r} is not in {self.files.path}; it has {', '.join(parts)}")
        files = parts[split]
        if split == "train" and self.simulations is not None:
            if self.simulations > len(files):
                raise ValueError(f"simulations={self.simulations} are wanted; {self.files.path} has {len(files)}")
            files = files[: self.simulations]
        return Meshes(files, self, partition, memory=memory)

    def _parts(self) -> dict[str, tuple[Path, ...]]:
        parts = self.files.parts()
        if "" not in parts:
            return parts
        dealt = split_simulations(len(parts[""]), self.fractions, seed=self.seed)
        return {name: tuple(parts[""][n] for n in chosen) for name, chosen in zip(SPLITS, dealt, strict=True)}


class Meshes(Dataset[MeshSample]):
    """Meshes that are read as they are asked for, and kept as long as there is room."""

    def __init__(
        self, files: Sequence[Path], splits: MeshSplits, partition: PartitionSpec | None = None, *, memory: int
    ) -> None:
        self.files, self.splits, self.partition = tuple(files), splits, partition
        self._room = memory
        self._kept: dict[int, MeshSample] = {}
        first = self[0]
        self.in_names = channel_names(first.mesh, splits.input)
        self.out_names = channel_names(first.mesh, splits.target)
        self.dim = first.points.dim

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> MeshSample:
        if index in self._kept:
            return self._kept[index]
        sample = self._read(self.files[index])
        size = _bytes(sample)
        if size <= self._room:
            self._room -= size
            self._kept[index] = sample
        return sample

    def _read(self, path: Path) -> MeshSample:
        mesh = read_mesh(path)
        points = points_of(mesh, self.splits.box, str(path))
        cells = None if self.partition is None else self.partition.cut(points)
        x, y = (channels(mesh, fields, str(path)) for fields in (self.splits.input, self.splits.target))
        return MeshSample(str(path), mesh, points, x, y, cells)


def points_of(mesh: Mesh, box: Grid | None, name: str) -> PointSet:
    """The vertices of a mesh as points of a box; errors name the file."""
    try:
        return mesh.point_set(box)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def channels(mesh: Mesh, fields: Sequence[str], name: str) -> Float[Tensor, "channel vertex"]:
    """The fields below each other, a channel for each component."""
    rows = [torch.empty(0, len(mesh.vertices))]
    for field in fields:
        if field not in mesh.fields:
            raise ValueError(f"{name} has no field {field!r} at its vertices; it has {sorted(mesh.fields)}")
        values = mesh.fields[field].float().flatten(1) if mesh.fields[field].ndim > 1 else mesh.fields[field][:, None]
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"{name} holds values of {field!r} that are not finite")
        rows.append(values.float().mT)
    return torch.cat(rows)


def channel_names(mesh: Mesh, fields: Sequence[str]) -> tuple[str, ...]:
    """The names of the channels: `pressure`, or `velocity.0`, `velocity.1` for a field of two components."""
    counts = {field: mesh.fields[field][0].numel() for field in fields}
    return tuple(
        name
        for field, count in counts.items()
        for name in ([field] if count == 1 else [f"{field}.{number}" for number in range(count)])
    )


def field_of(channel: str) -> str:
    """The field that a channel belongs to.

    >>> field_of("velocity.1")
    'velocity'
    """
    field, _, component = channel.rpartition(".")
    return field if component.isdecimal() and field else channel


def _bytes(sample: MeshSample) -> int:
    fixed = (sample.mesh.vertices, sample.mesh.simplices, sample.points.weights, sample.points.edges)
    tensors = [*fixed, *sample.mesh.fields.values(), sample.x, sample.y]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)
