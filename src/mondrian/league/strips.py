"""Fields of a league beside each other: the truth of one sample, and of some entrants prediction and error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mondrian.drawing.planes import ERROR, Limits, bar, cuts, plane, show
from mondrian.drawing.style import new_figure, styled
from mondrian.evaluation.tables import size
from mondrian.league.results import Row
from mondrian.report.arrays import Fields

SHOWN = 6  # entrants
TITLE = 24  # letters in a line above each of them
Pair = tuple[np.ndarray, np.ndarray]  # truth and prediction


@styled
def draw_fields(rows: Sequence[Row]) -> Figure:
    """One sample: finest resolution, or that of training where it is rollouts that count."""
    fields = [row.fields for row in rows]
    rolled = any(each.rollout for each in fields)
    points = rows[0].first.points if rolled else max((p for each in fields for p in each.one_step), key=math.prod)
    best, places = _ranked(rows, f"mae {size(points)}")
    pairs: list[Pair | None] = []
    for row in best:
        samples = row.fields.one_step.get(points)
        pairs.append(None if samples is None else (samples.truth[0, -1], samples.prediction[0, -1]))
    errors = [np.abs(pair[1] - pair[0]) for pair in pairs[: max(1, len(pairs) - 1)] if pair is not None]
    # by the best, so that the last does not decide what is seen of the others
    return _strip(
        best, places, pairs, Limits.of_errors(errors), f"one application\n{_across(points)}\nplaces by error there"
    )


@styled
def draw_last_frames(rows: Sequence[Row]) -> Figure | None:
    """The last frame of one rollout at the resolution of training.

    By correlation and not by error, in which a field that fades away is better than one that goes on.
    """
    points = rows[0].first.points
    best, places = _ranked(rows, f"correlation time {size(points)}", largest=True)
    found = [row.fields.rollout.get(points) for row in best]
    pairs: list[Pair | None] = [
        None if frames is None else (frames.truth[0, -1, -1], frames.prediction[0, -1, -1]) for frames in found
    ]
    frames = next((frames for frames in found if frames is not None), None)
    if frames is None:
        return None
    # by the truth, since a field that has grown beyond all measure would leave the errors of others dark
    of_error = Limits(0.0, float(np.abs(frames.truth[0, -1, -1]).max()), ERROR, beyond=True)
    return _strip(
        best, places, pairs, of_error, f"rollout, time {frames.times[-1]:g}\n{_across(points)}\nplaces by correlation"
    )


def _ranked(rows: Sequence[Row], score: str, *, largest: bool = False) -> tuple[list[Row], list[int]]:
    """The best by a score, of which the least or the largest is best, and the last; and their places."""
    sign = -1 if largest else 1
    ranked = sorted(rows, key=lambda row: sign * row.scores[score].mean if score in row.scores else math.inf)
    places = [*range(len(ranked))][: SHOWN - 1] + [*range(len(ranked))][SHOWN - 1 :][-1:]
    return [ranked[place] for place in places], [place + 1 for place in places]


def _strip(
    rows: Sequence[Row], places: Sequence[int], pairs: Sequence[Pair | None], of_error: Limits, what: str
) -> Figure:
    """The truth, and of each entrant prediction and absolute error; marks at the edge where its subdomains end."""
    truth = next(pair[0] for pair in pairs if pair is not None)
    common = Limits.of([truth])
    figure = new_figure(1.75 * (len(rows) + 1) + 0.9, 4.6, images=True)
    panels = figure.subplots(2, len(rows) + 1, squeeze=False)
    image = show(panels[0][0], plane(truth), rows[0].fields.grid, common)
    panels[0][0].set_title(f"truth\n{what}", fontsize=7.5)
    panels[1][0].set_visible(False)
    for column, (row, place, pair) in enumerate(zip(rows, places, pairs, strict=True), 1):
        panels[0][column].set_title(_label(place, row.entrant.label), fontsize=7.5)
        if pair is None:
            for ax in panels[:, column]:
                ax.set_visible(False)
            continue
        error = np.abs(pair[1] - truth)
        for ax, values, limits in zip(panels[:, column], (pair[1], error), (common, of_error), strict=True):
            shown = show(ax, plane(values), row.fields.grid, limits)
            _mark_cuts(ax, row.fields)
        panels[1][column].set_xlabel(f"mean {error.mean():.2g}", fontsize=8)
    bar(figure, image, panels[0].tolist(), common)
    bar(figure, shown, panels[1].tolist(), of_error)
    panels[0][1].set_ylabel("prediction")
    panels[1][1].set_ylabel("absolute error")
    return figure


def _mark_cuts(ax: Axes, fields: Fields) -> None:
    """Ticks, not lines: those would look like what goes wrong at cuts."""
    for axis, places in zip((ax.xaxis, ax.yaxis), cuts(fields.grid, fields.subdomains), strict=False):
        axis.set_ticks(places, labels=[""] * len(places))
        axis.set_tick_params(length=2.0, width=0.4, pad=0)


def _label(place: int, label: str) -> str:
    parts = f"{place}. {label}".split(", ")
    return "\n".join(line for part in parts for line in wrap(part, TITLE))


def _across(points: Sequence[int]) -> str:
    return f"{' × '.join(map(str, points))} points"
