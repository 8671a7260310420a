"""Draw the pictures of the tutorials: docs/images/tutorial_*.png, from the programs that stand in the pages.

python docs/draw/tutorials.py [own_data] [meshes] [processes] [own_operator]

Without names all of them. Two are trained for: some minutes each, on one core, in runs/tutorials.
"""

import io
import re
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.patches import Rectangle
from PIL import Image

from mondrian import GlobalAttention, Midpoint, NeighborhoodAttention, WindowedAttention
from mondrian.decomposition import Lattice
from mondrian.quadrature import Cell
from mondrian.rollout import rollout
from mondrian.training import Run, train

DOCS = Path(__file__).parents[1]
RUNS = Path("runs/tutorials")
COLOURS = 128  # of a picture
OWN, RECEIVED, INK = "#1f5fa8", "#f2b705", "0.35"


def program(page: str, number: int = 0) -> dict[str, Any]:
    """What the functions of a tutorial are called: the definitions of its program of that number."""
    text = (DOCS / "tutorials" / page).read_text(encoding="utf-8")
    code = re.findall(r"^```python[^\n]*\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)[number]
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(re.split(r"^(?:np\.save|for number)", code, maxsplit=1, flags=re.MULTILINE)[0])
    return runpy.run_path(file.name)


def scale(limit: float, *, error: bool) -> dict[str, Any]:
    """Colours of a field of that size, or of an error, whose scale ends at a quarter of it."""
    if error:
        return {"cmap": "magma", "vmin": 0, "vmax": limit / 4}
    return {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}


def own_data() -> plt.Figure:
    """A rollout at three times the resolution of training."""
    simulate = program("own_data.md")["simulate"]
    RUNS.mkdir(parents=True, exist_ok=True)
    np.save(RUNS / "waves.npy", simulate(40, points=32))
    reader = f"{{spec: ArrayFile, path: {RUNS}/waves.npy, axes: [simulation, time, space, space], "
    reader += "extent: [1.0, 1.0], periodic: [true, true]}"
    if not (RUNS / "waves/artefact").exists():
        words = ["data=files", "scale=cpu", "max_steps=400", "validate_every=100", "model.cell_points=[4,4]"]
        train("custom", *words, "data.input=[u]", "data.target=[u]", f"data.reader={reader}", f"run={RUNS}/waves")
    truth = torch.from_numpy(simulate(1, points=96, seed=1))
    with torch.no_grad():
        forecast = rollout(Run.open(RUNS / "waves").surrogate(), truth[:, :1], applications=5)[0]
    truth = truth[0, 1:]
    figure, axes = plt.subplots(3, 5, figsize=(8, 5), layout="constrained")
    rows = {"truth": truth, "forecast": forecast, "absolute error": (forecast - truth).abs()}
    limit = truth.abs().max().item()
    for row, (name, fields) in zip(axes, rows.items(), strict=True):
        colours = scale(limit, error="error" in name)
        for frame, (ax, field) in enumerate(zip(row, fields, strict=True)):
            shown = ax.imshow(field.T, origin="lower", **colours)
            ax.set_xticks([])
            ax.set_yticks([])
            if name == "truth":
                ax.set_title(f"step {frame + 1}", fontsize=9)
        row[0].set_ylabel(name, fontsize=9)
        figure.colorbar(shown, ax=row, shrink=0.8).ax.tick_params(labelsize=7)
    return figure


def meshes() -> plt.Figure:
    """Three ellipses: source, exact solution, prediction, error."""
    from mondrian.meshes.prediction import predict_on

    from mondrian.points import write_mesh
    from mondrian.prediction import load_model

    ellipse = program("meshes.md")["ellipse"]
    for number in range(200):
        if not (file := RUNS / f"ellipses_files/{number:03}.vtu").exists():
            write_mesh(file, ellipse(number))
    if not (RUNS / "ellipses/artefact").exists():
        words = ["data=meshes", "scale=cpu", "max_steps=600", "validate_every=100", "checkpoint_every=100"]
        box = "data.box={spec: Grid, extent: [2.0, 2.0], origin: [-1.0, -1.0]}"
        fields = ("data.input=[source,distance]", "data.target=[u]", f"data.path={RUNS}/ellipses_files")
        train("meshes", *words, box, *fields, f"run={RUNS}/ellipses")
    model = load_model(str(RUNS / "ellipses"))
    figure, axes = plt.subplots(3, 4, figsize=(8, 5.4), layout="constrained")
    for row, seed in zip(axes, (1000, 1003, 1006), strict=True):
        mesh = ellipse(seed, spacing=0.08)
        truth, predicted = mesh.fields["u"], predict_on(model, mesh)["u"]
        limit = truth.abs().max().item()
        panels = {"source": mesh.fields["source"], "exact solution": truth, "prediction": predicted}
        panels |= {"absolute error": (predicted - truth).abs()}
        for ax, (name, values) in zip(row, panels.items(), strict=True):
            bound = values.abs().max().item() if name == "source" else limit
            colours = scale(bound, error="error" in name)
            shown = ax.tripcolor(*mesh.vertices.T, mesh.simplices, values, shading="gouraud", **colours)
            ax.set_aspect("equal")
            ax.set_axis_off()
            figure.colorbar(shown, ax=ax, shrink=0.7).ax.tick_params(labelsize=6)
            if seed == 1000:
                ax.set_title(name, fontsize=9)
    return figure


def processes() -> plt.Figure:
    """The rows of subdomains that the second of four ranks holds, and those whose keys and values it receives."""
    lattice = Lattice((8, 8), (False, False))
    patterns = {
        "neighbourhoods of radius 1": NeighborhoodAttention(radius=1),
        "windows of 4 x 4, shifted by 2": WindowedAttention(window=(4, 4), shift=(2, 2)),
        "global attention": GlobalAttention(),
    }
    figure, axes = plt.subplots(1, 3, figsize=(8, 3), layout="constrained")
    rank, rows = 1, lattice.positions()[:, 0]
    own = rows // 2 == rank
    for ax, (name, pattern) in zip(axes, patterns.items(), strict=True):
        sees = pattern.in_block(1).sees(lattice)
        received = sees[own].any(dim=0) & ~own
        whole_rows = {int(row) for row in rows[received]}
        for cell, (i, j) in enumerate(lattice.positions().tolist()):
            colour = OWN if own[cell] else RECEIVED if i in whole_rows else "white"
            ax.add_patch(Rectangle((j, 7 - i), 1, 1, fc=colour, ec=INK, lw=0.5))
        for cut in range(0, 9, 2):
            ax.axhline(cut, color="k", lw=1.6)
        for number in range(4):
            ax.text(-0.3, 7 - 2 * number, f"rank {number}", ha="right", va="center", fontsize=8)
        ax.set(xlim=(-2.2, 8.1), ylim=(-0.1, 8.1), aspect="equal")
        ax.set_axis_off()
        ax.set_title(name, fontsize=9)
    figure.supxlabel("blue: held by rank 1; yellow: keys and values that it receives", fontsize=9)
    return figure


def own_operator() -> plt.Figure:
    """The error of the tutorial's operator against the number of points."""
    sys.modules.pop("my_operators", None)
    smoothing = program("own_operator.md")["Smoothing"]
    torch.manual_seed(0)
    operator = smoothing().build(1, 1, dim=1).double()

    def output(n: int) -> torch.Tensor:
        cell = Cell.build((n,), Midpoint(), dtype=torch.float64)
        v = torch.sin(3 * cell.coordinates[:, 0] + 1)[None, None, None]
        return (operator(v, cell) * cell.weights).sum().detach()

    points = [4, 8, 16, 32, 64, 128]
    errors = [abs(output(n) - output(4096)).item() for n in points]
    figure, ax = plt.subplots(figsize=(4.6, 3), layout="constrained")
    ax.loglog(points, errors, "o-", color=OWN, label="mean output, against 4096 points")
    ax.loglog(points, [errors[0] * (points[0] / n) ** 2 for n in points], "--", color=INK, lw=1, label="second order")
    ax.set_xlabel("points of a subdomain", fontsize=9)
    ax.set_ylabel("error", fontsize=9)
    ax.set_xticks(points, map(str, points))
    ax.minorticks_off()
    ax.tick_params(labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=8, frameon=False)
    return figure


PICTURES: dict[str, Callable[[], plt.Figure]] = {
    "own_data": own_data,
    "meshes": meshes,
    "processes": processes,
    "own_operator": own_operator,
}


def main(names: list[str]) -> None:
    for name in names or PICTURES:
        figure = PICTURES[name]()
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=90)
        small = Image.open(drawn).convert("RGB").quantize(COLOURS)
        small.save(DOCS / f"images/tutorial_{name}.png", optimize=True)
        print(f"tutorial_{name}.png")


if __name__ == "__main__":
    main(sys.argv[1:])
