"""Unstructured meshes: vertices and simplices, quantities derived from them, and mesh files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from mondrian.grid import Grid
from mondrian.points.elements import DIMENSIONS, simplices_of
from mondrian.points.point_set import PointSet, check_finite
from mondrian.points.weights import lumped_masses, simplex_volumes
from mondrian.support.files import write_atomically
from mondrian.support.libraries import library


@dataclass(frozen=True, eq=False)
class Mesh:
    """Vertices and simplices: lines in 1-D, triangles in 2-D, tetrahedra in 3-D.

    `fields` are values at the vertices, as stored in a mesh file.

    >>> corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> square = Mesh(corners, torch.tensor([[0, 1, 2], [1, 2, 3]]))
    >>> square.point_set().weights
    tensor([0.1667, 0.3333, 0.3333, 0.1667], dtype=torch.float64)
    """

    vertices: Float[Tensor, "vertex axis"]
    simplices: Int[Tensor, "simplex corner"]
    fields: Mapping[str, Shaped[Tensor, "vertex *component"]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.vertices.ndim != 2 or not self.vertices.is_floating_point():
            raise ValueError(f"vertices has shape {tuple(self.vertices.shape)}; needed (vertex, axis), floating-point")
        check_finite(self.vertices, "vertices")
        corners = self.vertices.shape[1] + 1
        shape, dtype = tuple(self.simplices.shape), self.simplices.dtype
        if len(shape) != 2 or shape[1] != corners or shape[0] == 0 or dtype.is_floating_point:
            raise ValueError(
                f"simplices has shape {shape} and dtype {dtype}; needed (simplex, {corners} corners), at least one, "
                "whole numbers"
            )
        if not 0 <= int(self.simplices.min()) <= int(self.simplices.max()) < len(self.vertices):
            raise ValueError(
                f"simplices names vertices {int(self.simplices.min())} to {int(self.simplices.max())}; "
                f"needed 0 to {len(self.vertices) - 1}"
            )

    def volumes(self) -> Float[Tensor, " simplex"]:
        """The volume of each simplex."""
        return simplex_volumes(self.vertices, self.simplices)

    def edges(self) -> Int[Tensor, "edge 2"]:
        """The pairs of vertices that share a simplex, each once, the smaller number first."""
        return _faces(self.simplices, 2)[0]

    def boundary(self) -> Int[Tensor, " vertex"]:
        """The vertices of the boundary faces, which belong to one simplex only."""
        faces, counts = _faces(self.simplices, self.simplices.shape[1] - 1)
        return faces[counts == 1].unique()

    def point_set(self, box: Grid | None = None) -> PointSet:
        """The vertices as points, with lumped masses as weights and the edges between them."""
        weights = lumped_masses(self.vertices, self.simplices)
        return PointSet(self.vertices, weights, box, self.edges())


def read_mesh(path: str | Path) -> Mesh:
    """The mesh in a file of any format that `meshio` reads (Gmsh, VTK, XDMF, Abaqus, ...).

    Only elements of the highest dimension count; quadrilaterals and other elements are cut into simplices. Axes along
    which the mesh has no extent are dropped, and so are vertices that no element uses. Values at vertices become
    `fields`.
    """
    file = _read(path)
    used, simplices = _used(file, path)
    points, dim = np.asarray(file.points, dtype=np.float64)[used], simplices.shape[1] - 1
    check_finite(torch.from_numpy(points), f"path={str(path)!r}")
    axes = np.flatnonzero(np.ptp(points, axis=0) > 0)
    if len(axes) != dim:
        raise ValueError(
            f"path={str(path)!r} holds elements of dimension {dim} in a space of {len(axes)} axes; needed the same"
        )
    fields = {name: _native(np.asarray(values)[used]) for name, values in file.point_data.items()}
    return Mesh(torch.from_numpy(points[:, axes]), torch.from_numpy(simplices), fields)


def write_mesh(path: str | Path, mesh: Mesh) -> None:
    """Write a mesh and its fields atomically, in the format of the file's extension."""
    kind = {1: "line", 2: "triangle", 3: "tetra"}[mesh.vertices.shape[1]]
    points = np.zeros((len(mesh.vertices), 3))  # some formats require three axes
    points[:, : mesh.vertices.shape[1]] = mesh.vertices.numpy()
    fields = {name: values.numpy() for name, values in mesh.fields.items()}
    meshio = library("meshio", extra="mesh")
    _write(path, meshio.Mesh(points, [(kind, mesh.simplices.numpy())], point_data=fields))


def write_fields(source: str | Path, target: str | Path, fields: Mapping[str, Shaped[Tensor, "vertex *rest"]]) -> None:
    """Copy a mesh file and add fields at the vertices that `read_mesh` returns, with NaN at those it drops."""
    file = _read(source)
    used, _ = _used(file, source)
    for name, values in fields.items():
        whole = np.full((len(file.points), *values.shape[1:]), np.nan, dtype=values.numpy().dtype)
        whole[used] = values.numpy()
        file.point_data[name] = whole
    _write(target, file)


@contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Add the file of a mesh to errors about the mesh."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _read(path: str | Path) -> Any:
    meshio = library("meshio", extra="mesh")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist; needed a mesh file")
    try:
        return meshio.read(Path(path))
    except (Exception, SystemExit) as error:  # its readers raise errors of any kind
        raise ValueError(f"path={str(path)!r} is not a mesh that meshio can read: {error!r}") from error


def _used(file: Any, path: str | Path) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The vertices of the elements of the highest dimension, and the simplices between them."""
    blocks = [block for block in file.cells if block.type != "vertex" and len(block.data)]
    unknown = sorted({block.type for block in blocks} - set(DIMENSIONS))
    if unknown or not blocks:
        raise ValueError(f"path={str(path)!r} holds elements {unknown or 'of no kind'}; needed {list(DIMENSIONS)}")
    dim = max(DIMENSIONS[block.type] for block in blocks)
    cut = [
        simplices_of(block.type, np.asarray(block.data, np.int64)) for block in blocks if DIMENSIONS[block.type] == dim
    ]
    used, simplices = np.unique(np.concatenate(cut), return_inverse=True)
    return used, simplices.reshape(-1, dim + 1)


def _write(path: str | Path, mesh: Any) -> None:
    meshio = library("meshio", extra="mesh")
    path = Path(path)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / path.name
        try:
            meshio.write(whole, mesh)
        except (Exception, SystemExit) as error:
            raise ValueError(f"path={str(path)!r} cannot be written by meshio: {error!r}") from error
        for companion in set(whole.parent.iterdir()) - {whole}:  # XDMF stores its numbers in a second file
            write_atomically(path.with_name(companion.name), companion.read_bytes())
        write_atomically(path, whole.read_bytes())


def _native(values: NDArray[Any]) -> Tensor:
    """A tensor in the byte order of this machine."""
    return torch.from_numpy(values.astype(values.dtype.newbyteorder("=")))


def _faces(simplices: Int[Tensor, "simplex corner"], corners: int) -> tuple[Tensor, Tensor]:
    """The distinct faces with a number of corners, each sorted, and the number of simplices of each."""
    faces = torch.cat([simplices[:, list(subset)] for subset in combinations(range(simplices.shape[1]), corners)])
    distinct, counts = faces.sort(dim=1).values.unique(dim=0, return_counts=True)
    return distinct, counts
