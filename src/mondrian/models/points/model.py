"""The transformer operator on arbitrary points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from jaxtyping import Float
from torch import Tensor, nn

from mondrian.artefact import ModelSpec, OperatorModel
from mondrian.attention import (
    AttentionSpec,
    CentreAttention,
    CoordinatePosition,
    LearnedPosition,
    Position,
    RelativeBias,
    Rotary,
)
from mondrian.attention.position import OffsetPosition
from mondrian.decomposition import Decomposition, Lattice
from mondrian.grid import Grid
from mondrian.layers import Attention, Block, FeedForward, LayerContext
from mondrian.models.fields import check_match
from mondrian.models.points.network import PointNetwork
from mondrian.models.points.values import packed
from mondrian.operators import OperatorSpec, SeparableMixture
from mondrian.points.arrangement import Arrangement
from mondrian.points.partition import Boxes, PartitionSpec
from mondrian.points.placement import Placement
from mondrian.points.point_set import PointSet
from mondrian.quadrature import Cell, Midpoint, Quadrature
from mondrian.resampling.cross_attention import CrossAttention
from mondrian.resampling.learned import ResamplerSpec
from mondrian.support.checks import positive


@dataclass(frozen=True)
class PointSpec(ModelSpec):
    """Everything that defines a `PointOperator` but its weights.

    `partition` cuts the domain; each cell has `reference` points along each axis. Boxes support every attention
    pattern, every position encoding and `stagger`. Other partitions have no lattice and support `CentreAttention`,
    `RelativeBias` and `CoordinatePosition`. Only `CentreAttention` skips empty cells.
    """

    in_channels: int
    out_channels: int
    partition: PartitionSpec
    hidden_channels: int = 64
    n_layers: int = 4
    reference: tuple[int, ...] = (4, 4)
    resampler: ResamplerSpec = CrossAttention()
    operator: OperatorSpec = SeparableMixture(terms=64, skip=True)
    attention: AttentionSpec = CentreAttention()
    positions: tuple[Position, ...] = (CoordinatePosition(), RelativeBias())
    quadrature: Quadrature = Midpoint()
    stagger: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = ("in_channels", "out_channels", "hidden_channels", "n_layers")
        positive(**{name: getattr(self, name) for name in sizes})
        if not self.reference or any(n < 1 for n in self.reference):
            raise ValueError(f"reference={self.reference} must hold a number of at least 1 for each axis")
        self.partition.check(self.dim)
        for position in self.positions:
            if not isinstance(position, CoordinatePosition | LearnedPosition | OffsetPosition | Rotary):
                raise ValueError(
                    f"positions={self.positions} holds {position}, which is not defined on points; needed "
                    "CoordinatePosition, LearnedPosition, RelativeBias, Gaze or Rotary"
                )
            if isinstance(position, LearnedPosition):
                position.check(self.dim)
        if isinstance(self.partition, Boxes):
            self.attention.check(Lattice(self.partition.subdomains, (False,) * self.dim))
            return
        if not isinstance(self.attention, CentreAttention):
            raise ValueError(f"attention={self.attention} needs a lattice of cells: choose CentreAttention or Boxes")
        if self.stagger or any(isinstance(p, LearnedPosition | Rotary) for p in self.positions):
            raise ValueError(
                f"stagger={self.stagger} and positions={self.positions}: staggering, LearnedPosition and Rotary need "
                "a lattice of cells, as partition=Boxes(...) has"
            )

    @property
    def dim(self) -> int:
        """Number of axes of the domain."""
        return len(self.reference)

    def build(self) -> PointOperator:
        return PointOperator(self)


@dataclass(frozen=True)
class Arranged:
    """Cells that fill no box: their arrangement is all that there is."""

    lattice: Lattice


class PointOperator(OperatorModel):
    """A transformer over the functions on the cells of a domain that is known at points only.

    A pointwise network and a learned resampler lead from the given points to the reference points of the cells, where
    the blocks work as in every other model. A second resampler and network lead to the output points.

    Maps `(batch, in_channels, point)` on one `PointSet` to `(batch, out_channels, output point)`; or a list of
    `(in_channels, point)`, one for each of a list of point sets, to such a list. If the same points are used
    repeatedly, `place` them once and pass the placement instead.

    >>> import torch
    >>> points = PointSet.of_grid(Grid(extent=(1.0, 1.0), points=(10, 10)))
    >>> model = PointSpec(2, 1, partition=Boxes((3, 3)), hidden_channels=16).build()
    >>> model(torch.zeros(5, 2, 100), points).shape
    torch.Size([5, 1, 100])
    >>> model(torch.zeros(5, 2, 100), points, out_points=PointSet(torch.rand(7, 2))).shape
    torch.Size([5, 1, 7])
    """

    spec: PointSpec

    def __init__(self, spec: PointSpec) -> None:
        super().__init__()
        self.spec = spec
        width, dim = spec.hidden_channels, spec.dim
        self.embed = PointNetwork(spec.in_channels, width, width, dim)
        self.encode = spec.resampler.build(width, width, dim=dim)
        self.coordinate_positions = nn.ModuleList(
            p.build(width, dim) for p in spec.positions if isinstance(p, CoordinatePosition)
        )
        self.learned_positions = nn.ModuleList(
            p.build(width, p.tile or spec.partition.subdomains)
            for p in spec.positions
            if isinstance(p, LearnedPosition) and isinstance(spec.partition, Boxes)
        )
        self.blocks = nn.ModuleList(
            Block(
                (Attention(), FeedForward()),
                LayerContext(width, dim, spec.operator, spec.attention.in_block(index), spec.positions),
            )
            for index in range(spec.n_layers)
        )
        self.decode = spec.resampler.build(width, width, dim=dim)
        self.project = PointNetwork(width, width, spec.out_channels, dim)

    def place(self, points: PointSet | Sequence[PointSet]) -> Placement:
        """Partition the domains of these points as the model does, on the CPU; moved to its precision and device."""
        if isinstance(points, Tensor):
            raise ValueError(
                f"points is a tensor of shape {tuple(points.shape)}; needed PointSet(coordinates, weights) or "
                "PointSet.estimated(coordinates)"
            )
        placement = Placement.build([points] if isinstance(points, PointSet) else points, self.spec.partition)
        self._check_placement(placement)
        return placement.to(self.project.skip.weight.dtype, self.project.skip.weight.device)

    @overload
    def forward(
        self, values: Tensor, points: PointSet | Placement, out_points: PointSet | Placement | None = None
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        values: Sequence[Tensor],
        points: Sequence[PointSet] | Placement,
        out_points: Sequence[PointSet] | Placement | None = None,
    ) -> list[Tensor]: ...

    def forward(
        self,
        values: Tensor | Sequence[Tensor],
        points: PointSet | Sequence[PointSet] | Placement,
        out_points: PointSet | Sequence[PointSet] | Placement | None = None,
    ) -> Tensor | list[Tensor]:
        given = points if isinstance(points, Placement) else self.place(points)
        self._check_placement(given)
        if isinstance(out_points, Placement):
            given.check_same_cells(out_points)
            wanted = out_points
        elif out_points is None:
            wanted = given
        else:
            wanted = given.at([out_points] if isinstance(out_points, PointSet) else out_points)
        v = packed(values, given, self.spec.in_channels)
        check_match(v, self, name="values")
        u = self._packed_forward(v, given.to(v.dtype, v.device), wanted.to(v.dtype, v.device))
        if isinstance(values, Tensor):
            return u
        return list(u[0].split([single.size for single in wanted.points], dim=1))

    def _packed_forward(
        self, values: Float[Tensor, "batch channel point"], given: Placement, wanted: Placement
    ) -> Float[Tensor, "batch channel_out wanted"]:
        spec = self.spec
        cell = Cell.build(spec.reference, spec.quadrature, dtype=values.dtype, device=values.device)
        v = self.embed(given.tiles.spread(values), given.tiles.coordinates)
        v = self.encode.encode(v, given.tiles, cell)
        domains = len(given.partitions)
        cells = v.unflatten(1, (domains, -1)).flatten(0, 1)  # (batch domain) cell channel point; either is 1
        for place in self.coordinate_positions:
            cells = place(cells, cell, given.centres, given.sizes, given.scales)
        for position in self.learned_positions:
            cells = position(cells, cell, self._lattice(given.arrangement))
        for index, block in enumerate(self.blocks):
            if spec.stagger and index % 2:
                cells = self._staggered(block, cells, cell, given)
            else:
                cells = block(cells, cell, self._arranged(given.arrangement))
        u = self.decode.decode(cells.unflatten(0, (-1, domains)).flatten(1, 2), cell, wanted.tiles)
        return wanted.tiles.collect(self.project(u, wanted.tiles.coordinates))

    def _staggered(self, block: nn.Module, v: Tensor, cell: Cell, given: Placement) -> Tensor:
        """A block on the boxes moved by half a box; a moved box counts as filled if it overlaps a filled one."""
        arrangement = given.arrangement
        rings = arrangement.periodic
        points = tuple(count * n for count, n in zip(arrangement.counts, cell.points, strict=True))
        grid = Grid(extent=(1.0,) * len(points), points=points, periodic=rings)
        moved = Decomposition(grid, arrangement.counts).staggered()
        held = moved.move(arrangement.filled.to(v.dtype)[:, :, None, None].expand(-1, -1, 1, cell.size))
        places = moved.lattice.positions(v.device).to(v.dtype).expand(len(held), -1, -1)
        there = Arrangement(moved.lattice.counts, rings, places, held.amax(dim=(2, 3)) > 0)
        return moved.back(block(moved.move(v), cell, self._arranged(there)))

    def _arranged(self, arrangement: Arrangement) -> Arranged:
        return Arranged(self._lattice(arrangement))

    def _lattice(self, arrangement: Arrangement) -> Lattice:
        """The arrangement that the attention pattern needs; patterns on a lattice cache their groups by lattice."""
        if isinstance(self.spec.attention, CentreAttention):
            return arrangement
        return Lattice(arrangement.counts, arrangement.periodic)

    def _check_placement(self, given: Placement) -> None:
        partition = given.partitions[0]
        if partition.points.dim != self.spec.dim:
            raise ValueError(f"points has {partition.points.dim} axes; the model {self.spec.dim}")
        if isinstance(self.spec.partition, Boxes) and (
            partition.lattice is None or partition.lattice.counts != self.spec.partition.subdomains
        ):
            raise ValueError(f"points was placed with another partition than {self.spec.partition} of the model")
