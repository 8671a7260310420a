"""Rollouts: field panels of their frames, and errors against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mondrian.drawing.planes import SIGNED, Limits, bar, draw_cuts, plane, show
from mondrian.drawing.style import colours, grid_lines, largest, new_figure, plain, styled
from mondrian.evaluation import Trajectories
from mondrian.evaluation.arrays import Frames
from mondrian.evaluation.statistics import Summary
from mondrian.grid import Grid

LARGEST_SHOWN = 2.0  # relative error at which the axis ends, unless all errors are larger
ROWS = ("truth", "prediction", "absolute error")
_CURVES = {"relative_l2": "relative L2 error", "correlation": "correlation with the truth"}


def picked(frames: Frames, columns: int = 6) -> Int[np.ndarray, " column"]:
    """The numbers of some frames, evenly spread over the rollout from the first to the last."""
    count = len(frames.times)
    return np.unique(np.linspace(0, count - 1, min(columns, count)).round().astype(int))


@styled
def draw_frames(
    frames: Frames, grid: Grid, subdomains: Sequence[int], *, sample: int = 0, channel: int = 0, columns: int = 6
) -> Figure:
    """Truth, prediction and absolute error in rows, with time to the right; in one dimension space-time diagrams."""
    truth, prediction = frames.truth[sample, :, channel], frames.prediction[sample, :, channel]
    error = np.abs(prediction - truth)
    if grid.dim == 1:
        return _draw_space_time(frames, grid, subdomains, (truth, prediction, error))
    chosen = picked(frames, columns)
    content = [[plane(values[step]) for step in chosen] for values in (truth, prediction, error)]
    common, of_error = Limits.of(content[0]), Limits.of_errors(content[2])
    shape = min(max(grid.extent[1] / grid.extent[0], 0.3), 3.0)
    figure = new_figure(1.5 * len(chosen) + 1.1, 1.5 * shape * len(ROWS) + 0.35, images=True)
    panels = figure.subplots(len(ROWS), len(chosen), squeeze=False)
    for rows, limits in (((0, 1), common), ((2,), of_error)):
        for row, column in product(rows, range(len(chosen))):
            image = show(panels[row][column], content[row][column], grid, limits, subdomains)
        bar(figure, image, panels[list(rows)].ravel().tolist(), limits, thinness=14 * len(rows))
    for ax, step in zip(panels[0], chosen, strict=True):
        ax.set_title(f"t = {frames.times[step]:.3g}")
    for row, name in zip(panels, ROWS, strict=True):
        row[0].set_ylabel(name)
    return figure


@styled
def draw_rollouts(series: Mapping[str, Trajectories], palette: Mapping[str, str] | None = None) -> Figure:
    """Error and correlation against time with intervals; a dotted line marks the correlation time."""
    figure = new_figure(8.6, 3.2)
    panels = figure.subplots(1, len(_CURVES))
    palette = palette or colours(series)
    for label, rollout in series.items():
        colour = palette[label]
        for ax, name in zip(panels, _CURVES, strict=True):
            _draw_curve(ax, rollout.times, getattr(rollout, name), label=label, colour=colour)
        until = rollout.correlation_time.mean
        if np.isfinite(until) and rollout.times and until <= rollout.times[-1]:
            panels[1].axvline(until, color=colour, linestyle=":", linewidth=1.1)
    for ax, name in zip(panels, _CURVES.values(), strict=True):
        ax.set_title(name, loc="left")
        ax.set_xlabel("time")
        grid_lines(ax)
    panels[0].set_ylim(0, _top([value for rollout in series.values() for value in rollout.relative_l2]))
    panels[1].set_ylim(top=1.02)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(series)))
    return figure


def _top(errors: Sequence[Summary]) -> float:
    """The end of the error axis: diverging curves are cut off so that others can be read."""
    least = min((value.mean for value in errors if value.mean > 0), default=0.0)
    highest = largest(end for value in errors for end in (value.mean, value.high))
    return min(1.05 * highest, max(LARGEST_SHOWN, 2 * least))


def _draw_curve(ax: Axes, times: Sequence[float], curve: Sequence[Summary], *, label: str, colour: str) -> None:
    if not curve:
        return
    low, mean, high = (np.array([getattr(value, end) for value in curve]) for end in ("low", "mean", "high"))
    ax.plot(times, mean, color=colour, label=plain(label), marker="o" if len(times) < 3 else "")
    ax.fill_between(np.asarray(times), low, high, color=colour, alpha=0.2, linewidth=0)


def _draw_space_time(frames: Frames, grid: Grid, subdomains: Sequence[int], content: Sequence[np.ndarray]) -> Figure:
    times = frames.times
    step = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 1.0
    left, width = grid.origin[0], grid.extent[0]
    extent = (left, left + width, times[0] - step / 2, times[-1] + step / 2)
    figure = new_figure(9.2, 3.4)
    panels = figure.subplots(1, len(ROWS), sharey=True)
    for columns, limits in (((0, 1), Limits.of(content[:1])), ((2,), Limits.of_errors(content[2:]))):
        ends = {"cmap": limits.map, "vmin": limits.low, "vmax": limits.high}
        for column in columns:
            ax = panels[column]
            image = ax.imshow(content[column], origin="lower", extent=extent, aspect="auto", **ends)
            draw_cuts(ax, grid, subdomains, colour="black" if limits.map is SIGNED else "white")
            ax.set_title(ROWS[column])
            ax.set_xlabel("x")
        bar(figure, image, panels[list(columns)].tolist(), limits)
    panels[0].set_ylabel("time")
    return figure
