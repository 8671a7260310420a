"""Meshes in their cells, input, truth, prediction and absolute error side by side, a row for each part of the test."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from mondrian.drawing.style import new_figure, plain, styled
from mondrian.evaluation.results import again
from mondrian.report.fields import MOST_INPUTS


@dataclass(frozen=True)
class MeshFields:
    """What `mondrian evaluate` kept of one mesh."""

    vertices: Float[np.ndarray, "vertex axis"]
    simplices: Int[np.ndarray, "simplex corner"]
    cells: Int[np.ndarray, " vertex"]
    input: Float[np.ndarray, "in_channel vertex"]
    truth: Float[np.ndarray, "out_channel vertex"]
    prediction: Float[np.ndarray, "out_channel vertex"]


def load_meshes(file: Path) -> dict[str, list[MeshFields]]:
    """The meshes of each part; `ValueError` naming the file where it is damaged."""
    try:
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        found: dict[str, list[MeshFields]] = {}
        for part, number in sorted({tuple(name.split("/")[:2]) for name in arrays}):
            fields = {name: arrays[f"{part}/{number}/{name}"] for name in MeshFields.__dataclass_fields__}
            found.setdefault(part, []).append(MeshFields(**fields))
        return found
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file} cannot be read: {error}; {again(file)}") from error


@styled
def draw_meshes(
    parts: Mapping[str, Sequence[MeshFields]],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    sample: int = 0,
    channel: int = 0,
) -> Figure:
    """One mesh of each part and one target channel. Meshes of two axes only."""
    rows = {part: meshes[sample] for part, meshes in parts.items()}
    inputs = inputs[:MOST_INPUTS]
    columns = len(inputs) + 4
    figure = new_figure(2.3 * columns, 1.85 * len(rows) + 0.25, images=True)
    panels = figure.subplots(len(rows), columns, squeeze=False)
    name = plain(outputs[channel])
    titles = ["cells", *(f"input {plain(each)}" for each in inputs), f"truth {name}", f"prediction {name}"]
    for (part, mesh), row in zip(rows.items(), panels, strict=True):
        for axes in row:
            axes.set_aspect("equal")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        truth, prediction = mesh.truth[channel], mesh.prediction[channel]
        _cells(row[0], mesh)
        row[0].set_ylabel(f"{part}, {len(mesh.vertices)} vertices")
        for axes, values in zip(row[1:-3], mesh.input, strict=False):
            _show(figure, axes, mesh, values, _range(values))
        for axes, values in zip(row[-3:-1], (truth, prediction), strict=True):
            _show(figure, axes, mesh, values, _range(truth))
        error = np.abs(prediction - truth)
        worst = float(np.max(error, initial=0.0, where=np.isfinite(error)))
        _show(figure, row[-1], mesh, error, (0.0, worst or 1.0), colours="magma")
    for axes, title in zip(panels[0], [*titles, "absolute error"], strict=True):
        axes.set_title(title)
    return figure


def _show(
    figure: Figure,
    axes: Axes,
    mesh: MeshFields,
    values: Float[np.ndarray, " vertex"],
    limits: tuple[float, float],
    *,
    colours: str = "RdBu_r",
) -> None:
    (x, y), (low, high) = mesh.vertices.T, limits
    image = axes.tripcolor(
        Triangulation(x, y, mesh.simplices),
        values,
        cmap=colours,
        vmin=low,
        vmax=high,
        shading="gouraud",
        rasterized=True,
    )
    figure.colorbar(image, ax=axes, shrink=0.8)


def _range(values: Float[np.ndarray, " vertex"]) -> tuple[float, float]:
    """Symmetric where a function has both signs, so that zero is white."""
    low, high = float(values.min()), float(values.max())
    top = max(abs(low), abs(high))
    return (-top, top) if low < 0 < high else (low, high)


def _cells(axes: Axes, mesh: MeshFields) -> None:
    """The vertices in the colours of their cells, cells beside each other in different ones."""
    x, y = mesh.vertices.T
    axes.triplot(x, y, mesh.simplices, color="0.7", linewidth=0.3)
    axes.scatter(x, y, c=_colouring(mesh), s=24 * 300 / len(x), cmap="tab10", vmin=0, vmax=9, rasterized=True)


def _colouring(mesh: MeshFields) -> Int[np.ndarray, " vertex"]:
    beside: dict[int, set[int]] = {cell: set() for cell in mesh.cells.tolist()}
    for corners in mesh.cells[mesh.simplices].tolist():
        for cell in corners:
            beside[cell].update(corners)
    chosen: dict[int, int] = {}
    for cell in sorted(beside):
        taken = {chosen.get(other) for other in beside[cell] - {cell}}
        chosen[cell] = next(colour for colour in range(len(beside)) if colour not in taken)
    return np.array([chosen[cell] for cell in mesh.cells.tolist()])
