"""Quadrature weights of scattered points: from the points alone, or from the elements of a mesh."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy.typing import NDArray
from torch import Tensor

from mondrian.grid import Grid

THINNEST = 1e3  # largest aspect ratio of a box: in thinner boxes rounding makes cells vanish
INWARD = 1e-6  # fraction of a side by which points move towards the middle, so that none is its own mirror image,
APART = 1e-8  # and at least this fraction of the longest side: in thin boxes the two would still coincide
FILLED = 1e-4  # fraction of the box by which the cells may miss its volume before the diagram counts as wrong


def voronoi_weights(coordinates: Float[Tensor, "point axis"], box: Grid) -> Float64[Tensor, " point"]:
    r"""The volumes of the Voronoi cells of the points within the box; they sum to the volume of the box.

    The points are mirrored at every face, which makes each face a border between cells; along a periodic axis they are
    repeated instead, and a cell continues at the other end. The cell of $p$ consists of pyramids over the facets that
    it shares with its neighbours $q$, $|V_p| = \sum_q |F_{pq}| \, |x_p - x_q| / 2d$. Points that coincide share their
    cell equally. One, two or three dimensions, aspect ratios up to 1,000; $O(n \log n)$. All points move inward from
    the walls by up to 5 millionths of a side, which slightly enlarges the cells at the faces.

    >>> voronoi_weights(torch.tensor([[0.25], [0.75], [0.75]]), Grid(extent=(1.0,)))
    tensor([0.5000, 0.2500, 0.2500], dtype=torch.float64)
    """
    if box.dim > 3:
        raise ValueError(f"coordinates has {box.dim} axes; Voronoi weights need at most 3")
    if max(box.extent) > THINNEST * min(box.extent):
        raise ValueError(
            f"extent={box.extent} is too thin for a Voronoi diagram; needed aspect ratios up to {THINNEST:g}, or "
            "your own weights"
        )
    extent, middle = np.array(box.extent), np.array(box.origin) + np.array(box.extent) / 2
    inward = np.maximum(INWARD, APART * extent.max() / extent)
    scaled = (coordinates.detach().cpu().double().numpy() - middle) / extent
    wrapped = (np.round(scaled, 12) + 0.5) % 1 - 0.5  # both ends of a periodic axis are one point
    # rounding may have carried some points outside
    scaled = np.where(box.periodic, wrapped, np.clip(scaled, -0.5, 0.5) * (1 - inward))
    distinct, which, copies = np.unique(scaled, axis=0, return_inverse=True, return_counts=True)
    # Scaling changes which point is nearest: the diagram needs physical proportions.
    distinct *= extent
    volumes = _volumes(distinct, box) if box.dim > 1 else _lengths(distinct[:, 0], extent[0], ring=box.periodic[0])
    volume = math.prod(box.extent)
    if not (volumes > 0).all() or not abs(volumes.sum() - volume) < FILLED * volume:
        raise ValueError(
            f"coordinates lie too close to each other for a Voronoi diagram in extent={box.extent}: "
            f"{np.count_nonzero(~(volumes > 0))} of {len(volumes)} cells have no volume, and all together fill "
            f"{volumes.sum() / volume:.6g} of the box; needed your own weights"
        )
    volumes *= volume / volumes.sum()  # the points have moved inward
    which = which.reshape(-1)
    return torch.from_numpy(volumes[which] / copies[which])


def lumped_masses(
    vertices: Float[Tensor, "vertex axis"], simplices: Int[Tensor, "simplex corner"]
) -> Float64[Tensor, " vertex"]:
    """The volume of each simplex divided equally among its corners: exact for linear functions, second order.

    >>> lumped_masses(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([[0, 1], [1, 2]]))
    tensor([0.5000, 1.5000, 1.0000], dtype=torch.float64)
    """
    corners = simplices.shape[1]
    masses = (simplex_volumes(vertices, simplices) / corners).repeat_interleave(corners)
    return masses.new_zeros(len(vertices)).index_add(0, simplices.flatten(), masses)


def simplex_volumes(
    vertices: Float[Tensor, "vertex axis"], simplices: Int[Tensor, "simplex corner"]
) -> Float64[Tensor, " simplex"]:
    """The volume of each simplex, for either orientation."""
    corners = vertices.double()[simplices]
    sides = corners[:, 1:] - corners[:, :1]
    return torch.linalg.det(sides).abs() / math.factorial(sides.shape[-1])


def _lengths(x: NDArray[np.float64], extent: float, *, ring: bool) -> NDArray[np.float64]:
    """The cells of sorted points in one dimension, between the midpoints to their neighbours."""
    if ring:
        after = np.diff(x, append=x[0] + extent)
        return (after + np.roll(after, 1)) / 2
    ends = np.concatenate([[-extent / 2], (x[1:] + x[:-1]) / 2, [extent / 2]])
    return np.diff(ends)


def _volumes(points: NDArray[np.float64], box: Grid) -> NDArray[np.float64]:
    from scipy.spatial import QhullError, Voronoi  # slow to import

    count, dim = points.shape
    images = [points]
    for period, ring in zip(np.diag(box.extent), box.periodic, strict=True):
        if ring:  # along several axes at once too
            images += [image + shift for image in images for shift in (-period, period)]
    for axis, (side, ring) in enumerate(zip(box.extent, box.periodic, strict=True)):
        for face in () if ring else (-side / 2, side / 2):  # only its own mirror image bounds the cell of a point
            image = points.copy()
            image[:, axis] = 2 * face - image[:, axis]
            images.append(image)
    everything = np.concatenate(images)
    try:
        diagram = Voronoi(everything)
    except QhullError as error:
        raise ValueError(
            f"coordinates, {count} of them in a box with extent={box.extent}, have no Voronoi diagram: "
            f"{str(error).strip().splitlines()[0]}; needed your own weights"
        ) from error
    pairs = np.asarray(diagram.ridge_points)
    ours = np.flatnonzero((pairs < count).any(axis=1))
    areas = _facets(diagram.vertices, [diagram.ridge_vertices[ridge] for ridge in ours])
    pairs = pairs[ours]
    pyramids = areas * np.linalg.norm(everything[pairs[:, 0]] - everything[pairs[:, 1]], axis=1) / (2 * dim)
    volumes = np.zeros(len(everything))
    np.add.at(volumes, pairs[:, 0], pyramids)
    np.add.at(volumes, pairs[:, 1], pyramids)
    return volumes[:count]


def _facets(vertices: NDArray[np.float64], facets: list[list[int]]) -> NDArray[np.float64]:
    """Lengths of edges in the plane; areas of polygons, given by their corners in cyclic order, in space."""
    areas = np.empty(len(facets))
    by_corners: dict[int, list[int]] = defaultdict(list)
    for number, facet in enumerate(facets):
        by_corners[len(facet)].append(number)
    for numbers in by_corners.values():
        corners = vertices[np.array([facets[number] for number in numbers])]
        if vertices.shape[1] == 2:
            areas[numbers] = np.linalg.norm(corners[:, 1] - corners[:, 0], axis=1)
        else:
            sides = corners[:, 1:] - corners[:, :1]
            areas[numbers] = np.linalg.norm(np.cross(sides[:, :-1], sides[:, 1:]).sum(axis=1), axis=1) / 2
    return areas
