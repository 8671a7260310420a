"""Fields of a league side by side: the truth of one sample, and of some entrants prediction and absolute error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mondrian.drawing.planes import ERROR, Limits, bar, cuts, plane, show
from mondrian.drawing.style import new_figure, styled
from mondrian.evaluation.arrays import Fields
from mondrian.evaluation.tables import size
from mondrian.grid import Grid
from mondrian.league.results import Row

SHOWN = 6  # entrants
TITLE = 24  # letters in a line above each of them
Plane = Float[np.ndarray, "x y"]


@dataclass(frozen=True)
class Panel:
    """The prediction of an entrant, by its difference from the truth; `mean_error` is the mean of its magnitude."""

    name: str
    subdomains: tuple[int, ...]
    error: Plane | None = field(default=None, compare=False, repr=False)
    mean_error: float = math.nan


@dataclass(frozen=True)
class FieldPanels:
    """One field and its predictions. `time` is that of a rollout's frame, None after a single step."""

    grid: Grid
    points: tuple[int, ...]
    time: float | None
    truth: Plane = field(compare=False, repr=False)
    panels: Mapping[str, Panel]


def one_step_panels(rows: Sequence[Row], fields: Mapping[str, Fields]) -> FieldPanels | None:
    """One sample after one step: at the finest resolution, or that of training where rollouts count."""
    if not fields:
        return None
    rolled = any(each.rollout for each in fields.values())
    points = (
        rows[0].first.points if rolled else max((p for each in fields.values() for p in each.one_step), key=math.prod)
    )
    pairs = {}
    for name, each in fields.items():
        if (samples := each.one_step.get(points)) is not None:
            pairs[name] = (samples.truth[0, -1], samples.prediction[0, -1])
    return _panels(ranked(rows, points), fields, points, None, pairs)


def last_frame_panels(rows: Sequence[Row], fields: Mapping[str, Fields]) -> FieldPanels | None:
    """The last frame of one rollout at the resolution of training."""
    points = rows[0].first.points
    frames = {name: each.rollout[points] for name, each in fields.items() if points in each.rollout}
    if not frames:
        return None
    time = float(next(iter(frames.values())).times[-1])
    pairs = {name: (each.truth[0, -1, -1], each.prediction[0, -1, -1]) for name, each in frames.items()}
    return _panels(ranked(rows, points, time), fields, points, time, pairs)


def ranked(rows: Sequence[Row], points: Sequence[int], time: float | None = None) -> dict[int, Row]:
    """The best by their error at a resolution and the last, with their places.

    Of rollouts by correlation and not by error, in which a field that fades away is better than one that does not.
    """
    score, sign = (f"mae {size(points)}", 1) if time is None else (f"correlation time {size(points)}", -1)
    order = sorted(rows, key=lambda row: sign * row.scores[score].mean if score in row.scores else math.inf)
    places = [*range(len(order))][: SHOWN - 1] + [*range(len(order))][SHOWN - 1 :][-1:]
    return {place + 1: order[place] for place in places}


@styled
def draw_panels(rows: Sequence[Row], shown: FieldPanels) -> Figure:
    """The truth, and of each entrant prediction and absolute error; marks at the edge where its subdomains end."""
    best = ranked(rows, shown.points, shown.time)
    common, of_error = Limits.of([shown.truth]), _error_limits(shown, list(best.values()))
    figure = new_figure(1.75 * (len(best) + 1) + 0.9, 4.6, images=True)
    panels = figure.subplots(2, len(best) + 1, squeeze=False)
    image = show(panels[0][0], shown.truth, shown.grid, common)
    panels[0][0].set_title(_caption(shown), fontsize=7.5)
    panels[1][0].set_visible(False)
    errors = image
    for column, (place, row) in enumerate(best.items(), 1):
        panels[0][column].set_title(_label(place, row.entrant.label), fontsize=7.5)
        panel = shown.panels.get(row.entrant.name)
        if panel is None or panel.error is None:
            for ax in panels[:, column]:
                ax.set_visible(False)
            continue
        show(panels[0][column], shown.truth + panel.error, shown.grid, common)
        errors = show(panels[1][column], np.abs(panel.error), shown.grid, of_error)
        for ax in panels[:, column]:
            _mark_cuts(ax, shown.grid, panel.subdomains)
        panels[1][column].set_xlabel(f"mean {panel.mean_error:.2g}", fontsize=8)
    bar(figure, image, panels[0].tolist(), common)
    bar(figure, errors, panels[1].tolist(), of_error)
    panels[0][1].set_ylabel("prediction")
    panels[1][1].set_ylabel("absolute error")
    return figure


def _panels(
    best: Mapping[int, Row],
    fields: Mapping[str, Fields],
    points: tuple[int, ...],
    time: float | None,
    pairs: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> FieldPanels | None:
    names = [row.entrant.name for row in best.values() if row.entrant.name in pairs]
    if not names:
        return None
    truth = plane(pairs[names[0]][0])
    panels = {}
    for name in names:
        error = plane(pairs[name][1]) - truth
        panels[name] = Panel(
            name, fields[name].subdomains, error, float(np.abs(pairs[name][1] - pairs[name][0]).mean())
        )
    return FieldPanels(fields[names[0]].grid, points, time, truth, panels)


def _error_limits(shown: FieldPanels, best: Sequence[Row]) -> Limits:
    """After one step by the best, so that the last does not decide what is seen of the others.

    Of rollouts by the truth, since a field that has grown beyond all measure would leave the errors of others dark.
    """
    if shown.time is not None:
        return Limits(0.0, float(np.abs(shown.truth).max()), ERROR, beyond=True)
    panels = [shown.panels.get(row.entrant.name) for row in best[: max(1, len(best) - 1)]]
    return Limits.of_errors([np.abs(panel.error) for panel in panels if panel is not None and panel.error is not None])


def _mark_cuts(ax: Axes, grid: Grid, subdomains: Sequence[int]) -> None:
    """Ticks, not lines: those would look like what goes wrong at cuts."""
    for axis, places in zip((ax.xaxis, ax.yaxis), cuts(grid, subdomains), strict=False):
        axis.set_ticks(places, labels=[""] * len(places))
        axis.set_tick_params(length=2.0, width=0.4, pad=0)


def _caption(shown: FieldPanels) -> str:
    across = f"{' × '.join(map(str, shown.points))} points"
    if shown.time is None:
        return f"truth\none step\n{across}\nplaces by error there"
    return f"truth\nrollout, time {shown.time:g}\n{across}\nplaces by correlation"


def _label(place: int, label: str) -> str:
    parts = f"{place}. {label}".split(", ")
    return "\n".join(line for part in parts for line in wrap(part, TITLE))
