"""The figures of a league: errors by resolution, learning curves, rollouts, spectra, and fields with their errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import wrap
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from mondrian.evaluation.entries import OneStep, Trajectories
from mondrian.league.entrants import Entrant
from mondrian.league.plan import Plan
from mondrian.league.results import Row
from mondrian.league.settings import TITLES
from mondrian.report.arrays import Fields
from mondrian.report.planes import Limits, bar, plane, show
from mondrian.report.style import COLOURS, FAINT, INK, grid_lines, logarithmic, new_figure, png_of, styled

Looks = Mapping[str, Mapping[str, Any]]
Entry = TypeVar("Entry", OneStep, Trajectories)

STRIPS = 6  # entrants in the figure of fields
TITLE = 24  # letters in a line above each of them
EMPTY = 1e-10  # shells of wavenumbers with less than this part of the largest one's energy have none
_MARKERS = "os^Dv"
_DASHES: dict[bool, tuple[Any, ...]] = {  # of ours, and of the baselines; one after the other when colours are used up
    True: ("-", (0, (1, 1)), (0, (8, 2))),
    False: ("--", "-."),
}


def pictures(plan: Plan, rows: Mapping[str, Sequence[Row]]) -> dict[str, bytes]:
    """All figures as PNG, named by what they show and the budget."""
    styles = looks(plan.league.everyone)
    draws: dict[str, Callable[[Sequence[Row]], Figure | None]] = {
        "errors": draw_errors,
        "curves": partial(draw_curves, styles=styles),
        "rollouts": partial(draw_rollouts, styles=styles),
        "spectra": partial(draw_spectra, styles=styles),
        "fields": draw_fields,
        "rollout_fields": draw_last_frames,
    }
    drawn = {}
    for budget, found in rows.items():
        for name, draw in draws.items():
            figure = draw(found)
            if figure is not None:
                figure.suptitle(TITLES[budget], x=0.01, ha="left", fontsize=10)
                drawn[f"{name}_{budget}"] = png_of(figure)
    return drawn


def looks(entrants: Sequence[Entrant]) -> Looks:
    """A line style for each entrant: ours full or dotted, the baselines dashed, the same in every figure."""
    found = {}
    for ours, dashes in _DASHES.items():
        for number, entrant in enumerate(entrant for entrant in entrants if entrant.ours is ours):
            again, colour = divmod(number, len(COLOURS))
            found[entrant.name] = {"color": COLOURS[colour], "linestyle": dashes[again % len(dashes)]}
    return found


@styled
def draw_errors(rows: Sequence[Row]) -> Figure:
    """A line for each entrant, the best on top: its mean absolute error at each resolution, bars over seeds."""
    scored = dict.fromkeys(name for row in rows for name in row.scores)
    kinds = [prefix for prefix in ("", "native ") if any(name.startswith(f"{prefix}mae") for name in scored)]
    figure = new_figure(4.2 + 3.2 * len(kinds), 0.32 * len(rows) + 1.3)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True, sharex=True)[0]
    titles = {"": "tested on restrictions of fine solutions", "native ": "on solutions of each grid"}
    places = np.arange(len(rows))[::-1]
    for ax, prefix in zip(panels, kinds, strict=True):
        names = [name for name in scored if name.startswith(f"{prefix}mae")]
        for index, name in enumerate(names):
            scores = [row.scores.get(name) for row in rows]
            mean = np.array([np.nan if score is None else score.mean for score in scores])
            away = np.array([0.0 if score is None else score.deviation or 0.0 for score in scores])
            ax.errorbar(
                mean, places, xerr=away, fmt=_MARKERS[index], color=COLOURS[index], markersize=5, capsize=2,
                label=name.rpartition(" ")[2].replace("x", " × "),
            )  # fmt: skip
        _logarithmic_x(ax)
        ax.set_xlabel("mean absolute error")
        ax.set_title(titles[prefix] if len(kinds) > 1 else "", loc="left")
        grid_lines(ax)
    panels[0].set_yticks(places, labels=[row.entrant.label for row in rows])
    for tick, row in zip(panels[0].get_yticklabels(), rows, strict=True):
        tick.set_color(INK if row.entrant.ours else FAINT)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(_MARKERS))
    return figure


@styled
def draw_curves(rows: Sequence[Row], styles: Looks) -> Figure:
    """The validation error in training, against samples seen and against time."""
    figure = new_figure(9.6, 4.6)
    panels = figure.subplots(1, 2, sharey=True)
    for row in rows:
        style = styles[row.entrant.name]
        samples, mae = np.array(row.first.samples), row.first.mae
        panels[0].plot(samples, mae, label=row.entrant.label, **style)
        panels[1].plot(samples / row.speed / 60, mae, **style)
    for ax, label in zip(panels, ("training samples seen", "minutes of training"), strict=True):
        ax.set_xlabel(label)
        grid_lines(ax)
    panels[0].set_ylabel("mean absolute error, validation")
    logarithmic(panels)
    _name_lines(figure, panels[0])
    return figure


@styled
def draw_rollouts(rows: Sequence[Row], styles: Looks) -> Figure | None:
    """The relative error of rollouts against time, at the resolution of training."""
    found = [(row, _trained(row, row.evaluation.rollout)) for row in rows]
    if not any(rollout for _, rollout in found):
        return None
    figure = new_figure(8.2, 4.8)
    ax: Axes = figure.subplots()
    for row, rollout in found:
        if rollout is not None:
            errors = [value.mean for value in rollout.relative_l2]
            ax.plot(rollout.times, errors, label=row.entrant.label, **styles[row.entrant.name])
    ax.set_xlabel("time")
    ax.set_ylabel("relative L2 error")
    ax.set_ylim(0, min(2.0, 1.05 * ax.dataLim.ymax))
    grid_lines(ax)
    _name_lines(figure, ax)
    return figure


@styled
def draw_spectra(rows: Sequence[Row], styles: Looks) -> Figure:
    """By wavenumber: the energy of the prediction beside that of the truth, and of the error over that of the truth.

    Of one application, and where there are rollouts of their last frame, at the resolution of training.
    """
    entries: dict[str, list[OneStep | Trajectories | None]] = {
        "one application": [_trained(row, row.evaluation.one_step) for row in rows],
        "end of the rollout": [_trained(row, row.evaluation.rollout) for row in rows],
    }
    entries = {title: found for title, found in entries.items() if any(found)}
    figure = new_figure(9.6, 4.0 * len(entries) + 0.8)
    panels = figure.subplots(len(entries), 2, squeeze=False)
    for (left, right), (title, found) in zip(panels, entries.items(), strict=True):
        known = [(row, entry.spectrum) for row, entry in zip(rows, found, strict=True) if entry and entry.spectrum]
        truth = np.array(known[0][1].truth)
        k = np.array(known[0][1].wavenumber)
        shown = (k > 0) & (truth > EMPTY * truth.max())
        left.plot(k[shown], truth[shown], color=INK, linewidth=2.2, label="truth", zorder=1)
        for row, spectrum in known:
            style = styles[row.entrant.name]
            left.plot(k[shown], np.array(spectrum.prediction)[shown], label=row.entrant.label, **style)
            right.plot(k[shown], np.array(spectrum.error)[shown] / truth[shown], **style)
        for ax, label in ((left, "energy"), (right, "energy of the error / of the truth")):
            ax.set_title(title, loc="left")
            _logarithmic_x(ax)
            ax.set_xlabel("wavenumber")
            ax.set_ylabel(label)
            grid_lines(ax)
            logarithmic([ax])
        # one that has grown beyond all measure must not squeeze the others together
        left.set_ylim(bottom=0.1 * truth[shown].min(), top=min(left.get_ylim()[1], 100 * truth.max()))
        right.set_ylim(top=min(right.get_ylim()[1], 1e4))
    _name_lines(figure, panels[0][0])
    return figure


@styled
def draw_fields(rows: Sequence[Row]) -> Figure:
    """One sample: finest resolution, or that of training where it is rollouts that count."""
    fields = [row.fields for row in _shown(rows)]
    rolled = any(each.rollout for each in fields)
    points = rows[0].first.points if rolled else max((p for each in fields for p in each.one_step), key=math.prod)
    pairs = [
        None if (samples := each.one_step.get(points)) is None else (samples.truth[0, -1], samples.prediction[0, -1])
        for each in fields
    ]
    return _strip(_labels(rows), fields, pairs, "one application")


@styled
def draw_last_frames(rows: Sequence[Row]) -> Figure | None:
    """The last frame of one rollout at the resolution of training."""
    fields = [row.fields for row in _shown(rows)]
    found = [each.rollout.get(rows[0].first.points) for each in fields]
    pairs = [None if frames is None else (frames.truth[0, -1, -1], frames.prediction[0, -1, -1]) for frames in found]
    time = next((frames.times[-1] for frames in found if frames is not None), None)
    return None if time is None else _strip(_labels(rows), fields, pairs, f"rollout, time {time:g}")


def _shown(rows: Sequence[Row]) -> Sequence[Row]:
    """The best and the last."""
    return [*rows[: STRIPS - 1], *rows[STRIPS - 1 :][-1:]]


def _labels(rows: Sequence[Row]) -> list[str]:
    titles = (f"{rows.index(row) + 1}. {row.entrant.label}".split(", ") for row in _shown(rows))
    return ["\n".join(line for part in title for line in wrap(part, TITLE)) for title in titles]


def _strip(
    labels: Sequence[str],
    fields: Sequence[Fields],
    pairs: Sequence[tuple[np.ndarray, np.ndarray] | None],
    what: str,
) -> Figure:
    """The truth of one sample, and of each entrant prediction and absolute error."""
    truth = next(pair[0] for pair in pairs if pair is not None)
    errors = [None if pair is None else np.abs(pair[1] - truth) for pair in pairs]
    common = Limits.of([truth])
    # by the best, so that the last does not decide what is seen of the others
    of_error = Limits.of_errors([values for values in errors[: max(1, len(errors) - 1)] if values is not None])
    figure = new_figure(1.75 * (len(labels) + 1) + 0.9, 4.4, images=True)
    panels = figure.subplots(2, len(labels) + 1, squeeze=False)
    image = show(panels[0][0], plane(truth), fields[0].grid, common)
    panels[0][0].set_title(f"truth\n{what}", fontsize=7.5)
    panels[1][0].set_visible(False)
    for column, (label, each, pair, error) in enumerate(zip(labels, fields, pairs, errors, strict=True), 1):
        panels[0][column].set_title(label, fontsize=7.5)
        if pair is None or error is None:
            for ax in panels[:, column]:
                ax.set_visible(False)
            continue
        show(panels[0][column], plane(pair[1]), each.grid, common, each.subdomains)
        image_of_error = show(panels[1][column], plane(error), each.grid, of_error, each.subdomains)
        panels[1][column].set_xlabel(f"mean {error.mean():.2g}", fontsize=8)
    bar(figure, image, panels[0].tolist(), common)
    bar(figure, image_of_error, panels[1].tolist(), of_error)
    panels[0][1].set_ylabel("prediction")
    panels[1][1].set_ylabel("absolute error")
    return figure


def _trained(row: Row, entries: Sequence[Entry]) -> Entry | None:
    """What was found at the resolution of training."""
    return next((entry for entry in entries if entry.points == row.first.points), None)


def _name_lines(figure: Figure, ax: Axes) -> None:
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _logarithmic_x(ax: Axes) -> None:
    """With numbers that have room."""
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
