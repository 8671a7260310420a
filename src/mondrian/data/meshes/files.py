"""A folder of meshes with fields at their vertices, in parts for training, validation and test."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import Dataset

from mondrian.artefact import ModelSpec
from mondrian.data.datasets import split_simulations
from mondrian.data.protocol import ChannelValues, DataSpec
from mondrian.data.splits import SPLITS, check_fractions
from mondrian.grid import Grid
from mondrian.points.mesh import Mesh, naming, read_mesh
from mondrian.points.partition import Partition, PartitionSpec
from mondrian.points.point_set import PointSet
from mondrian.support.libraries import library
from mondrian.support.spec import Spec
from mondrian.surrogate import MeshSurrogateSpec, Scale, ScaledSpec

COMPANIONS = {".ele", ".svg"}  # the second file of a mesh of TetGen; pictures, which meshio only writes


@dataclass(frozen=True, eq=False)
class MeshSample:
    """One mesh: its vertices as points, input and target of a model there, and its cells if they were asked for."""

    name: str
    mesh: Mesh
    points: PointSet
    x: Float[Tensor, "in_channel vertex"]
    y: Float[Tensor, "out_channel vertex"]
    partition: Partition | None = None


@dataclass(frozen=True)
class MeshFiles(Spec):
    """A folder of files that `meshio` reads; or one with folders of them, a part each (`train`, `valid`, `test`).

    Parts whose names begin with `test` are all for testing: `test_fine`, say. `digest` is that of the files' names when
    a run began: another one are other samples. Those of test parts may change.
    """

    path: str
    digest: str = ""

    def pinned(self) -> MeshFiles:
        """The same with the digest of what is there now."""
        return replace(self, digest=self._digest(self._listed()))

    def parts(self) -> dict[str, tuple[Path, ...]]:
        """The files of each part in the order of their names; those without parts are called ''."""
        parts = self._listed()
        if self.digest and self._digest(parts) != self.digest:
            raise ValueError(f"{self.path} holds other files than when the run began; needed the same, or a new run")
        return parts

    def _listed(self) -> dict[str, tuple[Path, ...]]:
        root = Path(self.path)
        if not root.is_dir():
            raise FileNotFoundError(f"{root} is no folder; needed one with meshes, or with train/, valid/ and test/")
        folders = [path for path in sorted(root.iterdir()) if path.is_dir() and path.name.startswith(SPLITS)]
        parts = {folder.name: files for folder in folders if (files := _meshes(folder))} or {"": _meshes(root)}
        if not any(parts.values()):
            raise ValueError(f"{root} holds no file that meshio reads, nor train/, valid/ or test/ with such files")
        return parts

    @staticmethod
    def _digest(parts: dict[str, tuple[Path, ...]]) -> str:
        names = [
            f"{part}/{path.name}" for part, paths in parts.items() if not part.startswith("test") for path in paths
        ]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def _meshes(folder: Path) -> tuple[Path, ...]:
    known = set(library("meshio", extra="mesh").extension_to_filetypes) - COMPANIONS
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return tuple(sorted(path for path in files if path.suffix.lower() in known))


@dataclass(frozen=True)
class MeshSplits(DataSpec["Meshes"]):
    """Where meshes are, and which of their fields a model takes and gives.

    Files without parts are dealt out at random, `fractions` of them to train, valid and test. `box` holds all domains;
    without it each mesh has the bounding box of its vertices. `simulations` keeps the first so many to train with.

    >>> MeshSplits(files=MeshFiles(path="data/wings"), input=("angle",), target=("pressure",)).seed
    0
    """

    surrogate_kind: ClassVar[type[ScaledSpec]] = MeshSurrogateSpec

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
        for key, names in {"input": self.input, "target": self.target}.items():
            if len(set(names)) != len(names):
                raise ValueError(f"{key}={names} names a field twice")
        check_fractions(self.fractions, self.simulations)

    @property
    def path(self) -> str:
        """The folder that holds the meshes."""
        return self.files.path

    def of_other_data(self, path: str) -> MeshSplits:
        """The same fields of the meshes at `path`."""
        return replace(self, files=MeshFiles(path=path), simulations=None)

    def pinned(self) -> MeshSplits:
        """The same for the files that are there now: a resumed run notices others."""
        return replace(self, files=self.files.pinned())

    def parts(self, split: str = "test") -> tuple[str, ...]:
        """The parts whose names begin with that of `split`."""
        known = self.names()
        parts = tuple(name for name in known if name.startswith(split))
        if not parts:
            raise ValueError(f"split={split!r} is not in {self.files.path}; it has {', '.join(known)}")
        return parts

    def names(self) -> tuple[str, ...]:
        """All parts that there are."""
        return tuple(self._parts())

    def part(self, name: str, *, memory: int = 2**30) -> Meshes:
        """The meshes of a part, not cut into cells."""
        return self.meshes(name, memory=memory)

    def surrogate(
        self, model: ModelSpec, train: Meshes, in_scales: Sequence[Scale], out_scales: Sequence[Scale]
    ) -> MeshSurrogateSpec:
        """The model in physical units, which knows the fields that its channels are components of."""
        return MeshSurrogateSpec(
            model,
            train.in_channels,
            train.out_channels,
            tuple(in_scales),
            tuple(out_scales),
            self.input,
            self.target,
            self.box,
        )

    @classmethod
    def of_surrogate(cls, surrogate: MeshSurrogateSpec, path: str) -> MeshSplits:
        """A folder with the fields that a surrogate takes and predicts."""
        files = MeshFiles(path=path)
        return cls(files=files, input=surrogate.inputs, target=surrogate.targets, box=surrogate.box)

    def meshes(self, split: str, *, partition: PartitionSpec | None = None, memory: int = 2**32) -> Meshes:
        """The meshes of a part, cut into cells if asked for, and kept in `memory` bytes once they have been read."""
        parts = self._parts()
        if split not in parts:
            raise ValueError(f"split={split!r} is not in {self.files.path}; it has {', '.join(parts)}")
        files = parts[split]
        if split == "train" and self.simulations is not None:
            if self.simulations > len(files):
                raise ValueError(f"simulations={self.simulations} is more than the {len(files)} of {self.files.path}")
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
        if not self.files:
            raise ValueError(f"a part of {splits.files.path} holds no mesh; needed fractions that leave some to each")
        self.in_channels: tuple[str, ...] = ()
        self.out_channels: tuple[str, ...] = ()
        self.dim = 0
        self.dtype = torch.float32
        self[0]  # the first mesh says what all others have to have

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

    def tensors(self, index: int) -> tuple[Tensor, Tensor]:
        """Input and target at the vertices of a mesh."""
        sample = self[index]
        return sample.x, sample.y

    def values(self) -> Iterator[ChannelValues]:
        """The values at all vertices, a mesh at a time."""
        for index in range(len(self)):
            x, y = self.tensors(index)
            yield ChannelValues(1, x.unbind(), y.unbind())

    @staticmethod
    def field_of(channel: str) -> str:
        """Each channel is scaled by itself: components of a field may differ in size."""
        return channel

    def _read(self, path: Path) -> MeshSample:
        mesh = read_mesh(path)
        with naming(path):
            points = mesh.point_set(self.splits.box)
            cells = None if self.partition is None else self.partition.cut(points)
        x, y = (channels(mesh, fields, str(path)) for fields in (self.splits.input, self.splits.target))
        self._check(mesh, path)
        return MeshSample(str(path), mesh, points, x, y, cells)

    def _check(self, mesh: Mesh, path: Path) -> None:
        inputs, targets = (channel_names(mesh, fields) for fields in (self.splits.input, self.splits.target))
        dim = mesh.vertices.shape[1]
        if not self.dim:
            self.in_channels, self.out_channels, self.dim = inputs, targets, dim
        if (inputs, targets, dim) != (self.in_channels, self.out_channels, self.dim):
            needed = f"{', '.join((*self.in_channels, *self.out_channels))} on {self.dim} axes"
            there = f"{', '.join((*inputs, *targets))} on {dim} axes"
            raise ValueError(f"{path} has the channels {there}; needed {needed}, as {self.files[0]} has")


def channels(mesh: Mesh, fields: Sequence[str], name: str) -> Float[Tensor, "channel vertex"]:
    """The fields below each other, a channel for each component."""
    rows = [torch.empty(0, len(mesh.vertices))]
    for field in fields:
        if field not in mesh.fields:
            raise ValueError(f"{name} has no field {field!r} at its vertices; it has {sorted(mesh.fields)}")
        values = mesh.fields[field].float()
        if not bool(torch.isfinite(values).all()):
            raise ValueError(f"{name} holds values of {field!r} that are not finite in single precision")
        rows.append((values.flatten(1) if values.ndim > 1 else values[:, None]).mT)
    return torch.cat(rows)


def channel_names(mesh: Mesh, fields: Sequence[str]) -> tuple[str, ...]:
    """The names of the channels: `pressure`, or `velocity.0`, `velocity.1` for a field of two components."""
    counts = {field: mesh.fields[field][0].numel() for field in fields}
    return tuple(
        name
        for field, count in counts.items()
        for name in ([field] if count == 1 else [f"{field}.{number}" for number in range(count)])
    )


def components_of(channels: Sequence[str], fields: Sequence[str]) -> dict[str, list[int]]:
    """Which channels are the components of each field; one with the name of a field is that field.

    >>> components_of(("velocity.0", "velocity.1", "p", "p.1"), ("velocity", "p", "p.1"))
    {'velocity': [0, 1], 'p': [2], 'p.1': [3]}
    """
    owners = [name if name in fields else name.rpartition(".")[0] for name in channels]
    return {field: [place for place, owner in enumerate(owners) if owner == field] for field in fields}


def _bytes(sample: MeshSample) -> int:
    fixed = (sample.mesh.vertices, sample.mesh.simplices, sample.points.weights, sample.points.edges)
    cells = () if sample.partition is None else (sample.partition.members,)
    tensors = [*fixed, *cells, *sample.mesh.fields.values(), sample.x, sample.y]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)
