"""The mean of a finite number of samples with its bootstrap interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

Values = Float[np.ndarray, " sample"] | Float[Tensor, " sample"]

CHUNK = 2**20  # values drawn at a time: 16 MB with their indices


@dataclass(frozen=True)
class Summary:
    """The mean of the defined values, its interval, and the number of values."""

    mean: float
    low: float
    high: float
    count: int


def summary(values: Values, *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0) -> Summary:
    """Mean and bootstrap interval of the values that are not NaN, and their number.

    `mondrian.metrics` gives NaN for samples where a metric is undefined. The mean is NaN if no value is defined, and
    the interval if there are fewer than two. An infinite error makes the mean infinite.

    >>> summary(np.array([1.0, np.nan, 3.0, 2.0, 2.0]))
    Summary(mean=2.0, low=1.25, high=2.75, count=4)
    """
    array = _array(values)
    array = array[~np.isnan(array)]
    low, high = math.nan, math.nan
    if len(array) > 1:
        low, high = bootstrap_interval(array, confidence, resamples, seed)
    mean = float(array.mean()) if len(array) else math.nan
    return Summary(mean, low, high, len(array))


def bootstrap_interval(
    values: Values, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    r"""The percentile bootstrap interval of the mean.

    $$\bigl[q_{(1-c)/2}, \; q_{(1+c)/2}\bigr] \quad\text{of}\quad \frac1n \sum_{i=1}^n v_{J_i}, \qquad
    J_i \text{ uniform on } 1, \dots, n$$

    It covers the true mean with probability $c - O(1/n)$, so it is slightly too narrow for few samples. The same values
    and seed give the same interval.

    >>> low, high = bootstrap_interval(np.arange(100.0))
    >>> round(low, 1), round(high, 1)
    (43.9, 55.1)
    """
    array = _array(values)
    if len(array) < 2 or np.isnan(array).any() or np.isneginf(array).any():
        raise ValueError(f"values={array} must be at least two numbers, none of them NaN or -inf")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0 and 1")
    if resamples < 1:
        raise ValueError(f"resamples={resamples} must be at least 1")
    means = np.sort(_resampled_means(array, resamples, np.random.default_rng(seed)))
    return _quantile(means, (1 - confidence) / 2), _quantile(means, (1 + confidence) / 2)


def _resampled_means(
    values: Float64[np.ndarray, " sample"], resamples: int, generator: np.random.Generator
) -> Float64[np.ndarray, " resample"]:
    means, size = np.empty(resamples), len(values)
    rows = max(1, CHUNK // size)
    for start in range(0, resamples, rows):
        chunk = means[start : start + rows]
        chunk[:] = values[generator.integers(0, size, (len(chunk), size))].mean(axis=1)
    return means


def _quantile(ordered: Float64[np.ndarray, " resample"], fraction: float) -> float:
    """Linear between order statistics like `numpy.quantile`, but defined if some of them are infinite."""
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    low, high = float(ordered[below]), float(ordered[min(below + 1, len(ordered) - 1)])
    return low if low == high or position == below else low + (position - below) * (high - low)


def _array(values: Values) -> Float64[np.ndarray, " sample"]:
    array = values.detach().double().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values, np.float64)
    if array.ndim != 1:
        raise ValueError(f"values has shape {array.shape}; needed (sample,)")
    return array
