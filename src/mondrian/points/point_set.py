"""Points anywhere in a box, with quadrature weights for the domain."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mondrian.grid import Grid
from mondrian.points.weights import voronoi_weights

SLACK = 1e-6  # fraction of the box by which rounding may carry a point outside


@dataclass(frozen=True, eq=False)
class PointSet:
    r"""Points $x_p$ of a domain, and weights with $\int_\Omega f \approx \sum_p w_p f(x_p)$.

    A weight is the measure of the part of the domain that a point represents: `Mesh.point_set` takes it from a mesh,
    `estimated` from the points alone, `of_grid` from a grid. A point of weight 0 does not count. Points without weights
    can only be output points. Points may coincide; their weights add up.

    `box` contains the domain; it is the bounding box of the points by default. `edges` are pairs of neighbouring
    points, for partitions of the graph. All tensors are in float64 on the CPU; a model moves what it needs.

    >>> points = PointSet.of_grid(Grid(extent=(2.0, 1.0), points=(4, 2)))
    >>> points.size, points.weights.sum().item()
    (8, 2.0)
    """

    coordinates: Float[Tensor, "point axis"]
    weights: Float[Tensor, " point"] | None = None
    box: Grid | None = None
    edges: Int[Tensor, "edge 2"] | None = None

    def __post_init__(self) -> None:
        x = self.coordinates
        if x.ndim != 2 or 0 in x.shape or not x.is_floating_point():
            raise ValueError(
                f"coordinates has shape {tuple(x.shape)} and dtype {x.dtype}; needed (point, axis), floating-point"
            )
        x = x.detach().to("cpu", torch.float64)
        check_finite(x, "coordinates")
        box = self.box or bounding_box(x)
        check_inside(x, box)
        object.__setattr__(self, "coordinates", x)
        object.__setattr__(self, "box", box)
        if self.weights is not None:
            object.__setattr__(self, "weights", _checked_weights(self.weights, len(x), box))
        if self.edges is not None:
            object.__setattr__(self, "edges", _checked_edges(self.edges, len(x)))

    @staticmethod
    def of_grid(grid: Grid) -> PointSet:
        """The points of a grid, flattened in axis order: midpoint rule, or trapezoidal rule at vertices."""
        coordinates = grid.coordinates(dtype=torch.float64, device="cpu").flatten(1).mT
        weights = coordinates.new_ones(1)
        for points, spacing, ends in zip(grid.points, grid.spacing, grid.ends, strict=True):
            along = weights.new_full((points,), spacing)
            if ends == 2:
                along[[0, -1]] /= 2
            weights = torch.outer(weights, along).flatten()
        return PointSet(coordinates, weights, grid)

    @staticmethod
    def estimated(coordinates: Float[Tensor, "point axis"], box: Grid | None = None) -> PointSet:
        """Points whose weights are the volumes of their Voronoi cells, clipped to the box.

        Only right if the domain is the whole box: the area of a hole goes to the points at its rim.
        """
        bare = PointSet(coordinates, box=box)
        return PointSet(bare.coordinates, voronoi_weights(bare.coordinates, bare.domain), bare.domain)

    @property
    def domain(self) -> Grid:
        """The box that contains the points."""
        assert self.box is not None
        return self.box

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.coordinates)

    @property
    def dim(self) -> int:
        """Number of axes."""
        return self.coordinates.shape[1]


def bounding_box(x: Float[Tensor, "point axis"]) -> Grid:
    """The smallest box that holds all points."""
    low, high = x.amin(dim=0), x.amax(dim=0)
    if not bool((high > low).all()):
        raise ValueError(f"coordinates reach from {low.tolist()} to {high.tolist()}, which is no box; needed box=...")
    return Grid(extent=tuple((high - low).tolist()), origin=tuple(low.tolist()))


def check_finite(x: Float[Tensor, "point axis"], name: str) -> None:
    """Raise `ValueError` for points that are not finite."""
    broken = (~x.isfinite()).any(dim=1).nonzero().flatten()
    if len(broken):
        raise ValueError(
            f"{name} holds {len(broken)} points that are not finite; the first is point {broken[0].item()} at "
            f"{x[broken[0]].tolist()}; needed finite coordinates"
        )


def check_inside(x: Float[Tensor, "point axis"], box: Grid) -> None:
    """Raise `ValueError` for points of another dimension or outside the box."""
    if x.shape[1] != box.dim:
        raise ValueError(f"coordinates has {x.shape[1]} axes; needed {box.dim}, as the box has")
    low, extent = x.new_tensor(box.origin), x.new_tensor(box.extent)
    beyond = torch.maximum(low - x, x - low - extent) / extent
    outside = (beyond > SLACK).any(dim=1).nonzero().flatten()
    if len(outside):
        raise ValueError(
            f"coordinates holds {len(outside)} points outside the box; the first is point {outside[0].item()} at "
            f"{x[outside[0]].tolist()}; needed within {low.tolist()} to {(low + extent).tolist()}"
        )


def _checked_weights(weights: Tensor, points: int, box: Grid) -> Tensor:
    if weights.shape != (points,) or not weights.is_floating_point():
        raise ValueError(
            f"weights has shape {tuple(weights.shape)} and dtype {weights.dtype}; needed ({points},), floating-point"
        )
    weights = weights.detach().to("cpu", torch.float64)
    if not bool(weights.isfinite().all()) or bool((weights < 0).any()):
        raise ValueError(f"weights must be finite and at least 0; the smallest is {weights.min().item()}")
    total, volume = weights.sum().item(), math.prod(box.extent)
    if not 0 < total <= volume * (1 + 1e-2):
        raise ValueError(
            f"weights sum to {total:.6g}; needed the measure of the domain, above 0 and at most the box's {volume:.6g}"
        )
    return weights


def _checked_edges(edges: Tensor, points: int) -> Tensor:
    if edges.ndim != 2 or edges.shape[1] != 2 or edges.is_floating_point():
        raise ValueError(
            f"edges has shape {tuple(edges.shape)} and dtype {edges.dtype}; needed (edge, 2), whole numbers"
        )
    if edges.numel() and not 0 <= int(edges.min()) <= int(edges.max()) < points:
        raise ValueError(f"edges names points {int(edges.min())} to {int(edges.max())}; needed 0 to {points - 1}")
    return edges.detach().to("cpu", torch.int64)
