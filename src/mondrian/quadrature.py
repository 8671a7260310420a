"""Quadrature rules on the cell-centred points of a cell, each with its declared order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from mondrian.polynomials import legendre_basis
from mondrian.support.constants import constant
from mondrian.support.spec import Spec
from mondrian.support.tensors import product_points


@dataclass(frozen=True)
class Quadrature(Spec):
    r"""A rule $\int_0^1 f \approx \sum_j w_j f((j + \tfrac12)/n)$ with positive weights that sum to one.

    On a box the rule is the product of the rules along its axes; the measure of the box is one.
    """

    equal_weights: ClassVar[bool] = False  # for any number of points

    @property
    def order(self) -> int:
        """The power of `1 / n` with which the error on smooth functions falls."""
        raise NotImplementedError

    def axis_weights(self, points: int) -> Float64[Tensor, " point"]:
        """The weights along one axis."""
        raise NotImplementedError

    def weights(self, points: tuple[int, ...]) -> Float64[Tensor, " point"]:
        """The weights of a box, its points flattened in axis order.

        >>> Midpoint().weights((2, 2))
        tensor([0.2500, 0.2500, 0.2500, 0.2500], dtype=torch.float64)
        """
        product = torch.ones(1, dtype=torch.float64)
        for n in points:
            product = torch.outer(product, self.axis_weights(n)).flatten()
        return product


@dataclass(frozen=True)
class Midpoint(Quadrature):
    """Equal weights, second order."""

    equal_weights: ClassVar[bool] = True

    @property
    def order(self) -> int:
        return 2

    def axis_weights(self, points: int) -> Float64[Tensor, " point"]:
        if points < 1:
            raise ValueError(f"points={points} per axis are too few; needed at least 1")
        return torch.full((points,), 1 / points, dtype=torch.float64)


@dataclass(frozen=True)
class EndCorrected(Quadrature):
    r"""The midpoint rule, corrected at both ends by the first terms of its Euler-Maclaurin error.

    $$\int_0^1 f = h \sum_j f(x_j) + \tfrac{h^2}{24} [f']_0^1 - \tfrac{7 h^4}{5760} [f''']_0^1 + O(h^6)$$

    With one term the rule is of fourth order, with two of sixth. The derivatives at the ends are one-sided
    differences of the nearest `order - 1` points.

    >>> 24 * 8 * EndCorrected(terms=1).axis_weights(8)[:4]
    tensor([26., 21., 25., 24.], dtype=torch.float64)
    """

    terms: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.terms not in (1, 2):
            raise ValueError(f"terms={self.terms} is not available; needed 1 (fourth order) or 2 (sixth order)")

    @property
    def order(self) -> int:
        return 2 + 2 * self.terms

    def axis_weights(self, points: int) -> Float64[Tensor, " point"]:
        stencil = self.order - 1
        if points < stencil:
            raise ValueError(f"points={points} per axis are too few for terms={self.terms}; needed at least {stencil}")
        factors = {1: 1 / 24, 3: -7 / 5760}
        correction = torch.zeros(stencil, dtype=torch.float64)
        for degree in (1, 3)[: self.terms]:
            correction += factors[degree] * _end_derivative(stencil, degree)
        weights = torch.ones(points, dtype=torch.float64)
        weights[:stencil] -= correction
        weights[points - stencil :] -= correction.flip(0)  # the mirror image: an odd derivative changes its sign
        return weights / points


def _end_derivative(points: int, degree: int) -> Float64[Tensor, " point"]:
    """Coefficients of the derivative at 0 from the values at 1/2, 3/2, ..., in units of the spacing."""
    positions = torch.arange(points, dtype=torch.float64) + 0.5
    moments = torch.zeros(points, dtype=torch.float64)
    moments[degree] = math.factorial(degree)
    return torch.linalg.solve(torch.linalg.vander(positions).mT, moments)


@dataclass(frozen=True)
class Cell:
    r"""The reference cell $[-1, 1]^d$ of a decomposition: its points, flattened, and a quadrature rule.

    `coordinates` is `(point, axis)`; `weights` is `(point)` and sums to one. Two cells are equal if they have the
    same points and the same rule.

    >>> Cell.build((2,), Midpoint()).coordinates
    tensor([[-0.5000],
            [ 0.5000]])
    """

    points: tuple[int, ...]
    quadrature: Quadrature
    coordinates: Float[Tensor, "point axis"] = field(compare=False, repr=False)
    weights: Float[Tensor, " point"] = field(compare=False, repr=False)

    @staticmethod
    def build(
        points: tuple[int, ...],
        quadrature: Quadrature,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Cell:
        """The cell with these points along each axis; its tensors are made once, in float64, and cast."""
        like = torch.empty(0, dtype=dtype, device=device)
        return Cell(points, quadrature, *_points_and_weights(points, quadrature, like.dtype, like.device))

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(self.points)

    def basis(self, terms: int) -> Float[Tensor, "point basis"]:
        """The Legendre products of total degree below `terms`, evaluated at the points."""
        return _basis(self.points, terms, self.coordinates.dtype, self.coordinates.device)

    def split(self, parts: tuple[int, ...]) -> Cell:
        """The cell of one of the equal boxes into which `parts` cuts this cell."""
        if len(parts) != len(self.points) or any(k < 1 or n % k for n, k in zip(self.points, parts, strict=True)):
            raise ValueError(f"parts={parts} must divide the {self.points} points of a cell")
        if math.prod(parts) == 1:
            return self
        inner = tuple(n // k for n, k in zip(self.points, parts, strict=True))
        return Cell.build(inner, self.quadrature, dtype=self.weights.dtype, device=self.weights.device)


@constant
def _points_and_weights(
    points: tuple[int, ...], quadrature: Quadrature, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "point axis"], Float[Tensor, " point"]]:
    return _coordinates(points, device).to(dtype), quadrature.weights(points).to(device, dtype)


@constant
def _basis(points: tuple[int, ...], terms: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return legendre_basis(_coordinates(points, device), terms).to(dtype)


def _coordinates(points: tuple[int, ...], device: torch.device) -> Float64[Tensor, "point axis"]:
    return product_points([(2 * torch.arange(n, dtype=torch.float64, device=device) + 1) / n - 1 for n in points])
