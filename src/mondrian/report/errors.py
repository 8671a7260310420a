"""Errors by resolution: of a model and the baselines, or of several models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mondrian.drawing.style import COLOURS, FAINT, colours, grid_lines, logarithmic, new_figure, plain, styled
from mondrian.evaluation import Evaluation
from mondrian.evaluation.entries import Resolution
from mondrian.evaluation.statistics import Summary
from mondrian.evaluation.tables import TITLES
from mondrian.report.resolutions import in_order, name_of

Errors = Mapping[Resolution, Mapping[str, Summary]]
_MARKS: dict[str, Any] = {"markersize": 4.5, "capsize": 2.5, "elinewidth": 1.1}
BASELINES = {"persistence": ("persistence", FAINT), "training_mean": ("training mean", COLOURS[4])}


def of_one_run(evaluation: Evaluation) -> dict[str, Errors]:
    """The errors of the model and of the baselines that the evaluation has."""
    series: dict[str, Errors] = {"model": {entry.resolution: entry.model for entry in evaluation.one_step}}
    for name, (title, _) in BASELINES.items():
        rows = {entry.resolution: getattr(entry, name) for entry in evaluation.one_step}
        known = {resolution: row for resolution, row in rows.items() if row}
        if known:
            series[title] = known
    return series


def metric_names(rows: Iterable[Mapping[str, Summary]]) -> list[str]:
    """The metrics that occur, in the order of `TITLES` and then of appearance."""
    names = {name: None for row in rows for name in row}
    return [name for name in TITLES if name in names] + [name for name in names if name not in TITLES]


@styled
def draw_errors(series: Mapping[str, Errors], palette: Mapping[str, str] | None = None) -> Figure:
    """A panel for each metric: points with intervals over the resolutions, side by side, on a logarithmic axis."""
    names = metric_names(row for errors in series.values() for row in errors.values())
    columns = 2 if len(names) == 4 else min(len(names), 3)
    rows = -(-len(names) // columns)
    figure = new_figure(max(3.0 * columns, 4.4), 2.5 * rows + 0.4)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    resolutions = in_order(resolution for errors in series.values() for resolution in errors)
    palette = palette or {**colours(series), **dict(BASELINES.values())}
    for ax, name in zip(panels, names, strict=False):
        for number, (title, errors) in enumerate(series.items()):
            values = [errors.get(resolution, {}).get(name) for resolution in resolutions]
            known = [(x, value) for x, value in enumerate(values) if value is not None]
            shift = 0.14 * (number - (len(series) - 1) / 2) * min(1.0, 5 / len(series))
            x = np.array([x + shift for x, _ in known])
            mean = np.array([value.mean for _, value in known])
            interval = [[value.mean - value.low for _, value in known], [value.high - value.mean for _, value in known]]
            colour = palette[title]
            ax.errorbar(x, mean, np.abs(interval), fmt="o", color=colour, label=plain(title), **_MARKS)
            ax.plot(x, mean, color=colour, alpha=0.35, linewidth=1.0)
        ax.set_title(plain(TITLES.get(name, name)), loc="left")
        ax.set_xticks(range(len(resolutions)), labels=[name_of(resolution) for resolution in resolutions])
        ax.set_xlim(-0.5, len(resolutions) - 0.5)
        grid_lines(ax)
        logarithmic([ax])
        low, high = ax.get_ylim()
        if low > 0 and high < 1.5 * low:  # errors that differ by a percent must not look far apart
            middle = float(np.sqrt(low * high))
            ax.set_ylim(middle / 1.25, middle * 1.25)
    for ax in panels[len(names) :]:
        ax.set_visible(False)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(series)))
    return figure
