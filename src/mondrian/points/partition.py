"""Domains of points cut into cells, each with its own box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from mondrian.decomposition import Lattice
from mondrian.grid import Grid
from mondrian.points.point_set import PointSet, check_inside
from mondrian.support.spec import Spec


@dataclass(frozen=True, eq=False)
class Partition:
    r"""The cells of one domain, each with a box that is mapped to the reference cell $[-1, 1]^d$.

    $$x \mapsto 2 (x - \text{centre}_i) / \text{size}_i$$

    `members` is the cell of each of the given `points`. If the boxes tile the domain, `lattice` is their arrangement,
    and any other point belongs to the box it lies in (on a border to the upper box). If not, any other point belongs to
    the cell of the nearest given point.
    """

    points: PointSet
    members: Int[Tensor, " point"]
    centres: Float64[Tensor, "cell axis"]
    sizes: Float64[Tensor, "cell axis"]
    lattice: Lattice | None = None

    @property
    def cells(self) -> int:
        """Number of cells, empty ones included."""
        return len(self.centres)

    @property
    def counts(self) -> Int[Tensor, " cell"]:
        """Number of points in each cell."""
        return torch.bincount(self.members, minlength=self.cells)

    def locate(self, points: PointSet) -> Int[Tensor, " point"]:
        """The cells to which these points belong."""
        if points is self.points:
            return self.members
        check_inside(points.coordinates, self.points.domain)
        if self.lattice is not None:
            return box_of(points.coordinates, self.points.domain, self.lattice)
        from scipy.spatial import KDTree  # slow to import

        _, nearest = KDTree(self.points.coordinates.numpy()).query(points.coordinates.numpy())
        return self.members[torch.from_numpy(np.asarray(nearest, dtype=np.int64))]

    def local(self, points: PointSet, cells: Int[Tensor, " point"]) -> Float64[Tensor, "point axis"]:
        """The coordinates of the points in their cells, in $[-1, 1]$ or slightly beyond."""
        return 2 * (points.coordinates - self.centres[cells]) / self.sizes[cells]


@dataclass(frozen=True)
class PartitionSpec(Spec):
    """A way to cut domains into cells, with the same number of cells for all; some cells may be empty."""

    def check(self, dim: int) -> None:
        """Raise `ValueError` for a number of axes that does not fit."""

    def cut(self, points: PointSet) -> Partition:
        """The partition of the domain of these points."""
        raise NotImplementedError


@dataclass(frozen=True)
class Boxes(PartitionSpec):
    """Equal boxes, `subdomains` of them along each axis of the domain's box. Boxes without points stay empty.

    >>> points = PointSet(torch.tensor([[0.0, 0.0], [0.4, 0.9], [1.0, 1.0]]))
    >>> Boxes((2, 2)).cut(points).members
    tensor([0, 1, 3])
    """

    subdomains: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.subdomains or any(count < 1 for count in self.subdomains):
            raise ValueError(f"subdomains={self.subdomains} must hold a number of at least 1 for each axis")

    def check(self, dim: int) -> None:
        if len(self.subdomains) != dim:
            raise ValueError(f"subdomains={self.subdomains} has {len(self.subdomains)} axes; needed {dim}")

    def cut(self, points: PointSet) -> Partition:
        box = points.domain
        self.check(box.dim)
        lattice = Lattice(self.subdomains, box.periodic)
        x = points.coordinates
        origin, extent, count = (x.new_tensor(sides) for sides in (box.origin, box.extent, self.subdomains))
        centres = origin + (lattice.positions(x.device) + 0.5) * extent / count
        members = box_of(x, box, lattice)
        return Partition(points, members, centres, (extent / count).expand_as(centres), lattice)


def box_of(x: Float[Tensor, "point axis"], box: Grid, lattice: Lattice) -> Int[Tensor, " point"]:
    """The number of the box in which each point lies; points that rounding carries out go to the outermost box."""
    number = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for axis, count in enumerate(lattice.counts):
        along = (x[:, axis] - box.origin[axis]) * (count / box.extent[axis])
        number = number * count + along.floor().long().clamp(0, count - 1)
    return number
