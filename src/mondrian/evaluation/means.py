"""Running means of each simulation, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int
from torch import Tensor

from mondrian.evaluation.statistics import Summary, summary


class Means:
    """Running means over the windows and channels of each simulation, by the name of the metric.

    The windows of a simulation are not independent samples, so they are averaged before any interval is estimated. NaN,
    a metric that is undefined for this truth, is left out; an infinite error stays infinite.

    >>> import torch
    >>> means = Means([4, 7])
    >>> means.add("mae", torch.tensor([4, 4, 7]), torch.tensor([[1.0], [3.0], [5.0]]))
    >>> means.of("mae")
    array([2., 5.])
    """

    def __init__(self, simulations: Sequence[int]) -> None:
        self._rows = {simulation: row for row, simulation in enumerate(simulations)}
        self._sums: dict[str, Any] = {}
        self._counts: dict[str, Any] = {}

    def add(self, name: str, simulation: Int[Tensor, " batch"], values: Float[Tensor, "batch channel *rest"]) -> None:
        """Add one batch."""
        array = values.detach().double().cpu().numpy()
        if name not in self._sums:
            shape = (len(self._rows), *array.shape[2:])
            self._sums[name], self._counts[name] = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        rows = [self._rows[number] for number in simulation.tolist()]
        defined = ~np.isnan(array)
        np.add.at(self._sums[name], rows, np.where(defined, array, 0.0).sum(axis=1))
        np.add.at(self._counts[name], rows, defined.sum(axis=1))

    def of(self, name: str) -> Float64[np.ndarray, "simulation *rest"]:
        """The mean of each simulation; NaN if no window defines it."""
        with np.errstate(invalid="ignore"):
            means: Float64[np.ndarray, "simulation *rest"] = self._sums[name] / self._counts[name]
        return means

    def overall(self, name: str) -> tuple[float, ...]:
        """The mean over simulations of each entry."""
        return tuple(mean_of_defined(self.of(name), axis=0).tolist())

    def summary(self, name: str) -> Summary:
        """Mean and interval over simulations of a number."""
        return summary(self.of(name))

    def summaries(self, name: str) -> tuple[Summary, ...]:
        """Mean and interval over simulations of each entry of a list."""
        return tuple(summary(column) for column in self.of(name).T)


def mean_of_defined(values: Float64[np.ndarray, "..."], axis: int) -> Float64[np.ndarray, "..."]:
    """The mean of the values that are not NaN; NaN if there are none.

    >>> mean_of_defined(np.array([[1.0, np.nan], [np.nan, np.nan], [2.0, np.inf]]), axis=1)
    array([ 1., nan, inf])
    """
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Float64[np.ndarray, "..."] = np.where(defined, values, 0.0).sum(axis=axis) / defined.sum(axis=axis)
    return mean
