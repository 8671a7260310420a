"""The transformer operator; ViT-NO, Swin-NO and Nbr-NO are settings of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mondrian.artefact import OperatorModel
from mondrian.attention import AttentionSpec, GlobalAttention, LearnedPosition, Position, Rotary
from mondrian.attention.position import OffsetPosition
from mondrian.decomposition import Decomposition, Lattice, counts_by_size
from mondrian.grid import Grid
from mondrian.lattice import Subdomains
from mondrian.layers import Attention, Block, BlockStack, FeedForward, LayerContext, LayerSpec
from mondrian.layers.norm import NORMS
from mondrian.models.detail import Detail
from mondrian.models.fields import FieldSpec, check_input, check_match
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

    The model is a sequence of layers: those of `opening` once, then `n_layers` blocks of `layers`. `operator`,
    `attention`, `positions` and `norm` are the defaults of layers that have none of their own. With `stagger` every
    other block works on the decomposition moved by half a subdomain. `norm` is one of `NORMS`: statistics of each cell,
    of the domain, of each point, or no normalisation. `branch_scale` is the initial value of the learned factors of all
    branches; without it there are none. `residual` names an input channel for each output channel, whose change the
    model then predicts: these channels are added to its output.

    >>> spec = TransformerSpec(1, 1, n_layers=2, subdomains=(4, 4))
    >>> [[layer.label for layer in block] for block in spec.blocks]
    [['attention', 'feed_forward'], ['attention', 'feed_forward']]
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
    opening: tuple[LayerSpec, ...] = ()
    layers: tuple[LayerSpec, ...] = (Attention(), FeedForward())
    residual: tuple[int, ...] = ()

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
            for pattern in (self.attention, *self._own_patterns):
                pattern.check(Lattice(self.counts(), self.default_grid.periodic))
        for position in self.positions:
            if not isinstance(position, LearnedPosition | OffsetPosition | Rotary):
                raise ValueError(
                    f"positions={self.positions} holds {position}, which is not defined on a grid; needed "
                    "LearnedPosition, RelativeBias, Gaze or Rotary"
                )
            if isinstance(position, LearnedPosition):
                position.check(self.dim)
        self._check_layers()
        if self.branch_scale is not None and not math.isfinite(self.branch_scale):
            raise ValueError(f"branch_scale={self.branch_scale} must be finite")
        for attention in (*self.attentions, *self._own_patterns):
            if attention.spatial_heads and len(attention.spatial_heads) != self.dim:
                raise ValueError(f"spatial_heads={attention.spatial_heads} must have {self.dim} entries")
        if self.cell_points and (len(self.cell_points) != self.dim or min(self.cell_points) < 1):
            raise ValueError(f"cell_points={self.cell_points} must hold {self.dim} numbers of at least 1")
        if self.cell_points and any(n % part for n, part in zip(self.cell_points, self.parts, strict=True)):
            raise ValueError(
                f"cell_points={self.cell_points} must be multiples of {self.parts}, so that spatial heads and coarser "
                "levels can split them"
            )

    def _check_layers(self) -> None:
        if not self.layers:
            raise ValueError("layers=() is empty; needed at least one layer")
        for norm in (self.norm, *(layer.norm for layer in (*self.opening, *self.layers) if layer.norm is not None)):
            if norm not in NORMS:
                raise ValueError(f"norm={norm!r} is unknown; needed one of {list(NORMS)}")
        for layer in (*self.opening, *self.layers):
            if layer.whole_domain and (layer.norm or self.norm) == "cell":
                raise ValueError(f"layers: {layer} works on the whole domain; needed norm='domain', 'point' or 'none'")
        channels = len(self.residual) == self.out_channels and all(0 <= c < self.in_channels for c in self.residual)
        if self.residual and not channels:
            raise ValueError(
                f"residual={self.residual} must name one of {self.in_channels} input channels, from 0 on, for each of "
                f"{self.out_channels} output channels"
            )

    @property
    def blocks(self) -> tuple[tuple[LayerSpec, ...], ...]:
        """The layers of each block, without those of the opening."""
        return (self.layers,) * self.n_layers

    @property
    def _own_patterns(self) -> tuple[AttentionSpec, ...]:
        """The patterns of layers that do not use that of the model."""
        layers = (*self.opening, *self.layers)
        return tuple(layer.pattern for layer in layers if isinstance(layer, Attention) and layer.pattern is not None)

    def to_json(self) -> dict[str, Any]:
        """As every spec; the paper's sequence of layers is not written, so that files of it stay as they were."""
        values = super().to_json()
        usual = {"opening": (), "layers": (Attention(), FeedForward()), "residual": ()}
        return {key: value for key, value in values.items() if key not in usual or getattr(self, key) != usual[key]}

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

    def context(self, index: int, width: int | None = None, attention: AttentionSpec | None = None) -> LayerContext:
        """What the layers of block number `index` are built from; width and pattern may be those of a coarser level."""
        return LayerContext(
            width or self.hidden_channels,
            self.dim,
            self.operator,
            (attention or self.attention).in_block(index),
            self.positions,
            norm=self.norm,
            branch_scale=self.branch_scale,
        )

    def block(self, index: int, width: int | None = None, attention: AttentionSpec | None = None) -> Block:
        """Block number `index`."""
        stagger = self.stagger and index % 2 == 1
        return Block(self.layers, self.context(index, width, attention), stagger=stagger)

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
        return self._spatial_heads(self.attention)

    def _spatial_heads(self, attention: AttentionSpec) -> tuple[int, ...]:
        """What the spatial heads of all layers divide, where `attention` is the pattern of the model."""
        heads = [pattern.spatial_heads or (1,) * self.dim for pattern in (attention, *self._own_patterns)]
        return tuple(math.lcm(*axis) for axis in zip(*heads, strict=True))

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

    Lift, positions, layers, projection; lift and projection are feed-forward operators on the subdomains. Maps
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
        self.opening = BlockStack([Block(spec.opening, spec.context(0))] if spec.opening else [])
        self.blocks = BlockStack(spec.block(index) for index in range(spec.n_layers))
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
        v = self._through(self.opening(v, cell, decomposition), cell, decomposition)
        u = decomposition.join(self.projection(v, cell))
        return u + x[:, list(spec.residual)] if spec.residual else u

    def _through(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, decomposition: Subdomains
    ) -> Float[Tensor, "batch cell channel point"]:
        """The blocks."""
        return self.blocks(v, cell, decomposition)
