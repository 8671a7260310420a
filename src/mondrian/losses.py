"""Losses: specs that are called with a prediction, a target and their grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid
from mondrian.metrics import check_pair, check_space
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Loss(Spec):
    """The distance of a prediction from its target, computed in float32 or better.

    Subclasses implement `evaluate`, whose arguments are checked and cast. The points of the grid do not matter: their
    number is that of the fields. Nothing waits for the device.
    """

    on_points: ClassVar[bool] = False  # whether `at_points` is implemented

    def __call__(
        self,
        prediction: Float[Tensor, "batch channel *space"],
        target: Float[Tensor, "batch channel *space"],
        grid: Grid,
    ) -> Float[Tensor, ""]:
        check_pair(prediction, target, name="target")
        check_space(prediction, grid, "prediction")
        dtype = torch.promote_types(torch.promote_types(prediction.dtype, target.dtype), torch.float32)
        return self.evaluate(prediction.to(dtype), target.to(dtype), grid)

    def evaluate(
        self,
        prediction: Float[Tensor, "batch channel *space"],
        target: Float[Tensor, "batch channel *space"],
        grid: Grid,
    ) -> Float[Tensor, ""]:
        """The loss of two fields of one shape and precision."""
        raise NotImplementedError

    def at_points(
        self,
        predictions: Sequence[Float[Tensor, "channel _"]],
        targets: Sequence[Float[Tensor, "channel _"]],
        weights: Sequence[Float[Tensor, " _"]],
    ) -> Float[Tensor, ""]:
        """The loss of functions given at points, each with the quadrature weights of its points."""
        raise NotImplementedError


@dataclass(frozen=True)
class MeanSquare(Loss):
    r"""$\operatorname{mean} (p - t)^2$ over samples, channels and points: the loss of the paper.

    >>> MeanSquare()(torch.tensor([[[1.0, 5.0]]]), torch.tensor([[[2.0, 2.0]]]), Grid(extent=(1.0,)))
    tensor(5.)
    """

    on_points: ClassVar[bool] = True

    def evaluate(
        self,
        prediction: Float[Tensor, "batch channel *space"],
        target: Float[Tensor, "batch channel *space"],
        grid: Grid,
    ) -> Float[Tensor, ""]:
        return (prediction - target).square().mean()

    def at_points(
        self,
        predictions: Sequence[Float[Tensor, "channel _"]],
        targets: Sequence[Float[Tensor, "channel _"]],
        weights: Sequence[Float[Tensor, " _"]],
    ) -> Float[Tensor, ""]:
        errors = [_weighted_square(p - t, w) for p, t, w in zip(predictions, targets, weights, strict=True)]
        return torch.stack(errors).mean()


@dataclass(frozen=True)
class RelativeL2(Loss):
    r"""The relative error of a sample, all its channels together, averaged over the batch.

    $$\frac1B \sum_b \frac{\|p_b - t_b\|}{\max(\|t_b\|, \varepsilon)}, \qquad
    \|u\|^2 = \operatorname{mean}_{c, x} u_c(x)^2$$

    The norm covers all channels together: by itself a channel that nearly vanishes in a sample (the cross-flow of a
    shear flow) would outweigh the rest. Training scales channels of different units beforehand. The norms are means,
    so that `epsilon` is a field value at any number of points; errors of smaller targets are relative to `epsilon`.
    At $p = t$ the gradient is zero.

    >>> RelativeL2()(torch.tensor([[[3.0, 0.0]]]), torch.tensor([[[0.0, 4.0]]]), Grid(extent=(1.0,)))
    tensor(1.2500)
    """

    on_points: ClassVar[bool] = True
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon={self.epsilon} must be a finite positive number")

    def evaluate(
        self,
        prediction: Float[Tensor, "batch channel *space"],
        target: Float[Tensor, "batch channel *space"],
        grid: Grid,
    ) -> Float[Tensor, ""]:
        return (_norm(prediction - target) / _norm(target).clamp(min=self.epsilon)).mean()

    def at_points(
        self,
        predictions: Sequence[Float[Tensor, "channel _"]],
        targets: Sequence[Float[Tensor, "channel _"]],
        weights: Sequence[Float[Tensor, " _"]],
    ) -> Float[Tensor, ""]:
        parts = list(zip(predictions, targets, weights, strict=True))
        errors, sizes = (
            torch.stack(list(squares))
            for squares in zip(
                *((_weighted_square(p - t, w), _weighted_square(t, w)) for p, t, w in parts), strict=True
            )
        )
        least = torch.finfo(errors.dtype).tiny  # the root has no slope at an error of zero
        return (errors.clamp(min=least).sqrt() / sizes.sqrt().clamp(min=self.epsilon)).mean()


@dataclass(frozen=True)
class Sobolev(Loss):
    r"""The mean square of the error and of its gradient, a squared $H^1$ norm.

    $$\operatorname{mean} \Bigl( e^2 + w \ell^2 |\nabla e|^2 \Bigr), \qquad e = p - t, \quad \ell = \max_a L_a / 2\pi$$

    The length $\ell$ makes the sum dimensionless and isotropic: mode $m$ of the error has the weight $1 + w m^2$ on a
    periodic axis of the longest extent, and $1 + w m^2 / 4$ on another axis of that extent, whose modes are cosines of
    half the frequency. With `weight=0` this is `MeanSquare`. The derivatives are those of `derivative`, of second
    order; for an error that alternates from point to point they vanish, and it counts in the first term only.

    >>> x = Grid(extent=(1.0,), points=(64,), periodic=(True,))
    >>> wave = 2**0.5 * torch.sin(2 * torch.pi * x.axis(0))[None, None]
    >>> Sobolev(weight=3.0)(wave, torch.zeros_like(wave), x)
    tensor(3.9904)
    """

    weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError(f"weight={self.weight} must be finite and not negative")

    def evaluate(
        self,
        prediction: Float[Tensor, "batch channel *space"],
        target: Float[Tensor, "batch channel *space"],
        grid: Grid,
    ) -> Float[Tensor, ""]:
        error = prediction - target
        length = max(grid.extent) / (2 * math.pi)
        loss = error.square().mean()
        for axis in range(grid.dim):
            slope = length * derivative(error, grid, axis)
            loss = loss + self.weight * slope.square().mean()
        return loss


def derivative(
    u: Float[Tensor, "batch channel *space"], grid: Grid, axis: int
) -> Float[Tensor, "batch channel *space"]:
    r"""The derivative along one axis of the box, of second order up to the ends.

    $$u'_j = \frac{u_{j+1} - u_{j-1}}{2h} + O(h^2)$$

    A periodic axis wraps. On another axis the values beyond the ends are extrapolated by the parabola through the
    nearest three points, $u_{-1} = 3 u_0 - 3 u_1 + u_2$, which gives the one-sided $(-3 u_0 + 4 u_1 - u_2) / 2h$.

    >>> x = Grid(extent=(2.0,), points=(4,))
    >>> derivative(x.axis(0)[None, None] ** 2, x, 0)
    tensor([[[0.5000, 1.5000, 2.5000, 3.5000]]])
    """
    check_space(u, grid, "u")
    if not 0 <= axis < grid.dim:
        raise ValueError(f"axis={axis} is not an axis of a grid with extent={grid.extent}; needed 0 to {grid.dim - 1}")
    points, dim = u.shape[2 + axis], 2 + axis
    if points < 3:
        raise ValueError(f"u has {points} points along axis {axis}, shape {tuple(u.shape)}; a derivative needs 3")

    def at(start: int) -> Tensor:
        return u.narrow(dim, start, 1)

    if grid.periodic[axis]:
        left, right = at(points - 1), at(0)
    else:
        left = 3 * at(0) - 3 * at(1) + at(2)
        right = 3 * at(points - 1) - 3 * at(points - 2) + at(points - 3)
    padded = torch.cat([left, u, right], dim)
    step = grid.extent[axis] / points
    return (padded.narrow(dim, 2, points) - padded.narrow(dim, 0, points)) / (2 * step)


def _norm(u: Float[Tensor, "batch channel *space"]) -> Float[Tensor, " batch"]:
    values = u.flatten(1)
    return torch.linalg.vector_norm(values, dim=1) / math.sqrt(values.shape[1])


def _weighted_square(u: Float[Tensor, "channel point"], weights: Float[Tensor, " point"]) -> Float[Tensor, ""]:
    """The mean square over channels and the domain, in float32 or better."""
    dtype = torch.promote_types(u.dtype, torch.float32)
    weights = weights.to(u.device, dtype)
    return (u.to(dtype).square().mean(dim=0) * weights).sum() / weights.sum()
