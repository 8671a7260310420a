"""Previews of a few simulations: a PNG with one row per simulation, and a GIF of their frames.

Fields on a line are shown as space-time diagrams, fields in space by the middle slice of the last axis.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine

from mondrian.data.sources.base import Field, Source

COLOURS = "RdBu_r"


def write_preview(source: Source, folder: Path, *, name: str, simulations: int = 4, columns: int = 6) -> list[Path]:
    """Previews of the first field that changes: `NAME.png`, and `NAME.gif` for planes at more than two steps."""
    field = next(field for field in source.fields.values() if field.changes)
    count = min(simulations, len(source))
    files = [folder / f"{name}.png"]
    folder.mkdir(parents=True, exist_ok=True)
    on_a_line = source.grid.dim == 1
    figure = draw_space_time(source, field, count) if on_a_line else draw(source, field, count, columns)
    figure.savefig(files[0], dpi=110)
    if source.steps[0] > 2 and not on_a_line:
        files.append(folder / f"{name}.gif")
        _animate(source, field, count, files[1])
    return files


def draw(source: Source, field: Field, simulations: int, columns: int) -> Figure:
    """Field panels in one colour scale; time runs to the right, or down if there are few steps."""
    steps = min(source.steps[:simulations])
    shown = np.unique(np.linspace(0, steps - 1, min(columns, steps)).round().astype(int))
    values = [_values(field, simulation, steps)[shown] for simulation in range(simulations)]
    scale = float(max(np.abs(row).max() for row in values))
    down = len(shown) < simulations
    figure, axes = _figure(len(shown), simulations) if down else _figure(simulations, len(shown))
    for simulation, frames in enumerate(values):
        for index, frame in enumerate(frames):
            ax = axes[index][simulation] if down else axes[simulation][index]
            image = _show(ax, source, frame, scale)
    times, numbers = [f"t = {source.times[step]:.3g}" for step in shown], _numbers(source, simulations)
    above, beside = (numbers, times) if down else (times, numbers)
    for ax, text in zip(axes[0], above, strict=True):
        ax.set_title(text, fontsize=9)
    for row, text in zip(axes, beside, strict=True):
        row[0].set_ylabel(text, fontsize=9, labelpad=6)
    figure.colorbar(image, ax=[ax for row in axes for ax in row], pad=0.02).set_label(field.channels[0])
    return figure


def draw_space_time(source: Source, field: Field, simulations: int) -> Figure:
    """One panel per simulation: x to the right, time upwards."""
    steps = min(source.steps[:simulations])
    values = [_values(field, simulation, steps) for simulation in range(simulations)]
    scale = float(max(np.abs(rows).max() for rows in values))
    figure, (axes,) = _figure(1, simulations, size=2.4)
    (x,), (length,) = source.grid.origin, source.grid.extent
    extent = (x, x + length, source.times[0], source.times[steps - 1])
    for ax, rows, text in zip(axes, values, _numbers(source, simulations), strict=True):
        image = ax.imshow(rows, origin="lower", extent=extent, aspect="auto", cmap=COLOURS, vmin=-scale, vmax=scale)
        ax.set_xlabel("x", fontsize=9)
        ax.set_title(text, fontsize=9)
    axes[0].set_ylabel("t", fontsize=9)
    figure.colorbar(image, ax=axes, pad=0.02).set_label(field.channels[0])
    return figure


def _animate(source: Source, field: Field, simulations: int, path: Path) -> None:
    steps = min(source.steps[:simulations])
    values = [_values(field, simulation, steps) for simulation in range(simulations)]
    scale = float(max(np.abs(row).max() for row in values))
    figure, axes = _figure(1, simulations)
    images = [_show(ax, source, row[0], scale) for ax, row in zip(axes[0], values, strict=True)]

    def frame(step: int) -> list[AxesImage]:
        for image, row in zip(images, values, strict=True):
            image.set_data(row[step].T)
        axes[0][0].set_title(f"{field.channels[0]}, t = {source.times[step]:.2f}", fontsize=9, loc="left")
        return images

    partial = path.with_name(f".{path.stem}.partial.gif")
    FuncAnimation(figure, frame, frames=steps, blit=False).save(partial, writer=PillowWriter(fps=12), dpi=70)
    partial.replace(path)


def _figure(rows: int, columns: int, *, size: float = 1.6) -> tuple[Figure, list[list[Axes]]]:
    # not pyplot, which keeps a reference to every figure
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.04)
    figure = Figure(figsize=(size * columns + 1.2, size * rows + 0.4), layout=layout)
    FigureCanvasAgg(figure)
    return figure, [list(row) for row in figure.subplots(rows, columns, squeeze=False)]


def _show(ax: Axes, source: Source, values: Float[np.ndarray, "x y"], scale: float) -> AxesImage:
    (x, y), (width, height) = source.grid.origin[:2], source.grid.extent[:2]
    ax.set_xticks([])
    ax.set_yticks([])
    # axis 0 is x and points to the right, so the array is transposed
    return ax.imshow(
        values.T, origin="lower", extent=(x, x + width, y, y + height), cmap=COLOURS, vmin=-scale, vmax=scale
    )


def _values(field: Field, simulation: int, steps: int) -> Float[np.ndarray, "step ..."]:
    """The first channel over time, of a line or plane; in space, of the middle plane."""
    values = field.read(simulation, slice(0, steps))[:, 0].astype(np.float32)
    return values[..., values.shape[-1] // 2] if values.ndim > 3 else values


def _numbers(source: Source, simulations: int) -> list[str]:
    constant = [field for field in source.fields.values() if not field.changes]
    numbers = [
        {field.name: field.read(simulation, slice(0, 1)) for field in constant} for simulation in range(simulations)
    ]
    return [
        "\n".join(f"{name} = {values.item():.2g}" for name, values in of_one.items() if values.size == 1)
        for of_one in numbers
    ]
