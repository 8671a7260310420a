"""Errors of predicted fields, one number per sample or per channel of a sample, in float64.

Infinity and NaN mean different things here. A prediction that is not finite has an infinite error: a model that blew
up must not look better for it. NaN means that the metric is undefined for this *truth* (no interface, no variation),
for any prediction, so that all models are compared over the same samples; `evaluation.statistics.summary` leaves NaN
out and counts the other samples.

Means over space weight all points equally, or by quadrature `weights` of points that represent unequal parts of the
domain.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from mondrian.grid import Grid


def mean_absolute_error(
    prediction: Float[Tensor, "batch channel *space"],
    truth: Float[Tensor, "batch channel *space"],
    weights: Float[Tensor, "*space"] | None = None,
) -> Float64[Tensor, "batch channel"]:
    r"""$\frac1n \sum_x |p(x) - t(x)|$ of each channel.

    >>> mean_absolute_error(torch.tensor([[[1.0, 5.0]]]), torch.tensor([[[2.0, 2.0]]]))
    tensor([[2.]], dtype=torch.float64)
    >>> mean_absolute_error(torch.tensor([[[1.0, 5.0]]]), torch.tensor([[[2.0, 2.0]]]), torch.tensor([0.3, 0.1]))
    tensor([[1.5000]], dtype=torch.float64)
    """
    return _mean(_difference(prediction, truth).abs(), weights)


def mean_square_error(
    prediction: Float[Tensor, "batch channel *space"],
    truth: Float[Tensor, "batch channel *space"],
    weights: Float[Tensor, "*space"] | None = None,
) -> Float64[Tensor, "batch channel"]:
    r"""$\frac1n \sum_x (p(x) - t(x))^2$ of each channel.

    >>> mean_square_error(torch.tensor([[[1.0, 5.0]]]), torch.tensor([[[2.0, 2.0]]]))
    tensor([[5.]], dtype=torch.float64)
    """
    return _mean(_difference(prediction, truth).square(), weights)


def maximum_error(
    prediction: Float[Tensor, "batch channel *space"], truth: Float[Tensor, "batch channel *space"]
) -> Float64[Tensor, "batch channel"]:
    r"""$\max_x |p(x) - t(x)|$ of each channel.

    >>> maximum_error(torch.tensor([[[1.0, 5.0]]]), torch.tensor([[[2.0, 2.0]]]))
    tensor([[3.]], dtype=torch.float64)
    """
    return _difference(prediction, truth).abs().flatten(2).amax(dim=2)


def relative_l2_error(
    prediction: Float[Tensor, "batch channel *space"],
    truth: Float[Tensor, "batch channel *space"],
    weights: Float[Tensor, "*space"] | None = None,
) -> Float64[Tensor, "batch channel"]:
    r"""$\|p - t\|_2 / \|t\|_2$ of each channel, because channels may have different units.

    NaN where the truth vanishes.

    >>> relative_l2_error(torch.tensor([[[3.0, 0.0]]]), torch.tensor([[[0.0, 4.0]]]))
    tensor([[1.2500]], dtype=torch.float64)
    """
    difference = _difference(prediction, truth)
    if weights is not None:
        size = _mean(truth.double().square(), weights)
        return torch.where(size == 0, math.nan, _mean(difference.square(), weights) / size).sqrt()
    error = torch.linalg.vector_norm(difference.flatten(2), dim=2)
    size = torch.linalg.vector_norm(truth.double().flatten(2), dim=2)
    return torch.where(size == 0, math.nan, error / size)


def interface_error(
    prediction: Float[Tensor, "batch channel *space"],
    truth: Float[Tensor, "batch channel *space"],
    grid: Grid,
    *,
    level: float = 0.9,
    distance: float | None = None,
) -> Float64[Tensor, "batch channel"]:
    r"""Mean absolute error over the points $\Gamma$ near the interface between the phases $\pm 1$ of each channel.

    $$\frac{1}{|\Gamma|} \sum_{x \in \Gamma} |p(x) - t(x)|$$

    NaN where the truth has no interface. See `near_interface` for $\Gamma$, `level` and `distance`.

    >>> truth = torch.tensor([[[-1.0, -1.0, -1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]])
    >>> interface_error(torch.zeros(1, 2, 6), truth, Grid(extent=(1.0,)))
    tensor([[1., nan]], dtype=torch.float64)
    """
    error = _difference(prediction, truth).abs()
    near = near_interface(truth, grid, level=level, distance=distance)
    total = torch.where(near, error, 0.0).flatten(2).sum(dim=2)
    return total / near.flatten(2).sum(dim=2)  # 0 / 0 without an interface


def near_interface(
    truth: Float[Tensor, "batch channel *space"], grid: Grid, *, level: float = 0.9, distance: float | None = None
) -> Bool[Tensor, "batch channel *space"]:
    r"""The points within `distance` of a point of the interface along every axis.

    The interface consists of the points with $|t| <$ `level` (for a profile $\tanh(x / \sqrt{2\gamma})$ and 0.9, those
    within $1.5 \sqrt{2 \gamma}$) and of the two points beside every change of sign, which are all that a layer thinner
    than the spacing has. The distance is a length, not a number of points, so that errors at several resolutions are
    comparable; by default it is a 32nd of the shortest extent, one point at the paper's training resolution.

    >>> near_interface(torch.tensor([[[-1.0, -1.0, -1.0, 1.0, 1.0]]]), Grid(extent=(5.0,)), distance=1.0)
    tensor([[[False,  True,  True,  True,  True]]])
    """
    check_space(truth, grid, "truth")
    if not (math.isfinite(level) and level > 0):
        raise ValueError(f"level={level} must be a finite positive number")
    length = min(grid.extent) / 32 if distance is None else distance
    if not (math.isfinite(length) and length >= 0):
        raise ValueError(f"distance={distance} must be finite and not negative")
    positive = truth > 0
    near = truth.abs() < level
    for axis in range(grid.dim):
        for step in (1, -1):
            near = near | (_shifted(positive, axis, step, grid) != positive)
    for axis in range(grid.dim):
        points = truth.shape[2 + axis]
        reach = min(math.floor(length * points / grid.extent[axis] + 1e-6), points - 1)
        line = near
        for step in range(1, reach + 1):
            near = near | _shifted(line, axis, step, grid) | _shifted(line, axis, -step, grid)
    return near


def correlation(
    prediction: Float[Tensor, "batch channel *space"], truth: Float[Tensor, "batch channel *space"]
) -> Float64[Tensor, " batch"]:
    r"""Pearson's correlation of a sample, over space and channels.

    $$\frac{\langle p - \bar p, t - \bar t \rangle}{\|p - \bar p\| \, \|t - \bar t\|}$$

    NaN where the truth is constant; 0 where the prediction is constant or not finite. The means are over all channels.
    Channels with different offsets would correlate by the offsets alone: pass such channels one at a time.

    >>> correlation(torch.tensor([[[1.0, 2.0, 3.0]]]), torch.tensor([[[1.0, 3.0, 2.0]]]))
    tensor([0.5000], dtype=torch.float64)
    """
    check_pair(prediction, truth)
    check_finite(truth)
    p, t = prediction.double().flatten(1), truth.double().flatten(1)
    product = (_standardised(p) * _standardised(t)).sum(dim=1).clamp(-1, 1)  # rounding must not pass 1
    usable = p.isfinite().all(dim=1) & ~_constant(p)
    return torch.where(_constant(t), math.nan, torch.where(usable, product, 0.0))


def correlation_time(
    correlations: Float[Tensor, "batch time"], times: Float[Tensor, " time"], threshold: float = 0.8
) -> Float64[Tensor, " batch"]:
    """The first time at which the correlation falls below the threshold, linear between frames.

    The last time if it never falls below (a lower bound), the first time if it starts below, and NaN if the correlation
    is undefined before it falls.

    >>> correlations = torch.tensor([[1.0, 0.875, 0.625], [1.0, 0.9, 0.85]])
    >>> correlation_time(correlations, torch.tensor([0.0, 2.0, 4.0]), threshold=0.75)
    tensor([3., 4.], dtype=torch.float64)
    """
    if correlations.ndim != 2 or times.shape != correlations.shape[1:] or not len(times):
        raise ValueError(
            f"times has shape {tuple(times.shape)} and correlations {tuple(correlations.shape)}; "
            "needed (time,) and (batch, time), with at least one time"
        )
    if not -1 <= threshold <= 1:
        raise ValueError(f"threshold={threshold} must be from -1 to 1")
    if not (times.isfinite().all() and (times.diff() > 0).all()):
        raise ValueError(f"times={times.tolist()} must be finite and increase")
    c, t = correlations.double(), times.double().to(correlations.device)
    fallen = ~(c >= threshold)  # NaN too
    frame = fallen.int().argmax(dim=1)
    earlier = (frame - 1).clamp(min=0)
    after, before = (c.gather(1, at[:, None])[:, 0] for at in (frame, earlier))
    fraction = (before - threshold) / (before - after)
    crossing = torch.where(frame == 0, t[0], t[earlier] + fraction * (t[frame] - t[earlier]))
    return torch.where(fallen.any(dim=1), torch.where(after.isnan(), math.nan, crossing), t[-1])


def check_pair(prediction: Tensor, truth: Tensor, *, name: str = "truth") -> None:
    """Raise `ValueError` for fields of different shapes, or without values."""
    if prediction.shape != truth.shape or prediction.ndim < 3 or not prediction.numel():
        raise ValueError(
            f"prediction has shape {tuple(prediction.shape)} and {name} {tuple(truth.shape)}; "
            "needed two equal shapes (batch, channel, *space) with at least one value"
        )


def check_space(u: Tensor, grid: Grid, name: str) -> None:
    """Raise `ValueError` for a field whose space axes are not those of the grid."""
    if u.ndim != 2 + grid.dim or not u.numel():
        raise ValueError(
            f"{name} has shape {tuple(u.shape)}; a grid with extent={grid.extent} needs (batch, channel, *space) "
            f"with {grid.dim} space axes and at least one value"
        )
    if not grid.is_cell_centred:
        raise ValueError(
            f"grid has ends={grid.ends}; sums over points need cell-centred points, see mondrian.resampling"
        )


def _difference(prediction: Tensor, truth: Tensor) -> Tensor:
    """p - t in float64, infinite where the prediction is not a number."""
    check_pair(prediction, truth)
    check_finite(truth)
    return (prediction.double() - truth.double()).nan_to_num(nan=math.inf, posinf=math.inf, neginf=-math.inf)


def _mean(
    values: Float64[Tensor, "batch channel *space"], weights: Float[Tensor, "*space"] | None
) -> Float64[Tensor, "batch channel"]:
    """The mean over space of values that are not negative."""
    if weights is None:
        return values.flatten(2).mean(dim=2)
    if weights.shape != values.shape[2:]:
        raise ValueError(f"weights has shape {tuple(weights.shape)}; needed one for each of {tuple(values.shape[2:])}")
    fractions = (weights.double() / weights.double().sum()).to(values.device)
    mean = (values * fractions).flatten(2).sum(dim=2)
    return mean.nan_to_num(nan=math.inf, posinf=math.inf)  # an infinite error where the weight is zero


def check_finite(truth: Tensor) -> None:
    """Raise `ValueError` for a truth that is not finite everywhere. Waits for the device."""
    bad = int((~truth.isfinite()).sum())
    if bad:
        raise ValueError(f"truth has {bad} of {truth.numel()} values that are not finite; needed finite values")


def _constant(u: Float64[Tensor, "batch value"]) -> Bool[Tensor, " batch"]:
    return u.amax(dim=1) == u.amin(dim=1)  # the variance of a constant is not exactly zero


def _standardised(u: Float64[Tensor, "batch value"]) -> Float64[Tensor, "batch value"]:
    """Values with zero mean and unit norm; scaled by the largest first, so that no square over- or underflows."""
    largest = u.abs().amax(dim=1, keepdim=True)
    v = u / torch.where(largest > 0, largest, 1.0)
    v = v - v.mean(dim=1, keepdim=True)
    return v / torch.linalg.vector_norm(v, dim=1, keepdim=True)


def _shifted(mask: Bool[Tensor, "batch channel *space"], axis: int, step: int, grid: Grid) -> Tensor:
    """`mask` shifted by `step` points: cyclically on a periodic axis, otherwise with its ends repeated.

    Repeated ends are harmless here: no point differs in sign from itself, and an end lies within `step` of its copies.
    """
    points, dim = mask.shape[2 + axis], 2 + axis
    index = torch.arange(points, device=mask.device) - step
    index = index % points if grid.periodic[axis] else index.clamp(0, points - 1)
    return mask.index_select(dim, index)
