"""The validation loss of a sweep's runs against each of the settings that varied."""

from __future__ import annotations

import io
import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mondrian.drawing.style import COLOURS, FAINT, INK, grid_lines, logarithmic, new_figure, plain, styled
from mondrian.support.files import write_atomically
from mondrian.sweep.results import Results


def draw(results: Results) -> None:
    """Write `sweep.png`."""
    content = io.BytesIO()
    figure_of(results).savefig(content, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    write_atomically(results.folder / "sweep.png", content.getbuffer())


@styled
def figure_of(results: Results) -> Figure:
    """One panel a setting; the best run is ringed, runs without a finite loss stand above as crosses."""
    figure = new_figure(3.4 * len(results.keys) + 0.6, 3.2)
    panels = figure.subplots(1, len(results.keys), sharey=True, squeeze=False)[0]
    losses = np.array([trial.valid_loss for trial in results.trials])
    for place, (ax, key) in enumerate(zip(panels, results.keys, strict=True)):
        positions = _positions(ax, [trial.chosen[place] for trial in results.trials])
        finite = np.isfinite(losses)
        ax.plot(positions[finite], losses[finite], "o", color=COLOURS[0], markersize=4.5, alpha=0.85)
        if finite.any():
            least = int(np.nanargmin(np.where(finite, losses, np.nan)))
            ax.plot(positions[least], losses[least], "o", color=COLOURS[1], markersize=9, fillstyle="none")
            worst = losses[finite].max()
            ax.plot(positions[~finite], np.full((~finite).sum(), worst), "x", color=FAINT, markersize=5)
        ax.set_xlabel(plain(key), color=INK)
        grid_lines(ax)
    logarithmic(panels)
    panels[0].set_ylabel("least validation loss")
    return figure


def _positions(ax: Axes, values: list[str]) -> np.ndarray:
    """Numbers at their values, on a logarithmic axis if they span a decade; text in equal distances."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        names = sorted(set(values))
        ax.set_xticks(range(len(names)), [plain(name) for name in names])
        return np.array([names.index(value) for value in values], dtype=float)
    if len(numbers) and numbers.min() > 0 and math.log10(numbers.max() / numbers.min()) >= 1:
        ax.set_xscale("log")
    return numbers
