"""The figures of a league: errors by resolution, learning curves, rollouts, spectra; `field_panels` draws fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from mondrian.drawing.style import COLOURS, FAINT, INK, grid_lines, logarithmic, new_figure, styled
from mondrian.evaluation.entries import Spectrum
from mondrian.evaluation.tables import size
from mondrian.league.entrants import Entrant
from mondrian.league.evaluations import ONE_STEP, ROLLOUT
from mondrian.league.results import Row

Looks = Mapping[str, Mapping[str, Any]]

NAME = 40  # letters in a line of a name
CORRELATED = 0.8  # a rollout that is less has lost the truth: `correlation time` in the tables
EMPTY = 1e-10  # shells of wavenumbers with less than this part of the largest one's energy have none
_MARKERS = "os^Dv"
_PALETTE = (*COLOURS, "#7a4a1e", "#0f5a8a", "#8c2f5c", "#5d6b1f")  # the last ones darker: twelve to be told apart
_DASHES: dict[bool, tuple[Any, ...]] = {  # of ours, and of the baselines; one after the other when colours are used up
    True: ("-", (0, (1, 1)), (0, (8, 2))),
    False: ("--", "-."),
}


def drawings(entrants: Sequence[Entrant]) -> dict[str, Callable[[Sequence[Row]], Figure | None]]:
    """The functions that draw the rows of a budget, by the name of the figure."""
    styles = looks(entrants)
    return {
        "errors": draw_errors,
        "curves": partial(draw_curves, styles=styles),
        "rollouts": partial(draw_rollouts, styles=styles),
        "spectra": partial(draw_spectra, styles=styles),
    }


def looks(entrants: Sequence[Entrant]) -> Looks:
    """A line style for each entrant: ours full or dotted, the baselines dashed, the same in every figure.

    Where colours do not suffice, those whose names differ in their first part only, such as the attention, share one.
    """
    many = len(entrants) > len(_PALETTE)
    kinds = [entrant.label.partition(", ")[2] or entrant.label if many else entrant.label for entrant in entrants]
    colours = {kind: number % len(_PALETTE) for number, kind in enumerate(dict.fromkeys(kinds))}
    taken: set[tuple[int, Any]] = set()
    styles = {}
    for entrant, kind in zip(entrants, kinds, strict=True):
        wanted = [*range(colours[kind], len(_PALETTE)), *range(colours[kind])]
        free = ((colour, dash) for colour in wanted for dash in _DASHES[entrant.ours] if (colour, dash) not in taken)
        colour, dash = next(free, (colours[kind], _DASHES[entrant.ours][0]))
        taken.add((colour, dash))
        styles[entrant.name] = {"color": _PALETTE[colour], "linestyle": dash}
    return styles


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
        logarithmic_x(ax)
        ax.margins(x=0.08)
        ax.set_xlabel("mean absolute error")
        ax.set_title(titles[prefix] if len(kinds) > 1 else "", loc="left")
        grid_lines(ax)
    panels[0].set_yticks(places, labels=[row.entrant.label for row in rows])
    for tick, row in zip(panels[0].get_yticklabels(), rows, strict=True):
        tick.set_color(INK if row.entrant.ours else FAINT)
    bars, names = panels[0].get_legend_handles_labels()
    marks = [bar[0] for bar in bars]  # without the bars, which not all have
    figure.legend(marks, names, loc="outside lower center", ncols=len(_MARKERS))
    return figure


@styled
def draw_curves(rows: Sequence[Row], styles: Looks) -> Figure:
    """The validation error in training, against samples seen and against time."""
    figure = new_figure(11.0, _height(rows))
    panels = figure.subplots(1, 2, sharey=True)
    for row in rows:
        style = styles[row.entrant.name]
        samples, mae = np.array(row.first.samples), row.first.mae
        panels[0].plot(samples, mae, label=row.entrant.label, **style)
        panels[1].plot(samples / row.speed / 60, mae, **style)
    for ax, label in zip(panels, ("training samples seen", "minutes of training"), strict=True):
        logarithmic_x(ax)
        ax.set_xlabel(label)
        grid_lines(ax)
    panels[0].set_ylabel("mean absolute error, validation")
    logarithmic(panels)
    name_lines(figure, panels[0])
    return figure


@styled
def draw_rollouts(rows: Sequence[Row], styles: Looks) -> Figure | None:
    """Error and correlation of rollouts against time, at the resolution of training."""
    curves = [(row, row.evaluation.rollouts.get(size(row.first.points))) for row in rows]
    if not any(curve for _, curve in curves):
        return None
    figure = new_figure(11.0, _height(rows))
    errors, correlations = figure.subplots(1, 2)
    for row, curve in curves:
        if curve is not None:
            style = styles[row.entrant.name]
            errors.plot(curve.times, curve.relative_l2, **style)
            correlations.plot(curve.times, curve.correlation, label=row.entrant.label, **style)
    for ax, level, meaning, side in (
        (errors, 1.0, "a field that has faded away", "top"),  # late errors are above
        (correlations, CORRELATED, "lost below", "bottom"),
    ):
        ax.axhline(level, color=FAINT, linewidth=0.8)
        at = ("axes fraction", "data")
        ax.annotate(meaning, (0.99, level), xycoords=at, ha="right", va=side, fontsize=7.5, color=FAINT)
    errors.set_ylabel("relative L2 error")
    errors.set_ylim(0, min(2.0, 1.05 * errors.dataLim.ymax))
    correlations.set_ylabel("correlation with the truth")
    correlations.set_ylim(top=1.0)
    for ax in (errors, correlations):
        ax.set_xlabel("time")
        grid_lines(ax)
    name_lines(figure, correlations)
    return figure


@styled
def draw_spectra(rows: Sequence[Row], styles: Looks) -> Figure | None:
    """By wavenumber: the energy of the prediction beside that of the truth, and of the error over that of the truth.

    Of one step, and where there are rollouts of their last frame, at the resolution of training.
    """
    panels_of: dict[str, list[tuple[Row, Spectrum]]] = {}
    for name, title in ((ONE_STEP, "one step"), (ROLLOUT, "end of the rollout")):
        if known := [(row, row.evaluation.spectra[name]) for row in rows if name in row.evaluation.spectra]:
            panels_of[title] = known
    if not panels_of:
        return None
    figure = new_figure(11.0, max(_height(rows), 4.0 * len(panels_of)))
    panels = figure.subplots(len(panels_of), 2, squeeze=False)
    for (left, right), (title, known) in zip(panels, panels_of.items(), strict=True):
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
            logarithmic_x(ax)
            ax.set_xlabel("wavenumber")
            ax.set_ylabel(label)
            grid_lines(ax)
            logarithmic([ax])
        # one that has grown beyond all measure must not squeeze the others together
        left.set_ylim(bottom=0.1 * truth[shown].min(), top=min(left.get_ylim()[1], 100 * truth.max()))
        right.set_ylim(top=min(right.get_ylim()[1], 1e4))
    name_lines(figure, panels[0][0])
    return figure


def name_lines(figure: Figure, ax: Axes) -> None:
    """The names of the lines in the order of the table, to the right."""
    lines, names = ax.get_legend_handles_labels()
    figure.legend(lines, [_wrapped(name) for name in names], loc="outside right center", fontsize=8)


def _wrapped(name: str) -> str:
    return "\n".join(wrap(name, NAME))


def _height(rows: Sequence[Row]) -> float:
    """Inches that a figure needs for the names of its lines."""
    return max(4.2, 0.155 * sum(_wrapped(row.entrant.label).count("\n") + 1 for row in rows) + 0.8)


def logarithmic_x(ax: Axes) -> None:
    """With numbers that have room."""
    low, high = ax.dataLim.intervalx
    ax.set_xscale("log")
    subs = (1, 2, 5) if high > 5 * low else (1, 1.5, 2, 3, 4, 5, 6, 8)
    ax.xaxis.set_major_locator(LogLocator(subs=subs))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
