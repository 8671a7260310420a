"""Quadrature weights of points that lie anywhere: from the points alone, or from the elements of a mesh."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy.typing import NDArray
from torch import Tensor

from mondrian.grid import Grid

THINNEST = 1e3  # sides of a box to each other: beyond, rounding makes cells vanish
INWARD = 1e-6  # of a side: by which points are drawn towards the middle, so that none lies on its own mirror image,
APART = 1e-8  # and of the longest side at least, or the two would be one in the diagram of a thin box
FILLED = 1e-4  # of the box: how much of it cells may leave out or share before the diagram counts as wrong


def voronoi_weights(coordinates: Float[Tensor, "point axis"], box: Grid) -> Float64[Tensor, " point"]:
    r"""The volume of what lies nearer to each point than to any other, within the box; they sum to the box's.

    The points are mirrored at every face, which makes each face a border between cells; along a periodic axis they are
    repeated instead, and a cell goes on at the other end. The cell of $p$ is made of
    pyramids over the facets it shares with its neighbours $q$, $|V_p| = \sum_q |F_{pq}| \, |x_p - x_q| / 2d$. Points
    that coincide share their cell equally. One, two or three dimensions, sides of up to 1 to 1,000; $O(n \log n)$.
    From walls all points are drawn inward by up to 5 millionths of a side, by which cells at faces gain.

    >>> voronoi_weights(torch.tensor([[0.25], [0.75], [0.75]]), Grid(extent=(1.0,)))
    tensor([0.5000, 0.2500, 0.2500], dtype=torch.float64)
    """
    if box.dim > 3:
        raise ValueError(f"coordinates has {box.dim} axes; Voronoi weights are for at most 3")
    if max(box.extent) > THINNEST * min(box.extent):
        raise ValueError(
            f"extent={box.extent} is too thin for a Voronoi diagram; needed sides of at most 1 to {THINNEST:g}, or "
            "weights of your own"
        )
    extent, middle = np.array(box.extent), np.array(box.origin) + np.array(box.extent) / 2
    inward = np.maximum(INWARD, APART * extent.max() / extent)
    scaled = (coordinates.detach().cpu().double().numpy() - middle) / extent
    round_it = (np.round(scaled, 12) + 0.5) % 1 - 0.5  # both ends of a ring are one place
    # rounding may have carried some outside
    scaled = np.where(box.periodic, round_it, np.clip(scaled, -0.5, 0.5) * (1 - inward))
    places, which, copies = np.unique(scaled, axis=0, return_inverse=True, return_counts=True)
    # Nearness is not kept by stretching: the diagram is drawn in physical proportions.
    places *= extent
    volumes = _volumes(places, box) if box.dim > 1 else _lengths(places[:, 0], extent[0], ring=box.periodic[0])
    volume = math.prod(box.extent)
    if not (volumes > 0).all() or not abs(volumes.sum() - volume) < FILLED * volume:
        raise ValueError(
            f"coordinates lie too close to each other for a Voronoi diagram in extent={box.extent}: "
            f"{np.count_nonzero(~(volumes > 0))} of {len(volumes)} cells have no volume, and all fill "
            f"{volumes.sum() / volume:.6g} of the box; needed weights of your own"
        )
    volumes *= volume / volumes.sum()  # what drawing inward has changed
    which = which.reshape(-1)
    return torch.from_numpy(volumes[which] / copies[which])


def lumped_masses(
    vertices: Float[Tensor, "vertex axis"], simplices: Int[Tensor, "simplex corner"]
) -> Float64[Tensor, " vertex"]:
    """Each simplex shared out equally to its corners: exact for functions that are linear on each, second order.

    >>> lumped_masses(torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([[0, 1], [1, 2]]))
    tensor([0.5000, 1.5000, 1.0000], dtype=torch.float64)
    """
    corners = simplices.shape[1]
    shares = (simplex_volumes(vertices, simplices) / corners).repeat_interleave(corners)
    return shares.new_zeros(len(vertices)).index_add(0, simplices.flatten(), shares)


def simplex_volumes(
    vertices: Float[Tensor, "vertex axis"], simplices: Int[Tensor, "simplex corner"]
) -> Float64[Tensor, " simplex"]:
    """The volume of each simplex, whichever way it is turned."""
    corners = vertices.double()[simplices]
    sides = corners[:, 1:] - corners[:, :1]
    return torch.linalg.det(sides).abs() / math.factorial(sides.shape[-1])


def _lengths(places: NDArray[np.float64], extent: float, *, ring: bool) -> NDArray[np.float64]:
    """In one dimension, sorted: from half-way to half-way."""
    if ring:
        after = np.diff(places, append=places[0] + extent)
        return (after + np.roll(after, 1)) / 2
    ends = np.concatenate([[-extent / 2], (places[1:] + places[:-1]) / 2, [extent / 2]])
    return np.diff(ends)


def _volumes(places: NDArray[np.float64], box: Grid) -> NDArray[np.float64]:
    from scipy.spatial import QhullError, Voronoi  # slow to import, and only needed here

    count, dim = places.shape
    images = [places]
    for period, ring in zip(np.diag(box.extent), box.periodic, strict=True):
        if ring:  # all ways round, along several axes at once too
            images += [image + way for image in images for way in (-period, period)]
    for axis, (side, ring) in enumerate(zip(box.extent, box.periodic, strict=True)):
        for face in () if ring else (-side / 2, side / 2):  # a point's own image is all that bounds its cell
            image = places.copy()
            image[:, axis] = 2 * face - image[:, axis]
            images.append(image)
    everything = np.concatenate(images)
    try:
        diagram = Voronoi(everything)
    except QhullError as error:
        raise ValueError(
            f"coordinates, {count} of them in a box with extent={box.extent}, have no Voronoi diagram: "
            f"{str(error).strip().splitlines()[0]}; needed weights of your own"
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
    """Lengths of edges in the plane, areas of polygons (whose corners come in order) in space."""
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
