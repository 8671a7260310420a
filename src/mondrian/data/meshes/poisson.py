r"""Poisson's equation on squares with holes, each with a mesh of its own.

$$-\Delta u = f \text{ in } \Omega = [0, 1]^2 \setminus \text{discs}, \qquad u = 0 \text{ on } \partial\Omega$$

with a source of a few waves; a model sees the source and the distance to the boundary at the vertices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from tqdm import tqdm

from mondrian.data.seeds import simulation_seed
from mondrian.data.solvers.poisson import Discs, distance, solve_poisson, triangulate
from mondrian.points.mesh import Mesh, write_mesh
from mondrian.support.settings_guard import SettingsGuard
from mondrian.support.spec import Spec

SETTINGS = "poisson.json"
PARTS = ("train", "valid", "test", "test_fine")
GAP = 0.12  # at least, between discs and from them to the walls
WAVES = 6


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


@dataclass(frozen=True)
class SimulatedMeshes:
    """So many problems for each part, on meshes of their own."""

    problem: PerforatedPoisson
    counts: Mapping[str, int]
    seed: int = 0

    @property
    def count(self) -> int:
        """Number of problems, of all parts together."""
        return sum(self.counts.values())

    def write(self, folder: Path, *, share: tuple[int, int] = (0, 1), progress: bool = False) -> None:
        """Solve the problems that are missing."""
        write_poisson(folder, self.problem, self.counts, seed=self.seed, share=share, progress=progress)

    def files(self, folder: Path) -> list[Path]:
        """All files of the complete data set."""
        return mesh_files(folder, self.counts)

    def summary(self, folder: Path) -> str:
        """Meshes of each part."""
        return f"{', '.join(f'{part} {count}' for part, count in self.counts.items())} meshes"

    def is_recorded(self, folder: Path) -> bool:
        """Files are whole once they are there."""
        return True


def write_poisson(
    folder: Path,
    problem: PerforatedPoisson,
    counts: Mapping[str, int],
    *,
    seed: int = 0,
    share: tuple[int, int] = (0, 1),
    progress: bool = False,
) -> None:
    """Solve so many problems for each part and write them to `folder/<part>/00000.vtu` and so on.

    Existing files are kept, so an interrupted call resumes. The part `test_fine` has the domains and sources of
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


def mesh_files(folder: Path, counts: Mapping[str, int]) -> list[Path]:
    """The files of a whole data set."""
    return [folder / part / f"{number:05d}.vtu" for part, count in counts.items() for number in range(count)]
