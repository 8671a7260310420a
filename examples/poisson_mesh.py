"""Poisson's equation on perforated squares, each with holes and a mesh of its own: learned and plotted on triangles.

  python examples/poisson_mesh.py [--partition metis] [--no-stagger] [--meshes 384] [--steps 1000] [--folder DIR]

-u_xx - u_yy = f with u = 0 on all boundaries, solved with scikit-fem. The model sees f and the distance to the
boundary at the vertices. It is tried on new domains, with meshes as fine as in training and twice as fine. Without
arguments it takes some minutes on one core. It needs `pip install -c constraints.txt -e '.[mesh]'`.
"""

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
import torch
from scipy.spatial import Delaunay
from skfem import Basis, ElementTriP1, MeshTri, condense, solve
from skfem.models.poisson import laplace, mass
from tqdm import tqdm

from mondrian import Grid
from mondrian.points import Boxes, Mesh, MetisParts, Placement, PointOperator, PointSet, point_no

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SQUARE = Grid(extent=(1.0, 1.0))


@dataclass(frozen=True)
class Problem:
    """A domain (the unit square without discs), a source, and the solution on one mesh."""

    mesh: Mesh
    points: PointSet
    inputs: torch.Tensor  # source, distance to the boundary
    solution: torch.Tensor


def distance(x: np.ndarray, discs: np.ndarray) -> np.ndarray:
    """From each point to the boundary; negative inside a disc. A disc is (x, y, radius)."""
    walls = np.minimum(x, 1 - x).min(axis=1)
    holes = np.linalg.norm(x[:, None] - discs[None, :, :2], axis=2) - discs[:, 2]
    return np.minimum(walls, holes.min(axis=1, initial=np.inf))


def triangulate(discs: np.ndarray, spacing: float) -> Mesh:
    """Vertices on walls and circles, a hexagonal pattern between them, Delaunay's triangles outside the discs."""
    side = np.linspace(0, 1, round(1 / spacing) + 1)
    floor, corner = np.stack([side, 0 * side], axis=1), np.ones(2)
    walls = [floor, corner - floor, floor[1:-1, ::-1], corner - floor[1:-1, ::-1]]
    circles = []
    for x, y, radius in discs:
        angles = 2 * np.pi * np.arange(count := max(8, round(2 * np.pi * radius / spacing))) / count
        circles.append(np.stack([x + radius * np.cos(angles), y + radius * np.sin(angles)], axis=1))
    step = spacing * np.sqrt(3) / 2
    column, row = np.meshgrid(np.arange(0, 1 + spacing, spacing), np.arange(0, 1 + step, step))
    row_is_odd = np.arange(len(row))[:, None] % 2
    inside = np.stack([column + row_is_odd * spacing / 2, row], axis=-1).reshape(-1, 2)
    inside = inside[distance(inside, discs) > 0.6 * spacing]
    vertices = np.concatenate([*walls, *circles, inside])
    triangles = Delaunay(vertices).simplices
    corners = vertices[triangles]
    a, b = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    area = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]) / 2
    keep = (distance(corners.mean(axis=1), discs) > 0) & (area > 1e-3 * spacing**2)
    used, triangles = np.unique(triangles[keep], return_inverse=True)
    return Mesh(torch.from_numpy(vertices[used]), torch.from_numpy(triangles.reshape(-1, 3)))


def solve_poisson(mesh: Mesh, source: np.ndarray) -> np.ndarray:
    """Linear finite elements, the source taken as linear on each triangle too; zero on the boundary."""
    basis = Basis(MeshTri(mesh.vertices.T.contiguous().numpy(), mesh.simplices.T.contiguous().numpy()), ElementTriP1())
    stiffness, masses = laplace.assemble(basis), mass.assemble(basis)
    return solve(*condense(stiffness, masses @ source, D=mesh.boundary().numpy()))


def problem(seed: int, spacing: float) -> Problem:
    """One to three discs that do not touch each other or the walls, a source made of waves; a function of the seed."""
    random = np.random.default_rng(seed)
    discs: list[np.ndarray] = []
    for _ in range(random.integers(1, 4)):
        for _ in range(100):
            radius = random.uniform(0.06, 0.16)
            centre = random.uniform(radius + 0.12, 1 - radius - 0.12, 2)
            if all(np.linalg.norm(centre - other[:2]) > radius + other[2] + 0.12 for other in discs):
                discs.append(np.array([*centre, radius]))
                break
    waves = random.integers(-2, 3, (6, 2)) * np.pi
    amplitudes, phases = random.standard_normal(6), random.uniform(0, 2 * np.pi, 6)
    mesh = triangulate(np.array(discs), spacing)
    x = mesh.vertices.numpy()
    source = (amplitudes * np.sin(x @ waves.T + phases)).sum(axis=1)
    inputs = np.stack([source, 10 * distance(x, np.array(discs)).clip(0)])
    solution = solve_poisson(mesh, source)
    return Problem(
        mesh, mesh.point_set(SQUARE), torch.from_numpy(inputs).float(), torch.from_numpy(solution)[None].float()
    )


def relative_errors(outputs: list[torch.Tensor], problems: list[Problem]) -> torch.Tensor:
    """Squared L2 norm of the error over that of the solution, by the quadrature of each mesh."""
    ratios = []
    for output, truth in zip(outputs, problems, strict=True):
        weights = truth.points.weights.float()
        ratios.append(((output - truth.solution) ** 2 * weights).sum() / (truth.solution**2 * weights).sum())
    return torch.stack(ratios)


