"""The transformer operator; ViT-NO, Swin-NO and Nbr-NO are settings of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mondrian.artefact import OperatorModel
from mondrian.attention import AttentionSpec, GlobalAttention, LearnedPosition, Position, Rotary
from mondrian.attention.position import OffsetPosition
from mondrian.decomposition import Decomposition, Lattice, counts_by_size
from mondrian.grid import Grid
from mondrian.lattice import Subdomains
from mondrian.models.block import Block, BlockStack
from mondrian.models.detail import Detail
from mondrian.models.fields import FieldSpec, check_input, check_match
from mondrian.models.norm import NORMS
from mondrian.operators import OperatorSpec, SeparableMixture
from mondrian.quadrature import Cell, Midpoint, Quadrature
from mondrian.resampling import resample
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class TransformerSpec(FieldSpec):
    """Everything that defines a `TransformerOperator` but its weights.

    The domain is cut into a number of `subdomains` along each axis, or into subdomains of a physical `subdomain_size`,
    of which a larger domain has more. The blocks work on `cell_points` reference points in each subdomain, whatever the
    resolution of the input; by default on as many as the input needs (`reference_points`).
    With `stagger` every other block works on the decomposition moved by half a subdomain. `norm` is one of `NORMS`:
    statistics of each cell, of each point, or no normalisation. `branch_scale` is the initial value of the learned
    factors of all branches; without it there are none.
    """

    subdomains: tuple[int, ...] = ()
    subdomain_size: tuple[float, ...] = ()
    operator: OperatorSpec = SeparableMixture()
    attention: AttentionSpec = GlobalAttention()
    positions: tuple[Position, ...] = (LearnedPosition(),)
    quadrature: Quadrature = Midpoint()
    stagger: bool = False
    cell_points: tuple[int, ...] = ()
    norm: str = "cell"
    branch_scale: float | None = None

    def __post_init__(self) -> None:
        Spec.__post_init__(self)  # types first: the number of axes follows from these two
        if bool(self.subdomains) == bool(self.subdomain_size):
            raise ValueError(
                f"subdomains={self.subdomains} and subdomain_size={self.subdomain_size}: needed exactly one of the two"
            )
        super().__post_init__()
        if any(count < 1 for count in self.subdomains):
            raise ValueError(f"subdomains={self.subdomains} must be at least 1 along each axis")
        if self.subdomains or self.grid is not None:
            self.attention.check(Lattice(self.counts(), self.default_grid.periodic))
        for position in self.positions:
            if not isinstance(position, LearnedPosition | OffsetPosition | Rotary):
                raise ValueError(
                    f"positions={self.positions} holds {position}, which is not defined on a grid; needed "
                    "LearnedPosition, RelativeBias, Gaze or Rotary"
                )
            if isinstance(position, LearnedPosition):
                position.check(self.dim)
        if self.norm not in NORMS:
            raise ValueError(f"norm={self.norm!r} is unknown; needed one of {list(NORMS)}")
        if self.branch_scale is not None and not math.isfinite(self.branch_scale):
            raise ValueError(f"branch_scale={self.branch_scale} must be finite")
        for attention in self.attentions:
            if attention.spatial_heads and len(attention.spatial_heads) != self.dim:
                raise ValueError(f"spatial_heads={attention.spatial_heads} must have {self.dim} entries")
        if self.cell_points and (len(self.cell_points) != self.dim or min(self.cell_points) < 1):
            raise ValueError(f"cell_points={self.cell_points} must hold {self.dim} numbers of at least 1")
        if self.cell_points and any(n % part for n, part in zip(self.cell_points, self.parts, strict=True)):
            raise ValueError(
                f"cell_points={self.cell_points} must be multiples of {self.parts}, so that spatial heads and coarser "
                "levels can split them"
            )

    @property
    def attentions(self) -> tuple[AttentionSpec, ...]:
        """The pattern of each level; here there is one level."""
        return (self.attention,)

    @property
    def dim(self) -> int:
        """Number of axes of the domain."""
        return len(self.subdomains or self.subdomain_size)

    def build(self) -> TransformerOperator:
        return TransformerOperator(self)

    def block(self, width: int, attention: AttentionSpec) -> Block:
        """A block with `width` channels and this attention."""
        return Block(
            width,
            attention,
            self.operator,
            dim=self.dim,
            positions=self.positions,
            norm=self.norm,
            branch_scale=self.branch_scale,
        )

    def decompose(self, grid: Grid) -> Decomposition:
        """The decomposition of a box that the model uses; its points are the reference points of the cells."""
        counts = self.subdomains or counts_by_size(grid, self.subdomain_size)
        if len(counts) != grid.dim:
            raise ValueError(f"grid has {grid.dim} axes; the subdomains have {len(counts)}")
        self._check_rings(Lattice(counts, grid.periodic))
        inner = self.cell_points or self.reference_points(grid, counts)
        points = tuple(n * count for n, count in zip(inner, counts, strict=True))
        return Decomposition(replace(grid, points=points, ends=()), counts)

    def reference_points(self, grid: Grid, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Reference points of a cell along each axis: the fewest with at most the spacing of the grid.

        Where the cuts divide the grid these are its own points. They are a multiple of `parts`.
        """
        pairs = zip(grid.intervals, counts, self.parts, strict=True)
        return tuple(part * math.ceil(n / (count * part)) for n, count, part in pairs)

    @property
    def parts(self) -> tuple[int, ...]:
        """Which numbers must divide the points of a cell along each axis: the spatial heads."""
        return self.attention.spatial_heads or (1,) * self.dim

    def _check_rings(self, lattice: Lattice) -> None:
        """On a ring of another length a rotary encoding would have other frequencies than those it was trained with."""
        if not any(isinstance(p, Rotary) for p in self.positions) or self.subdomains or self.grid is None:
            return
        for known, count, ring in zip(self.counts(), lattice.counts, lattice.periodic, strict=True):
            if ring and count != known:
                raise ValueError(
                    f"subdomains={lattice.counts}, but Rotary was trained on rings of {self.counts()}; for other "
                    "numbers on a periodic axis choose RelativeBias, LearnedPosition(tile=...), or no position"
                )

    def counts(self) -> tuple[int, ...]:
        """Number of subdomains along each axis of the default box."""
        if self.subdomains:
            return self.subdomains
        if self.grid is None:
            raise ValueError(f"subdomain_size={self.subdomain_size} needs a grid to determine the number of subdomains")
        return counts_by_size(self.grid, self.subdomain_size)


