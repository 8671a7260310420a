"""Field panels on grids: input, truth, prediction and absolute error, a row for each resolution."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mondrian.drawing.planes import Limits, bar, draw_cuts, plane, show
from mondrian.drawing.style import COLOURS, INK, grid_lines, new_figure, plain, styled
from mondrian.evaluation.arrays import Fields, Samples
from mondrian.report.resolutions import size

MOST_INPUTS = 3


@styled
def draw_fields(
    fields: Fields, inputs: Sequence[str], outputs: Sequence[str], *, sample: int = 0, channel: int = 0
) -> Figure:
    """One sample and one target channel at all resolutions; the panels of a column share one colour scale."""
    shown = varying_inputs(fields, inputs, outputs[channel])
    inputs, outputs = [plain(name) for name in inputs], [plain(name) for name in outputs]
    if fields.grid.dim == 1:
        return _draw_lines(fields, inputs, outputs, shown, sample, channel)
    rows = list(fields.one_step.items())
    columns = len(shown) + 3
    shape = min(max(fields.grid.extent[1] / fields.grid.extent[0], 0.3), 3.0)
    figure = new_figure(2.15 * columns + 0.3, 2.05 * shape * len(rows) + 0.95, images=True)
    panels = figure.subplots(len(rows), columns, squeeze=False)
    samples_of_rows = [of_one(samples, sample, channel) for _, samples in rows]
    content = [[plane(field) for field in (*(part[0][k] for k in shown), *part[1:])] for part in samples_of_rows]
    start = len(shown)
    # Columns that share a colour scale: each input by itself, truth with prediction, the error.
    shared = [([column], Limits.of([row[column] for row in content])) for column in range(start)]
    shared.append(([start, start + 1], Limits.of([row[start] for row in content])))
    shared.append(([start + 2], Limits.of_errors([row[-1] for row in content])))
    for group, limits in shared:
        for row, column in product(range(len(rows)), group):
            image = show(panels[row][column], content[row][column], fields.grid, limits, fields.subdomains)
        bar(figure, image, panels[:, group].ravel().tolist(), limits, thinness=22 * len(group), below=True)
    for (points, _), row, (*_, error) in zip(rows, panels, samples_of_rows, strict=True):
        row[0].set_ylabel(size(points))
        row[-1].set_xlabel(f"mean {np.mean(error):.2g}", fontsize=8, labelpad=3)
    name = outputs[channel]
    titles = [*(f"input {inputs[k]}" for k in shown), f"truth {name}", f"prediction {name}", "absolute error"]
    for ax, title in zip(panels[0], titles, strict=True):
        ax.set_title(title)
    return figure


def varying_inputs(fields: Fields, inputs: Sequence[str], target: str) -> list[int]:
    """The input channels with panels: the latest step of each field that varies in space, the target's field first."""
    last = {
        name.partition("[")[0]: channel
        for channel, name in enumerate(inputs)
        if not all(_constant(samples.input[:, channel]) for samples in fields.one_step.values())
    }
    own = target.partition("[")[0]
    return [last[name] for name in sorted(last, key=lambda name: name != own)][:MOST_INPUTS]


def constants(fields: Fields, inputs: Sequence[str], sample: int) -> str:
    """The inputs of a sample that are numbers: `gamma = 0.0012`."""
    samples = next(iter(fields.one_step.values()))
    numbers = {
        name: float(samples.input[sample, channel].flat[0])
        for channel, name in enumerate(inputs)
        if all(_constant(part.input[:, channel]) for part in fields.one_step.values())
    }
    return ", ".join(f"{name} = {value:.3g}" for name, value in numbers.items())


def of_one(samples: Samples, sample: int, channel: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, truth, prediction and absolute error of one sample."""
    truth, prediction = samples.truth[sample, channel], samples.prediction[sample, channel]
    return samples.input[sample], truth, prediction, np.abs(prediction - truth)


def _constant(values: np.ndarray) -> bool:
    flat = values.reshape(len(values), -1)
    return bool(np.all(flat == flat[:, :1]))


def _draw_lines(
    fields: Fields, inputs: Sequence[str], outputs: Sequence[str], shown: Sequence[int], sample: int, channel: int
) -> Figure:
    rows = list(fields.one_step.items())
    columns = len(shown) + 2
    figure = new_figure(3.1 * columns, 1.7 * len(rows) + 0.8)
    panels = figure.subplots(len(rows), columns, squeeze=False, sharex=True, sharey="col")
    name = outputs[channel]
    for (points, samples), row in zip(rows, panels, strict=True):
        x = fields.grid.with_points(points).axis(0).numpy()
        sources, truth, prediction, error = of_one(samples, sample, channel)
        for ax, k in zip(row, shown, strict=False):
            ax.plot(x, sources[k], color=COLOURS[2], linewidth=1.2)
        row[-2].plot(x, truth, color=INK, linewidth=1.2, label=f"truth {name}")
        row[-2].plot(x, prediction, color=COLOURS[1], linewidth=1.2, linestyle="--", label=f"prediction {name}")
        row[-1].plot(x, error, color=COLOURS[6], linewidth=1.2)
        row[-1].set_title(f"mean {np.mean(error):.2g}", fontsize=8, loc="right")
        row[0].set_ylabel(size(points) + " points")
        for ax in row:
            draw_cuts(ax, fields.grid, fields.subdomains)
            grid_lines(ax, axis="y")  # vertical lines are the cuts
    for ax, title in zip(panels[0], [*(f"input {inputs[k]}" for k in shown), name, "absolute error"], strict=True):
        ax.set_title(title, loc="left")
    _below(figure, panels[0][-2])
    return figure


def _below(figure: Figure, ax: Axes) -> None:
    handles, labels = ax.get_legend_handles_labels()
    fields = [(handle, label) for handle, label in zip(handles, labels, strict=True) if " " in label]
    figure.legend(*zip(*fields, strict=True), loc="outside lower center", ncols=2)
