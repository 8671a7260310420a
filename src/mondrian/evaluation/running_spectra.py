"""Running means of energy spectra and band errors, batch by batch."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mondrian.evaluation.entries import Band, Spectrum
from mondrian.evaluation.means import Means
from mondrian.evaluation.spectra import band_errors, energy_spectrum, log_thirds
from mondrian.grid import Grid


class RunningSpectra:
    """Spectra of prediction, truth and error on one grid, and relative errors in bands between `edges`."""

    def __init__(self, means: Means, grid: Grid, edges: tuple[float, ...]) -> None:
        self.means, self.grid = means, grid
        self.wavenumber = _wavenumbers(grid)
        self.edges = tuple(edge for edge in edges if edge <= self.wavenumber[-1])  # others have nothing above them

    def add(
        self,
        simulation: Int[Tensor, " batch"],
        prediction: Float[Tensor, "batch channel *space"],
        truth: Float[Tensor, "batch channel *space"],
    ) -> None:
        """Add one batch."""
        fields = {"prediction": prediction, "truth": truth, "error": prediction.double() - truth.double()}
        for name, field in fields.items():
            _, energy = energy_spectrum(field, self.grid)
            # Energies are sums of squares: only infinite values give NaN, which the mean would leave out.
            self.means.add(f"spectrum {name}", simulation, energy.nan_to_num(nan=math.inf, posinf=math.inf))
        self.means.add("bands", simulation, band_errors(prediction, truth, self.grid, self.edges))

    def spectrum(self) -> Spectrum:
        """Mean energies over simulations."""
        energies = {name: self.means.overall(f"spectrum {name}") for name in ("truth", "prediction", "error")}
        return Spectrum(wavenumber=self.wavenumber, **energies)

    def bands(self) -> tuple[Band, ...]:
        """Relative errors in the bands between the edges, from 0 to the largest wavenumber of the grid."""
        lows, highs = (0.0, *self.edges), (*self.edges, self.wavenumber[-1])
        errors = self.means.summaries("bands")
        return tuple(Band(low, high, error) for low, high, error in zip(lows, highs, errors, strict=True))


def band_edges(grid: Grid) -> tuple[float, ...]:
    """Wavenumbers between the bands: thirds of a grid's range, and beyond it a band that only finer grids resolve.

    >>> band_edges(Grid(extent=(torch.pi,), points=(28,)))  # cosine modes 1 to 27
    (3.5, 9.5, 27.5)
    """
    wavenumbers = _wavenumbers(grid)
    width = wavenumbers[1] if len(wavenumbers) > 1 else 1.0
    return tuple(sorted({*log_thirds(grid), wavenumbers[-1] + width / 2}))  # a grid of few points has fewer thirds


def _wavenumbers(grid: Grid) -> tuple[float, ...]:
    shells, _ = energy_spectrum(torch.zeros(1, 1, *grid.points), grid)
    return tuple(shells.tolist())
