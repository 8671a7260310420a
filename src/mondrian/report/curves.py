"""Loss and learning rate against steps, and against time if it was logged."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mondrian.drawing.style import COLOURS, FAINT, INK, colours, grid_lines, logarithmic, new_figure, plain, styled

History = Mapping[str, np.ndarray]
_LOSSES = {"train_loss": ("training", COLOURS[0]), "valid_loss": ("validation", COLOURS[1])}


def logged(history: History, name: str, against: str = "step") -> tuple[np.ndarray, np.ndarray]:
    """The rows in which a column was logged: the values of `against`, and those of the column."""
    empty = np.zeros(0)
    values, x = history.get(name, empty), history.get(against, empty)
    if len(values) != len(x):
        return empty, empty
    finite = np.isfinite(values) & np.isfinite(x)
    return x[finite], values[finite]


def best(history: History) -> tuple[int, float] | None:
    """Step and value of the smallest validation loss."""
    steps, values = logged(history, "valid_loss")
    if not len(values):
        return None
    row = int(np.argmin(values))
    return int(steps[row]), float(values[row])


@styled
def draw_history(history: History) -> Figure:
    """Training and validation loss above, the learning rate below."""
    axes_of = ["step"] + (["seconds"] if len(logged(history, "train_loss", "seconds")[0]) else [])
    figure = new_figure(4.4 * len(axes_of) if len(axes_of) > 1 else 7.2, 3.9)
    panels = figure.subplots(2, len(axes_of), sharex="col", sharey="row", squeeze=False, height_ratios=(3, 1))
    for column, against in enumerate(axes_of):
        above, below = panels[:, column]
        for name, (label, colour) in _LOSSES.items():
            _draw_loss(above, *logged(history, name, against), label=label, colour=colour)
        _mark_best(above, *logged(history, "valid_loss", against))
        x, rates = logged(history, "learning_rate", against)
        below.plot(x, rates, color=FAINT, marker="o" if len(rates) < 3 else "", markersize=2.5)
        below.set_xlabel("step" if against == "step" else "time / s")
        for ax in (above, below):
            grid_lines(ax)
    logarithmic(panels[0])
    panels[0][0].set_ylabel("loss")
    panels[1][0].set_ylabel("learning rate")
    panels[1][0].ticklabel_format(axis="y", style="sci", scilimits=(-2, 3), useMathText=True)
    if panels[0][0].lines:
        panels[0][0].legend(loc="upper right")
    return figure


@styled
def draw_histories(histories: Mapping[str, History]) -> Figure:
    """The validation loss of several runs; their training loss is fainter, in the same colour."""
    figure = new_figure(7.2, 3.6)
    ax = figure.subplots()
    for name, colour in colours(histories).items():
        steps, values = logged(histories[name], "valid_loss")
        ax.plot(steps, values, color=colour, label=plain(name), marker="o", markersize=2.5)
        ax.plot(*logged(histories[name], "train_loss"), color=colour, alpha=0.25, linewidth=0.8)
    logarithmic([ax])
    grid_lines(ax)
    ax.set_xlabel("step")
    ax.set_ylabel("validation loss")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=min(3, len(histories)))
    return figure


def _draw_loss(ax: Axes, x: np.ndarray, values: np.ndarray, *, label: str, colour: str) -> None:
    if label == "training" and len(values) > 100:  # the noise of batches stays visible behind the smoothed curve
        ax.plot(x, values, color=colour, alpha=0.3, linewidth=0.7, label="_training, each logged step")
        values = _smoothed(values, max(5, len(values) // 50))
    if len(values):
        marker = "o" if label == "validation" or len(values) < 3 else ""
        ax.plot(x, values, color=colour, label=label, marker=marker, markersize=2.5)


def _mark_best(ax: Axes, x: np.ndarray, values: np.ndarray) -> None:
    if len(values):
        row = int(np.argmin(values))
        ax.plot(x[row], values[row], "o", color="none", markeredgecolor=INK, markersize=7, label="best", zorder=4)


def _smoothed(values: Float[np.ndarray, " row"], width: int) -> Float[np.ndarray, " row"]:
    """Running geometric mean, which follows the curve on a logarithmic axis."""
    logarithms = np.log(np.maximum(values, np.finfo(float).tiny))
    window = np.ones(width)
    return np.exp(np.convolve(logarithms, window, "same") / np.convolve(np.ones(len(values)), window, "same"))
