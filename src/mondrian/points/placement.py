"""Placements: point sets sorted into the cells of their domains, with everything that a model needs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.decomposition import Lattice
from mondrian.points.arrangement import Arrangement
from mondrian.points.partition import Partition, PartitionSpec
from mondrian.points.point_set import PointSet
from mondrian.points.tiles import Tiles


@dataclass(frozen=True, eq=False)
class Placement:
    """The points of one or several domains, packed by cell; made once and used in every step.

    The cells of all domains are numbered through: `tiles` has `domains * cells` of them. `centres` and `sizes` are in
    units of half the box of each domain, which then reaches from -1 to 1; `scales` are base-2 logarithms of sizes in
    units of the typical cell size of the domain.
    """

    partitions: tuple[Partition, ...]
    points: tuple[PointSet, ...]
    tiles: Tiles
    arrangement: Arrangement
    centres: Float[Tensor, "sample cell axis"]
    sizes: Float[Tensor, "sample cell axis"]
    scales: Float[Tensor, "sample cell axis"]

    @staticmethod
    def build(points: Sequence[PointSet], spec: PartitionSpec, *, tile: int | None = None) -> Placement:
        """Cut each domain and place its points in the cells. `tile` forces the length of the tiles."""
        if not points:
            raise ValueError("points=[] holds no point set; needed at least one")
        for number, single in enumerate(points):
            if single.weights is None:
                raise ValueError(
                    f"points[{number}] has weights=None; needed PointSet(coordinates, weights), Mesh.point_set() or "
                    "PointSet.estimated(coordinates)"
                )
        return Placement.of([spec.cut(single) for single in points], tile=tile)

    @staticmethod
    def of(partitions: Sequence[Partition], *, tile: int | None = None) -> Placement:
        """The points of given partitions, in their cells."""
        if not partitions:
            raise ValueError("partitions=[] holds no partition; needed at least one")
        if len({(p.cells, p.lattice, p.points.dim) for p in partitions}) != 1:
            raise ValueError("partitions differ in number of cells, lattice or dimension; needed the same for all")
        points = [partition.points for partition in partitions]
        origin, half, typical = (
            torch.stack(rows)[:, None]
            for rows in (
                [p.coordinates.new_tensor(p.domain.origin) for p in points],
                [p.coordinates.new_tensor(p.domain.extent) / 2 for p in points],
                [partition.sizes[partition.counts > 0].mean(dim=0) for partition in partitions],
            )
        )
        centres, sizes = (torch.stack(rows) for rows in zip(*((p.centres, p.sizes) for p in partitions), strict=True))
        tiles = _tiles(partitions, points, tile)
        filled = tiles.sum_by_cell(tiles.weights.sum(dim=1)[None]).view(len(points), -1) > 0
        return Placement(
            partitions=tuple(partitions),
            points=tuple(points),
            tiles=tiles,
            arrangement=_arrangement(partitions[0].lattice, centres / typical, filled),
            centres=(centres - origin - half) / half,
            sizes=sizes / half,
            scales=torch.log2(sizes / typical),
        )

    def at(self, points: Sequence[PointSet]) -> Placement:
        """Other points in the same cells: the points of the output."""
        if len(points) != len(self.partitions):
            raise ValueError(f"out_points holds {len(points)} point sets; needed {len(self.partitions)}, as in points")
        tiles = _tiles(self.partitions, points, None)
        return replace(self, points=tuple(points), tiles=tiles.to(self.centres.dtype, self.centres.device))

    def check_same_cells(self, other: Placement) -> None:
        """Raise `ValueError` if the points of `other` were placed in other cells than these."""
        ours, theirs = self.partitions, other.partitions
        if len(ours) != len(theirs) or not all(
            torch.equal(a.centres, b.centres) and torch.equal(a.sizes, b.sizes)
            for a, b in zip(ours, theirs, strict=True)
        ):
            raise ValueError(
                "out_points has other cells than points; needed placement.at(out_points), where placement is that of "
                "points"
            )

    def to(self, dtype: torch.dtype, device: torch.device) -> Placement:
        """The same in another floating-point type and on another device."""
        if self.centres.dtype == dtype and self.centres.device == device:
            return self
        arrangement = replace(
            self.arrangement,
            centres=self.arrangement.centres.to(device, dtype),
            filled=self.arrangement.filled.to(device),
        )
        return replace(
            self,
            tiles=self.tiles.to(dtype, device),
            arrangement=arrangement,
            centres=self.centres.to(device, dtype),
            sizes=self.sizes.to(device, dtype),
            scales=self.scales.to(device, dtype),
        )


def _tiles(partitions: Sequence[Partition], points: Sequence[PointSet], length: int | None) -> Tiles:
    """The points of all domains, cells numbered through from one domain to the next."""
    members, coordinates, weights = [], [], []
    for number, (partition, single) in enumerate(zip(partitions, points, strict=True)):
        cells = partition.locate(single)
        members.append(cells + number * partition.cells)
        coordinates.append(partition.local(single, cells))
        # output points need no weights: nothing is integrated over them
        measure = single.coordinates.new_zeros(single.size) if single.weights is None else single.weights
        weights.append(measure / partition.sizes[cells].prod(dim=1))
    total = sum(partition.cells for partition in partitions)
    return Tiles.build(torch.cat(members), torch.cat(coordinates), torch.cat(weights), cells=total, length=length)


def _arrangement(lattice: Lattice | None, centres: Tensor, filled: Tensor) -> Arrangement:
    if lattice is None:
        return Arrangement((centres.shape[1],), (False,), centres, filled)
    positions = lattice.positions(centres.device).to(centres.dtype).expand_as(centres)  # the centres, without rounding
    return Arrangement(lattice.counts, lattice.periodic, positions, filled)