class TransformerOperator(OperatorModel):
    """A transformer over the functions on the subdomains of a box.

    Lift, positions, blocks, projection; lift and projection are feed-forward operators on the subdomains. Maps
    `(batch, in_channels, *space)` to `(batch, out_channels, *space)` at any resolution: `grid` gives the box and the
    kind of points, the shape of `x` their number. If the cuts do not divide the points, the input is resampled to
    reference points of the cells and the output back. `out_grid` asks for the output at other points of the same box,
    or of a part of it. With `slab` the input lies on part of a decomposition (`mondrian.parallel`). With fixed
    `cell_points`, `Detail` adds a correction.

    >>> import torch
    >>> model = TransformerSpec(in_channels=2, out_channels=1, hidden_channels=16, subdomains=(4, 4)).build()
    >>> model(torch.zeros(1, 2, 32, 32)).shape
    torch.Size([1, 1, 32, 32])
    >>> model(torch.zeros(1, 2, 85, 33)).shape
    torch.Size([1, 1, 85, 33])
    >>> model(torch.zeros(1, 2, 32, 32), out_grid=Grid(extent=(1.0, 1.0), points=(65, 65), ends=(2, 2))).shape
    torch.Size([1, 1, 65, 65])
    """

    spec: TransformerSpec

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.spec = spec
        width, dim, operator = spec.hidden_channels, spec.dim, spec.operator
        self.lift = operator.feed_forward(spec.in_channels, width, width, dim=dim)
        learned = [p for p in spec.positions if isinstance(p, LearnedPosition)]
        self.positions = nn.ModuleList(p.build(width, p.tile or spec.counts()) for p in learned)
        blocks = (spec.block(width, spec.attention.in_block(index)) for index in range(spec.n_layers))
        self.blocks = BlockStack(blocks, stagger=spec.stagger)
        self.projection = operator.feed_forward(width, width, spec.out_channels, dim=dim)
        self.detail = Detail(spec.in_channels, width, spec.out_channels) if spec.cell_points else None

    def forward(
        self,
        x: Shaped[Tensor, "batch channel *space"],
        grid: Grid | None = None,
        out_grid: Grid | None = None,
        *,
        slab: Subdomains | None = None,
    ) -> Float[Tensor, "batch out_channels *points"]:
        spec = self.spec
        check_input(x, spec.in_channels, spec.dim, grid)
        check_match(x, self)
        if slab is not None:
            return self._on(x, slab)
        box = (grid or spec.default_grid).with_points(tuple(x.shape[2:]))
        decomposition = spec.decompose(box)
        inner, out = decomposition.grid, out_grid or box
        smooth = resample(x, box, inner)
        output = resample(self._on(smooth, decomposition), inner, out)
        if self.detail is None:
            return output
        detail = resample(x - resample(smooth, inner, box), box, out)
        return output + self.detail(detail, resample(smooth, inner, out), output)

    def _on(
        self, x: Shaped[Tensor, "batch channel *space"], decomposition: Subdomains
    ) -> Float[Tensor, "batch out_channels *space"]:
        """The model on the reference points of the cells of a whole box or of a slab."""
        spec = self.spec
        cell = Cell.build(decomposition.cell_points, spec.quadrature, dtype=x.dtype, device=x.device)
        v = self.lift(decomposition.cut(x), cell)
        for position in self.positions:
            v = position(v, cell, decomposition.lattice)
        return decomposition.join(self.projection(self._through(v, cell, decomposition), cell))

    def _through(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, decomposition: Subdomains
    ) -> Float[Tensor, "batch cell channel point"]:
        """All that lies between lift and projection."""
        return self.blocks(v, cell, decomposition)