def train(model: PointOperator, problems: list[Problem], scale: float, *, steps: int, batch: int) -> None:
    """Random batches of meshes of different sizes; each mesh is cut once."""
    partitions = [model.spec.partition.cut(p.points) for p in tqdm(problems, desc="cutting meshes")]
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    warmup = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / warmup) * (1 + math.cos(math.pi * step / steps)) / 2
    )
    bar = tqdm(range(steps), desc="training")
    for step in bar:
        chosen = torch.randint(len(problems), (batch,)).tolist()
        outputs = model([problems[i].inputs for i in chosen], Placement.of([partitions[i] for i in chosen]))
        loss = relative_errors([scale * u for u in outputs], [problems[i] for i in chosen]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        if step % 20 == 0:
            bar.set_postfix(error=f"{loss.item() ** 0.5:.3f}")


def predict(model: PointOperator, problems: list[Problem], scale: float) -> list[torch.Tensor]:
    with torch.no_grad():
        return [scale * u for p in problems for u in model([p.inputs], [p.points])]


def colours(mesh: Mesh, members: torch.Tensor) -> np.ndarray:
    """A colour for each vertex, the same within a cell, another one in the cells beside it."""
    beside: dict[int, set[int]] = {cell: set() for cell in members.tolist()}
    for first, second in members[mesh.edges()].tolist():
        beside[first].add(second)
        beside[second].add(first)
    chosen: dict[int, int] = {}
    for cell in sorted(beside):
        taken = {chosen.get(other) for other in beside[cell] - {cell}}
        chosen[cell] = next(colour for colour in range(len(beside)) if colour not in taken)
    return np.array([chosen[cell] for cell in members.tolist()])


def draw(model: PointOperator, rows: list[tuple[Problem, torch.Tensor]], path: Path) -> None:
    """A row a mesh: its cells, the source, the solution, the prediction, the absolute error."""
    figure, axes = plt.subplots(len(rows), 5, figsize=(15, 3 * len(rows)), squeeze=False, layout="constrained")
    for row, (truth, output) in zip(axes, rows, strict=True):
        x, y = truth.mesh.vertices.numpy().T
        triangles = truth.mesh.simplices.numpy()
        members = model.spec.partition.cut(truth.points).members
        row[0].triplot(x, y, triangles, color="0.7", linewidth=0.3)
        row[0].scatter(x, y, c=colours(truth.mesh, members), s=24 * 300 / len(x), cmap="tab10", vmin=0, vmax=9)
        row[0].set_title(f"{len(x)} vertices, {len(members.unique())} cells")
        solution, prediction = truth.solution[0].numpy(), output[0].numpy()
        top = np.abs(solution).max()
        pictures = [
            ("source", truth.inputs[0].numpy(), "RdBu_r", None),
            ("finite elements", solution, "RdBu_r", top),
            ("model", prediction, "RdBu_r", top),
            ("absolute error", np.abs(prediction - solution), "magma", None),
        ]
        for axis, (title, values, colour_map, limit) in zip(row[1:], pictures, strict=True):
            low = 0 if colour_map == "magma" else -(limit or np.abs(values).max())
            shown = axis.tripcolor(
                x, y, triangles, values, cmap=colour_map, vmin=low, vmax=limit or values.max(), shading="gouraud"
            )
            figure.colorbar(shown, ax=axis, shrink=0.8)
            axis.set_title(title)
        for axis in row:
            axis.set_aspect("equal")
            axis.set_axis_off()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--partition", choices=["boxes", "metis"], default="boxes")
    parser.add_argument("--stagger", action=argparse.BooleanOptionalAction, default=True, help="with boxes only")
    parser.add_argument("--meshes", type=int, default=384)
    parser.add_argument("--tests", type=int, default=32)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--spacing", type=float, default=0.06)
    parser.add_argument("--folder", type=Path, default=Path("runs/poisson_mesh"))
    arguments = parser.parse_args()
    torch.manual_seed(0)

    problems = [problem(seed, arguments.spacing) for seed in tqdm(range(arguments.meshes), desc="solving")]
    tests = {
        "as in training": [problem(10**6 + i, arguments.spacing) for i in range(arguments.tests)],
        "twice as fine": [problem(10**6 + i, arguments.spacing / 2) for i in range(arguments.tests)],
    }
    scale = torch.cat([p.solution[0] for p in problems]).std().item()
    model = point_no(
        in_channels=2,
        out_channels=1,
        hidden_channels=arguments.channels,
        partition=Boxes((5, 5)) if arguments.partition == "boxes" else MetisParts(parts=25),
        stagger=arguments.stagger and arguments.partition == "boxes",
    )
    train(model, problems, scale, steps=arguments.steps, batch=arguments.batch)
    model.eval()

    rows = []
    for name, cases in tests.items():
        outputs = predict(model, cases, scale)
        errors = relative_errors(outputs, cases).sqrt()
        vertices = np.mean([p.points.size for p in cases])
        print(f"{name}: {vertices:.0f} vertices, relative L2 error {errors.mean():.4f}, worst {errors.max():.4f}")
        rows.append((cases[0], outputs[0]))
    picture = arguments.folder / f"poisson_{arguments.partition}.png"
    draw(model, rows, picture)
    model.save_pretrained(arguments.folder / f"model_{arguments.partition}")
    print(f"see {picture}")


if __name__ == "__main__":
    main()
