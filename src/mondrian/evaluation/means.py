"""Means of each simulation, kept while batches pass by: memory for the simulations, none for their fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Int
from torch import Tensor

from mondrian.evaluation.statistics import Summary, summary


class Means:
    """Running means over the windows and channels of each simulation, by the name of what is averaged.

    Windows of one simulation are no independent samples, so they become one number before anything is said about
    spread. NaN, a measure that this truth leaves undefined, is left out; an infinite error stays infinite.

    >>> import torch
    >>> means = Means([4, 7])
    >>> means.add("mae", torch.tensor([4, 4, 7]), torch.tensor([[1.0], [3.0], [5.0]]))
    >>> means.of("mae")
    array([2., 5.])
    """

    def __init__(self, simulations: Sequence[int]) -> None:
        self._places = {simulation: place for place, simulation in enumerate(simulations)}
        self._sums: dict[str, Any] = {}
        self._counts: dict[str, Any] = {}

    def add(self, name: str, simulation: Int[Tensor, " batch"], values: Float[Tensor, "batch channel *rest"]) -> None:
        """Take in one batch."""
        array = values.detach().double().cpu().numpy()
        if name not in self._sums:
            shape = (len(self._places), *array.shape[2:])
            self._sums[name], self._counts[name] = np.zeros(shape), np.zeros(shape, dtype=np.int64)
        places = [self._places[number] for number in simulation.tolist()]
        defined = ~np.isnan(array)
        np.add.at(self._sums[name], places, np.where(defined, array, 0.0).sum(axis=1))
        np.add.at(self._counts[name], places, defined.sum(axis=1))

    def of(self, name: str) -> Float64[np.ndarray, "simulation *rest"]:
        """The mean of each simulation, NaN where it is not defined in any window."""
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
    """The mean of what is not NaN; NaN where nothing else is.

    >>> mean_of_defined(np.array([[1.0, np.nan], [np.nan, np.nan], [2.0, np.inf]]), axis=1)
    array([ 1., nan, inf])
    """
    defined = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        mean: Float64[np.ndarray, "..."] = np.where(defined, values, 0.0).sum(axis=axis) / defined.sum(axis=axis)
    return mean
