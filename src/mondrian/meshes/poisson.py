r"""Poisson's equation on squares with holes, each with a mesh of its own.

$$-\Delta u = f \text{ in } \Omega = [0, 1]^2 \setminus \text{discs}, \qquad u = 0 \text{ on } \partial\Omega$$

with a source of a few waves. Solved by linear finite elements (`scikit-fem`); a model sees the source and the distance
to the boundary at the vertices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from tqdm import tqdm

from mondrian.data.problems import simulation_seed
from mondrian.points.mesh import Mesh, write_mesh
from mondrian.support.libraries import library
from mondrian.support.settings_guard import SettingsGuard
from mondrian.support.spec import Spec

SETTINGS = "poisson.json"
PARTS = ("train", "valid", "test", "test_fine")
GAP = 0.12  # at least, between discs and from them to the walls
WAVES = 6

Points = Float64[np.ndarray, "point axis"]
Discs = Float64[np.ndarray, "disc x_y_radius"]


@dataclass(frozen=True)
class PerforatedPoisson(Spec):
    """A random domain and source for each seed; `spacing` is the typical length of an edge of the mesh.

    >>> mesh = PerforatedPoisson(spacing=0.1).solve(seed=0)
    >>> sorted(mesh.fields)
    ['distance', 'source', 'u']
    """

    spacing: float = 0.06
    most_discs: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.spacing <= 0.25:
            raise ValueError(f"spacing={self.spacing} must be positive and at most 0.25")
        if self.most_discs < 1:
            raise ValueError(f"most_discs={self.most_discs} must be at least 1")

    def solve(self, seed: int) -> Mesh:
        """The mesh of one domain with `source`, `distance` and the solution `u` at its vertices."""
        random = np.random.default_rng(seed)
        discs = self._discs(random)
        waves = random.integers(-2, 3, (WAVES, 2)) * np.pi
        amplitudes, phases = random.standard_normal(WAVES), random.uniform(0, 2 * np.pi, WAVES)
        mesh = triangulate(discs, self.spacing)
        x = mesh.vertices.numpy()
        source = (amplitudes * np.sin(x @ waves.T + phases)).sum(axis=1)
        values = {"source": source, "distance": distance(x, discs).clip(0), "u": solve_poisson(mesh, source)}
        fields = {name: torch.from_numpy(function).float() for name, function in values.items()}
        return Mesh(mesh.vertices, mesh.simplices, fields)

    def _discs(self, random: np.random.Generator) -> Discs:
        """Discs that touch neither each other nor the walls; fewer than drawn where there is no room."""
        discs: list[Float64[np.ndarray, " x_y_radius"]] = []
        for _ in range(random.integers(1, self.most_discs + 1)):
            for _ in range(100):
                radius = random.uniform(0.06, 0.16)
                centre = random.uniform(radius + GAP, 1 - radius - GAP, 2)
                if all(np.linalg.norm(centre - other[:2]) > radius + other[2] + GAP for other in discs):
                    discs.append(np.array([*centre, radius]))
                    break
        return np.array(discs)


def write_poisson(
    folder: Path,
    problem: PerforatedPoisson,
    counts: dict[str, int],
    *,
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
    progress: bool = False,
) -> None:
    """Solve so many problems for each part and write them to `folder/<part>/00000.vtu` and so on.

    What is there already stays, so that a killed call goes on. The part `test_fine` has the domains and sources of
    `test` on meshes twice as fine. `share=(i, n)` makes every n-th file from the i-th on.
    """
    if unknown := set(counts) - set(PARTS):
        raise ValueError(f"{', '.join(sorted(unknown))} cannot be made; needed parts among {', '.join(PARTS)}")
    settings = {"seed": seed, "problem": problem.to_json()}
    SettingsGuard(folder / SETTINGS).remember(settings)
    for path in tqdm(
        mesh_files(folder, counts)[share[0] :: share[1]],
        desc="solving",
        unit="mesh",
        disable=None if progress else True,
    ):
        part, _, finer = path.parent.name.partition("_")
        if not path.exists():
            chosen = replace(problem, spacing=problem.spacing / 2) if finer == "fine" else problem
            write_mesh(path, chosen.solve(simulation_seed(seed, part, int(path.stem))))


def mesh_files(folder: Path, counts: dict[str, int]) -> list[Path]:
    """The files of a whole data set."""
    return [folder / part / f"{number:05d}.vtu" for part, count in counts.items() for number in range(count)]


def distance(x: Points, discs: Discs) -> Float64[np.ndarray, " point"]:
    """From each point to the boundary; negative inside a disc."""
    walls = np.minimum(x, 1 - x).min(axis=1)
    holes = np.linalg.norm(x[:, None] - discs[None, :, :2], axis=2) - discs[:, 2]
    return np.minimum(walls, holes.min(axis=1, initial=np.inf))


def triangulate(discs: Discs, spacing: float) -> Mesh:
    """Vertices on walls and circles, a hexagonal pattern between them, Delaunay's triangles outside the discs."""
    from scipy.spatial import Delaunay  # slow to import

    vertices = np.concatenate([_walls(spacing), *(_circle(disc, spacing) for disc in discs), _inside(discs, spacing)])
    triangles = Delaunay(vertices).simplices
    corners = vertices[triangles]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    keep = (distance(corners.mean(axis=1), discs) > 0) & (area > 1e-3 * spacing**2)
    used, triangles = np.unique(triangles[keep], return_inverse=True)
    return Mesh(torch.from_numpy(vertices[used]), torch.from_numpy(triangles.reshape(-1, 3)))


def _walls(spacing: float) -> Points:
    side = np.linspace(0, 1, round(1 / spacing) + 1)
    floor, corner = np.stack([side, 0 * side], axis=1), np.ones(2)
    return np.concatenate([floor, corner - floor, floor[1:-1, ::-1], corner - floor[1:-1, ::-1]])


def _circle(disc: Float64[np.ndarray, " x_y_radius"], spacing: float) -> Points:
    x, y, radius = disc
    count = max(8, round(2 * np.pi * radius / spacing))
    angles = 2 * np.pi * np.arange(count) / count
    return np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1)


def _inside(discs: Discs, spacing: float) -> Points:
    step = spacing * np.sqrt(3) / 2
    column, row = np.meshgrid(np.arange(0, 1 + spacing, spacing), np.arange(0, 1 + step, step))
    row_is_odd = np.arange(len(row))[:, None] % 2
    points = np.stack([column + row_is_odd * spacing / 2, row], axis=-1).reshape(-1, 2)
    return points[distance(points, discs) > 0.6 * spacing]


def solve_poisson(mesh: Mesh, source: Float64[np.ndarray, " vertex"]) -> Float64[np.ndarray, " vertex"]:
    """Linear finite elements, the source taken as linear on each triangle too; zero on the boundary."""
    skfem, models = library("skfem", extra="mesh"), library("skfem.models.poisson", extra="mesh")
    triangles = skfem.MeshTri(mesh.vertices.T.contiguous().numpy(), mesh.simplices.T.contiguous().numpy())
    basis = skfem.Basis(triangles, skfem.ElementTriP1())
    stiffness, masses = models.laplace.assemble(basis), models.mass.assemble(basis)
    solution: Float64[np.ndarray, " vertex"] = skfem.solve(
        *skfem.condense(stiffness, masses @ source, D=mesh.boundary().numpy())
    )
    return solution
