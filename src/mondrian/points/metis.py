"""Partitions of a graph of points by METIS, into parts of similar size with few edges between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from mondrian.points.partition import Partition, PartitionSpec
from mondrian.points.point_set import PointSet
from mondrian.support.libraries import library


@dataclass(frozen=True)
class MetisParts(PartitionSpec):
    """A partition of the points' graph into `parts` of about the same number of points.

    The box of a part is the bounding box of its points, enlarged by half a spacing on every side, where the spacing is
    (measure of the part / number of its points)$^{1/d}$: for a part of a regular grid this is the part itself, and a
    part with one point has a box too. METIS may leave a part empty; its box is then of the mean size in the middle of
    the domain, and no other cell attends to it. The parts ignore periodicity: opposite sides do not meet.
    """

    parts: int
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parts < 1:
            raise ValueError(f"parts={self.parts} must be at least 1")

    def cut(self, points: PointSet) -> Partition:
        if points.edges is None:
            raise ValueError("points has edges=None; METIS needed Mesh.point_set() or with_neighbours(points)")
        if self.parts > points.size:
            raise ValueError(f"parts={self.parts} must be at most the number of points, {points.size}")
        return parts_of(points, _metis(points.edges, points.size, self.parts, self.seed), self.parts)


def parts_of(points: PointSet, members: Int[Tensor, " point"], parts: int) -> Partition:
    """The partition in which each point belongs to the part that `members` names."""
    if members.shape != (points.size,) or not 0 <= int(members.min()) <= int(members.max()) < parts:
        raise ValueError(
            f"members has shape {tuple(members.shape)} and names parts {int(members.min())} to {int(members.max())}; "
            f"needed one of {parts} parts for each of {points.size} points"
        )
    if points.weights is None:
        raise ValueError("points has weights=None; needed weights for the sizes of the parts")
    x = points.coordinates
    index = members[:, None].expand_as(x)
    empty = x.new_full((parts, points.dim), torch.inf)
    low, high = empty.scatter_reduce(0, index, x, "amin"), (-empty).scatter_reduce(0, index, x, "amax")
    count = torch.bincount(members, minlength=parts)
    measure = x.new_zeros(parts).index_add(0, members, points.weights)
    spacing = (measure / count.clamp_min(1)) ** (1 / points.dim)
    sizes = high - low + spacing[:, None]
    known = (count > 0)[:, None] & (sizes > 0)
    typical = torch.stack([column[mask].mean() for column, mask in zip(sizes.mT, known.mT, strict=True)])
    origin, extent = (x.new_tensor(ends) for ends in (points.domain.origin, points.domain.extent))
    middle = origin + extent / 2
    centres = torch.where((count > 0)[:, None], (low + high) / 2, middle)
    return Partition(points, members, centres, torch.where(known, sizes, typical))


def with_neighbours(points: PointSet, neighbours: int = 6) -> PointSet:
    """The points with edges from each point to its nearest `neighbours`: a graph for points without a mesh."""
    from scipy.spatial import KDTree  # slow to import

    if not 1 <= neighbours < points.size:
        raise ValueError(f"neighbours={neighbours} must be at least 1 and below the number of points, {points.size}")
    x = points.coordinates.numpy()
    _, nearest = KDTree(x).query(x, k=neighbours + 1)
    start = np.arange(points.size).repeat(neighbours + 1)
    edges = np.stack([start, np.asarray(nearest).reshape(-1)], axis=1)
    return replace(points, edges=torch.from_numpy(edges[edges[:, 0] != edges[:, 1]]))


def _metis(edges: Int[Tensor, "edge 2"], points: int, parts: int, seed: int) -> Int[Tensor, " point"]:
    """The part of each point; an edge counts once in both directions, however often it is given."""
    from scipy.sparse import coo_array  # slow to import

    pymetis = library("pymetis", extra="mesh")
    first, second = edges.numpy().T
    both = coo_array((np.ones(2 * len(edges)), (np.r_[first, second], np.r_[second, first])), shape=(points, points))
    graph = both.tocsr()
    graph.setdiag(0)
    graph.eliminate_zeros()
    adjacency = pymetis.CSRAdjacency(graph.indptr, graph.indices)
    # recursive bisection: with many parts at once METIS scatters the points of small parts
    _, members = pymetis.part_graph(parts, adjacency, options=pymetis.Options(seed=seed), recursive=True)
    return torch.tensor(members, dtype=torch.int64, device="cpu")
