"""The figures of a league: errors by resolution, learning curves, rollouts, spectra, and fields with their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mondrian.evaluation import Evaluation
from mondrian.evaluation.entries import OneStep, Trajectories
from mondrian.league.plan import Plan
from mondrian.league.results import Curve, Row
from mondrian.league.settings import SAMPLES
from mondrian.report.planes import Limits, bar, plane, show
from mondrian.report.results import Fields
from mondrian.report.style import COLOURS, FAINT, INK, Picture, grid_lines, logarithmic, new_figure, styled

STRIPS = 6  # entrants in the figure of fields
_MARKERS = "os^Dv"


def pictures(plan: Plan, rows: Mapping[str, Sequence[Row]]) -> dict[str, bytes]:
    """All figures as PNG, named by what they show and the budget."""
    draws: dict[str, Callable[[Sequence[Row]], Figure | None]] = {
        "errors": draw_errors,
        "curves": draw_curves,
        "rollouts": draw_rollouts,
        "spectra": draw_spectra,
        "fields": draw_fields,
    }
    drawn = {}
    for budget, found in rows.items():
        for name, draw in draws.items():
            figure = draw(found)
            if figure is not None:
                what = "same samples" if budget == SAMPLES else "same time"
                drawn[f"{name}_{budget}"] = Picture.of(figure, name=name, label=name, caption=what).png
    return drawn


def looks(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """A line style for each entrant: full for ours, dashed for the baselines, the same in every figure."""
    found = {}
    for ours in (True, False):
        names = sorted(row.entrant.name for row in rows if row.entrant.ours is ours)
        for place, name in enumerate(names):
            found[name] = {
                "color": COLOURS[place % len(COLOURS)],
                "linestyle": ("-" if place < len(COLOURS) else "-.") if ours else "--",
            }
    return found


@styled
def draw_errors(rows: Sequence[Row]) -> Figure:
    """A line for each entrant, the best on top: its mean absolute error at each resolution, bars over seeds."""
    kinds = [prefix for prefix in ("", "native ") if any(name.startswith(f"{prefix}mae") for name in rows[0].scores)]
    figure = new_figure(4.2 + 3.2 * len(kinds), 0.32 * len(rows) + 1.3)
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True, sharex=True)[0]
    titles = {"": "tested on restrictions of fine solutions", "native ": "on solutions of each grid"}
    places = np.arange(len(rows))[::-1]
    for ax, prefix in zip(panels, kinds, strict=True):
        names = [name for name in rows[0].scores if name.startswith(f"{prefix}mae")]
        for index, name in enumerate(names):
            scores = [row.scores.get(name) for row in rows]
            mean = np.array([np.nan if score is None else score.mean for score in scores])
            away = np.array([0.0 if score is None else score.deviation or 0.0 for score in scores])
            ax.errorbar(
                mean, places, xerr=away, fmt=_MARKERS[index], color=COLOURS[index], markersize=5, capsize=2,
                label=name.rpartition(" ")[2].replace("x", " × "),
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlabel("mean absolute error")
        ax.set_title(titles[prefix] if len(kinds) > 1 else "", loc="left")
        grid_lines(ax)
    panels[0].set_yticks(places, labels=[row.entrant.label for row in rows])
    for tick, row in zip(panels[0].get_yticklabels(), rows, strict=True):
        tick.set_color(INK if row.entrant.ours else FAINT)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(_MARKERS))
    return figure


@styled
def draw_curves(rows: Sequence[Row]) -> Figure:
    """The validation error in training, against samples seen and against time."""
    figure = new_figure(9.6, 4.4)
    panels = figure.subplots(1, 2, sharey=True)
    styles = looks(rows)
    for row in rows:
        curve = Curve.of(row.jobs[0].run)
        style = styles[row.entrant.name]
        panels[0].plot(curve.samples, curve.mae, label=row.entrant.label, **style)
        panels[1].plot(curve.samples / row.speed / 60, curve.mae, **style)
    for ax, label in zip(panels, ("training samples seen", "minutes of training"), strict=True):
        ax.set_xlabel(label)
        grid_lines(ax)
    panels[0].set_ylabel("mean absolute error, validation")
    logarithmic(panels)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@styled
def draw_rollouts(rows: Sequence[Row]) -> Figure | None:
    """The relative error of rollouts against time, at the resolution of training."""
    found = [(row, _evaluation(row)) for row in rows]
    if not any(evaluation.rollout for _, evaluation in found):
        return None
    figure = new_figure(8.2, 4.6)
    ax: Axes = figure.subplots()
    styles = looks(rows)
    for row, evaluation in found:
        rollout = min(evaluation.rollout, key=lambda entry: abs(np.prod(entry.points) - _points(row)))
        ax.plot(
            rollout.times,
            [value.mean for value in rollout.relative_l2],
            label=row.entrant.label,
            **styles[row.entrant.name],
        )
    ax.set_xlabel("time")
    ax.set_ylabel("relative L2 error")
    ax.set_ylim(0, min(2.0, 1.05 * ax.dataLim.ymax))
    grid_lines(ax)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@styled
def draw_spectra(rows: Sequence[Row]) -> Figure:
    """The energy of the error over that of the truth, by wavenumber: of one application, and at a rollout's end."""
    found = [(row, _evaluation(row)) for row in rows]
    rolled = any(evaluation.rollout for _, evaluation in found)
    figure = new_figure(9.6 if rolled else 6.4, 4.4)
    panels = figure.subplots(1, 2 if rolled else 1, squeeze=False, sharey=True)[0]
    styles = looks(rows)
    for row, evaluation in found:
        groups: list[Sequence[OneStep | Trajectories]] = [evaluation.one_step, evaluation.rollout]
        for ax, group in zip(panels, groups, strict=False):
            spectrum = min(group, key=lambda entry: abs(np.prod(entry.points) - _points(row))).spectrum
            assert spectrum is not None  # a league is on grids
            k = np.array(spectrum.wavenumber)
            ratio = np.array(spectrum.error) / np.array(spectrum.truth)
            ax.plot(k[k > 0], ratio[k > 0], label=row.entrant.label, **styles[row.entrant.name])
    for ax, title in zip(panels, ("one application", "end of the rollout"), strict=False):
        ax.set_title(title, loc="left")
        ax.set_xscale("log")
        ax.set_xlabel("wavenumber")
        grid_lines(ax)
    panels[0].set_ylabel("energy of the error / of the truth")
    logarithmic(panels)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


