"""Draw docs/images/packages.svg, the rooms and their imports, and docs/images/forward.svg, a forward pass.

python docs/draw/architecture.py

The imports are those of the source, as `tests/test_architecture.py` reads them.
"""

import runpy
from graphlib import TopologicalSorter
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from mondrian import Decomposition, Grid

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs/images"
INK, LINE = "#22303c", "#7a8894"
COLOURS = {  # of groups of rooms, from the physics to the commands
    "geometry": ("#d9ead3", ("support", "grid", "decomposition", "lattice", "quadrature", "polynomials", "points")),
    "networks": (
        "#cfe2f3",
        ("operators", "attention", "resampling", "layers", "models", "artefact", "surrogate", "parallel"),
    ),
    "data and training": ("#fff2cc", ("data", "settings", "training", "losses", "metrics", "rollout")),
    "what users do": ("#f4cccc", ()),  # the rest
}


def colour(room: str) -> str:
    """Of the group of a room."""
    return next((colour for colour, rooms in COLOURS.values() if room in rooms), COLOURS["what users do"][0])


def imports() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    architecture = runpy.run_path(str(ROOT / "tests/test_architecture.py"))
    graph: dict[str, set[str]] = {room: set() for room in architecture["rooms"]()}
    for _, _, room, other in architecture["edges"]():
        graph[room].add(other)
    return graph


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph without the edges that follow from others."""
    below: dict[str, set[str]] = {}
    for room in TopologicalSorter(graph).static_order():
        below[room] = {other for near in graph.get(room, ()) for other in below[near] | {near}}
    return {room: {o for o in near if not any(o in below[b] for b in near)} for room, near in graph.items()}


def levels(graph: dict[str, set[str]]) -> list[list[str]]:
    """Rooms from the lowest up: each as high as what imports it allows, and the command line on top."""
    importers = {room: {other for other in graph if room in graph[other]} for room in graph}
    height: dict[str, int] = {}
    for room in TopologicalSorter(importers).static_order():
        height[room] = min((height[other] for other in importers[room]), default=0) - 1
    height["cli"] = 0  # it finds its commands by their names
    return [[room for room in graph if height[room] == level] for level in range(min(height.values()), 1)]


def packages() -> plt.Figure:
    """A box for each room, an arrow for each import that does not follow from others; what imports stands above."""
    graph = imports()
    rows, near = levels(graph), reduced(graph) | {"cli": {"commands"}}
    places: dict[str, tuple[float, float]] = {}
    for level, row in enumerate(rows):
        centre = {room: sum(places[o][0] for o in near[room]) / max(len(near[room]), 1) for room in row}
        for number, room in enumerate(sorted(row, key=lambda room: centre[room])):
            places[room] = ((number - (len(row) - 1) / 2) * 2.5 + 0.35 * (-1) ** level, level * 1.0)
    width = max(abs(x) for x, _ in places.values()) + 1.4
    figure, ax = plt.subplots(figsize=(9, 0.62 * len(rows) + 0.8))
    for room, others in near.items():
        for other in others:
            (x, y), (u, v) = places[room], places[other]
            style = {"arrowstyle": "-|>", "color": LINE, "lw": 0.7, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", xy=(u, v + 0.26), xytext=(x, y - 0.26), arrowprops=style, zorder=1)
    for room, (x, y) in places.items():
        box(ax, x, y, 1.9, 0.52, room, colour(room))
    for number, (name, (fill, _)) in enumerate(COLOURS.items()):
        box(ax, -width + 1.5 + 2.9 * number, -1.1, 2.5, 0.42, name, fill, edge="none")
    ax.set(xlim=(-width, width), ylim=(-1.5, len(rows) - 0.4))
    ax.set_axis_off()
    return figure


def box(ax: Axes, x: float, y: float, width: float, height: float, text: str, fill: str, *, edge: str = INK) -> None:
    """A box with a text in its middle."""
    shape = FancyBboxPatch((x - width / 2, y - height / 2), width, height, boxstyle="round,pad=0,rounding_size=0.1")
    shape.set(fc=fill, ec=edge, lw=0.8, zorder=2)
    ax.add_patch(shape)
    ax.text(x, y, text, ha="center", va="center", fontsize=8.5, color=INK, zorder=3)


def step(ax: Axes, x: float, y: float, text: str, file: str, fill: str, *, width: float = 2.4) -> None:
    """A step of the forward pass, and the file that takes it."""
    box(ax, x, y, width, 0.62, text, fill)
    ax.text(x, y - 0.5, file, ha="center", va="center", fontsize=7, color=LINE, family="monospace")


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], text: str = "") -> None:
    """An arrow, with the shape of what goes along it."""
    ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 0.9})
    ax.text((start[0] + end[0]) / 2, start[1] + 0.22, text, ha="center", fontsize=7, color=INK)


def thumbnail(ax: Axes, x: float, y: float, u: torch.Tensor, *, cuts: int, title: str) -> None:
    """A field with its cuts."""
    ax.imshow(u.T, origin="lower", extent=(x - 0.8, x + 0.8, y - 0.8, y + 0.8), cmap="RdBu_r", vmin=-1.2, vmax=1.2)
    for cut in range(cuts + 1):
        place = -0.8 + 1.6 * cut / cuts
        ax.plot([x + place] * 2, [y - 0.8, y + 0.8], color="w", lw=1.2)
        ax.plot([x - 0.8, x + 0.8], [y + place] * 2, color="w", lw=1.2)
    ax.text(x, y + 0.98, title, ha="center", fontsize=8.5, color=INK)


def cells(ax: Axes, x: float, y: float, u: torch.Tensor, title: str) -> None:
    """The functions on the cells, side by side on one reference cell each."""
    level = Decomposition(Grid((1.0, 1.0), points=(64, 64)), (4, 4))
    parts = level.cut(u[None, None])[0, :, 0].unflatten(-1, (16, 16))
    for number, part in enumerate(parts[[0, 1, 2, 15]]):
        left = x - 1.05 + 0.52 * number + (0.2 if number == 3 else 0)
        ax.imshow(
            part.T, origin="lower", extent=(left, left + 0.44, y - 0.22, y + 0.22), cmap="RdBu_r", vmin=-1.2, vmax=1.2
        )
    ax.text(x + 0.55, y - 0.06, "...", ha="center", fontsize=8)
    ax.text(x, y + 0.36, title, ha="center", fontsize=8.5, color=INK)


def forward() -> plt.Figure:
    """From a field to a field: cut, lift, blocks, projection, join."""
    physics, network = COLOURS["geometry"][0], COLOURS["networks"][0]
    x, y = Grid((1.0, 1.0), points=(64, 64)).coordinates()
    u = torch.tanh(4 * (torch.sin(5 * x + 2 * y) * torch.cos(5 * y - x) + 0.2 * y))
    v = torch.tanh(3 * torch.sin(4 * x + 1) * torch.cos(4 * y))
    figure, ax = plt.subplots(figsize=(9, 5.4))
    thumbnail(ax, 1, 6, u, cuts=4, title="input u")
    step(ax, 4, 6, "resample, cut", "resampling, decomposition", physics)
    cells(ax, 7.2, 6, u, "functions on one cell")
    step(ax, 10.4, 6, "lift", "operators/", network)
    arrow(ax, (1.9, 6), (2.7, 6))
    arrow(ax, (5.3, 6), (6.1, 6))
    arrow(ax, (8.4, 6), (9.1, 6))
    ax.text(1, 4.95, "batch, channel, *space", ha="center", fontsize=7, family="monospace", color=LINE)
    ax.text(7.2, 5.5, "batch, cell, channel, point", ha="center", fontsize=7, family="monospace", color=LINE)
    arrow(ax, (10.4, 5.35), (10.4, 4.35))
    ax.text(10.6, 4.8, "+ position", fontsize=8, color=INK)
    ax.add_patch(
        FancyBboxPatch((0.0, 2.05), 12.0, 2.1, boxstyle="round,pad=0,rounding_size=0.15", fc="#f7f9fb", ec=LINE, lw=0.8)
    )
    ax.text(
        0.15,
        3.9,
        "n blocks (layers/block.py); staggered: every other one on cuts moved by half a cell",
        fontsize=8,
        color=INK,
    )
    chain = [
        ("norm", "layers/norm", 1.3),
        ("q, k, v", "operators/", 1.3),
        ("attention", "attention/", 1.6),
        ("output", "operators/", 1.3),
        ("norm", "layers/norm", 1.3),
        ("feed-forward", "operators/", 1.8),
    ]
    left = 11.6
    for number, (text, file, width) in enumerate(chain):
        centre = left - width / 2
        step(ax, centre, 3.1, text, file, network, width=width)
        left -= width + 0.42
        if number == 3:
            ax.text(left + 0.21, 3.1, "+", ha="center", va="center", fontsize=13, color=INK)
        elif number + 1 < len(chain):
            arrow(ax, (left + 0.4, 3.1), (left + 0.02, 3.1))
    ax.text(left + 0.1, 3.1, "+", ha="center", va="center", fontsize=13, color=INK)
    arrow(ax, (1.0, 1.95), (1.0, 0.95))
    step(ax, 1.4, 0.6, "projection", "operators/", network)
    cells(ax, 4.6, 0.6, v, "functions on one cell")
    step(ax, 7.8, 0.6, "join, resample", "decomposition, resampling", physics)
    thumbnail(ax, 10.9, 0.6, v, cuts=4, title="prediction y")
    arrow(ax, (2.7, 0.6), (3.45, 0.6))
    arrow(ax, (5.8, 0.6), (6.5, 0.6))
    arrow(ax, (9.1, 0.6), (10.0, 0.6))
    ax.set(xlim=(-0.1, 12.2), ylim=(-0.3, 7.3), aspect="equal")
    ax.set_axis_off()
    return figure


def main() -> None:
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "mondrian", "font.family": "sans-serif"})
    for name, draw in {"packages": packages, "forward": forward}.items():
        figure = draw()
        figure.savefig(IMAGES / f"{name}.svg", bbox_inches="tight", pad_inches=0.05, metadata={"Date": None})
        print(f"{name}.svg")


if __name__ == "__main__":
    main()
