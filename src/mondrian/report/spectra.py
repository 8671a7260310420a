"""Energy spectra of truth, prediction and error, and relative errors by wavenumber band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mondrian.drawing.style import COLOURS, INK, grid_lines, logarithmic, new_figure, styled
from mondrian.evaluation import Band, Spectrum

# Each line is thinner than the one below it: the error of a model that predicts zero covers the truth.
_LINES = {"truth": (INK, "-", 2.2), "prediction": (COLOURS[1], "--", 1.5), "error": (COLOURS[0], "-", 1.0)}


@styled
def draw_spectra(spectra: Mapping[str, tuple[Spectrum, Sequence[Band]]]) -> Figure:
    """A log-log column for each resolution; below it the relative error of each band with its interval."""
    rows = 2 if any(bands for _, bands in spectra.values()) else 1
    width = 3.1 * len(spectra) if len(spectra) > 1 else 5.0
    figure = new_figure(width, 2.9 + 1.4 * (rows - 1))
    ratios = (2.2, 1)[:rows]
    panels = figure.subplots(rows, len(spectra), squeeze=False, sharex="col", sharey="row", height_ratios=ratios)
    for column, (label, (spectrum, bands)) in enumerate(spectra.items()):
        above, below = panels[0][column], panels[-1][column]
        wavenumber = np.array(spectrum.wavenumber)
        positive = wavenumber > 0  # a logarithmic axis cannot show the mean
        for name, (colour, dashes, thickness) in _LINES.items():
            energy = np.array(getattr(spectrum, name))
            above.plot(wavenumber[positive], energy[positive], dashes, color=colour, linewidth=thickness, label=name)
        above.set_title(label)
        if rows > 1:
            _draw_bands(below, wavenumber[positive], bands)
        below.set_xlabel("wavenumber")
        for ax in panels[:, column]:
            ax.set_xscale("log")
            grid_lines(ax)
    for row in panels:
        logarithmic(row)
    panels[0][0].set_ylabel("energy")
    if rows > 1:
        panels[1][0].set_ylabel("relative error")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def _draw_bands(ax: Axes, wavenumber: Float[np.ndarray, " shell"], bands: Sequence[Band]) -> None:
    if not len(wavenumber):
        return
    for band in bands:
        ends = max(band.low, 0.8 * wavenumber[0]), min(band.high, 1.1 * wavenumber[-1])
        if ends[0] < ends[1]:
            error = band.relative_error
            ax.fill_between(ends, error.low, error.high, color=COLOURS[0], alpha=0.2, linewidth=0)
            ax.plot(ends, [error.mean] * 2, color=COLOURS[0])
