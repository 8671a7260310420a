"""Field panels on meshes: cells, input, truth, prediction and absolute error, a row for each test part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from mondrian.drawing.style import new_figure, plain, styled
from mondrian.evaluation.arrays import read_arrays
from mondrian.evaluation.results import again
from mondrian.report.fields import MOST_INPUTS


@dataclass(frozen=True)
class MeshFields:
    """The arrays of one mesh in `fields.npz`."""

    vertices: Float[np.ndarray, "vertex axis"]
    simplices: Int[np.ndarray, "simplex corner"]
    cells: Int[np.ndarray, " vertex"]
    input: Float[np.ndarray, "in_channel vertex"]
    truth: Float[np.ndarray, "out_channel vertex"]
    prediction: Float[np.ndarray, "out_channel vertex"]


def are_of_meshes(arrays: Iterable[str]) -> bool:
    """Whether the names of some arrays are those of meshes."""
    return any(name.endswith("/simplices") for name in arrays)


def mesh_fields(file: Path) -> dict[str, list[MeshFields]]:
    """The meshes of each part; a `ValueError` names a damaged file."""
    arrays = read_arrays(file)
    try:
        parts: dict[str, list[MeshFields]] = {}
        for part, number in sorted({tuple(name.split("/")[:2]) for name in arrays}):
            fields = {name: arrays[f"{part}/{number}/{name}"] for name in MeshFields.__dataclass_fields__}
            parts.setdefault(part, []).append(MeshFields(**fields))
        return parts
    except (KeyError, TypeError, ValueError) as error:
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
    """One mesh of each part and one target channel; the meshes have two axes."""
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
    """The limits of the colours: symmetric for values of both signs, so that zero is white."""
    low, high = float(values.min()), float(values.max())
    top = max(abs(low), abs(high))
    return (-top, top) if low < 0 < high else (low, high)


def _cells(axes: Axes, mesh: MeshFields) -> None:
    """The vertices in the colours of their cells; neighbouring cells differ in colour."""
    x, y = mesh.vertices.T
    axes.triplot(x, y, mesh.simplices, color="0.7", linewidth=0.3)
    axes.scatter(x, y, c=_colouring(mesh), s=24 * 300 / len(x), cmap="tab10", vmin=0, vmax=9, rasterized=True)


def _colouring(mesh: MeshFields) -> Int[np.ndarray, " vertex"]:
    neighbours: dict[int, set[int]] = {cell: set() for cell in mesh.cells.tolist()}
    for corners in mesh.cells[mesh.simplices].tolist():
        for cell in corners:
            neighbours[cell].update(corners)
    colours: dict[int, int] = {}
    for cell in sorted(neighbours):
        used = {colours.get(other) for other in neighbours[cell] - {cell}}
        colours[cell] = next(colour for colour in range(len(neighbours)) if colour not in used)
    return np.array([colours[cell] for cell in mesh.cells.tolist()])