@styled
def draw_fields(rows: Sequence[Row]) -> Figure:
    """The truth of one sample, and of the best entrants prediction and absolute error, at the finest resolution."""
    shown = [*rows[: STRIPS - 1], *rows[STRIPS - 1 :][-1:]]
    fields = [Fields.load(row.jobs[0].run.evaluation / "fields.npz") for row in shown]
    points = list(fields[0].one_step)[-1]
    taken = [each.one_step.get(points) for each in fields]
    truth = next(samples.truth[0, -1] for samples in taken if samples is not None)
    predictions = [None if samples is None else samples.prediction[0, -1] for samples in taken]
    errors = [None if values is None else np.abs(values - truth) for values in predictions]
    common = Limits.of([truth])
    of_error = Limits.of_errors([values for values in errors if values is not None])
    figure = new_figure(1.75 * (len(shown) + 1) + 0.9, 4.2, images=True)
    panels = figure.subplots(2, len(shown) + 1, squeeze=False)
    image = show(panels[0][0], plane(truth), fields[0].grid, common)
    panels[0][0].set_title("truth")
    panels[1][0].set_visible(False)
    for column, (row, prediction, error) in enumerate(zip(shown, predictions, errors, strict=True), 1):
        panels[0][column].set_title(row.entrant.label.replace(", ", "\n"), fontsize=7.5)
        for ax, values, limits in zip(panels[:, column], (prediction, error), (common, of_error), strict=True):
            if values is None:
                ax.set_visible(False)
                continue
            cuts = fields[column - 1].subdomains
            image_or_error = show(ax, plane(values), fields[column - 1].grid, limits, cuts)
        if error is not None:
            panels[1][column].set_xlabel(f"mean {error.mean():.2g}", fontsize=8)
    bar(figure, image, panels[0].tolist(), common)
    bar(figure, image_or_error, panels[1].tolist(), of_error)
    panels[0][1].set_ylabel("prediction")
    panels[1][1].set_ylabel("absolute error")
    return figure


def _evaluation(row: Row) -> Evaluation:
    return Evaluation.load(row.jobs[0].run.evaluation)


def _points(row: Row) -> int:
    """The points of the training's grid."""
    return int(np.prod(row.jobs[0].run.data().points or row.jobs[0].run.data().resolutions("train")[0]))
