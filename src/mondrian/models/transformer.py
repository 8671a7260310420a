"""The transformer operator: one model, of which ViT-NO, Swin-NO and the neighbourhood model are settings."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mondrian.artefact import ModelSpec, OperatorModel
from mondrian.attention import AttentionSpec, GlobalAttention, LearnedPosition, Position
from mondrian.decomposition import Decomposition, Lattice, counts_by_size
from mondrian.grid import Grid
from mondrian.models.block import Block
from mondrian.operators import OperatorSpec, SeparableMixture
from mondrian.quadrature import Cell, Midpoint, Quadrature


@dataclass(frozen=True)
class TransformerSpec(ModelSpec):
    """Everything that defines a `TransformerOperator` but its weights.

    The domain is cut into a number of `subdomains` an axis, or into subdomains of a physical `subdomain_size`.
    `grid` is the box that inputs live on when a call names no other; without it a unit box, not periodic.
    With `stagger` every other block works on the decomposition moved by half a subdomain.
    """

    in_channels: int
    out_channels: int
    hidden_channels: int = 64
    n_layers: int = 4
    subdomains: tuple[int, ...] = ()
    subdomain_size: tuple[float, ...] = ()
    operator: OperatorSpec = SeparableMixture()
    attention: AttentionSpec = GlobalAttention()
    positions: tuple[Position, ...] = (LearnedPosition(),)
    quadrature: Quadrature = Midpoint()
    grid: Grid | None = None
    stagger: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("in_channels", "out_channels", "hidden_channels", "n_layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if bool(self.subdomains) == bool(self.subdomain_size):
            raise ValueError(
                f"subdomains={self.subdomains} and subdomain_size={self.subdomain_size}: needed exactly one of the two"
            )
        if self.grid is not None and self.grid.dim != self.dim:
            raise ValueError(f"grid has {self.grid.dim} axes; the subdomains have {self.dim}")
        if self.subdomains or self.grid is not None:
            self.attention.check(Lattice(self.counts(), self.default_grid.periodic))

    @property
    def dim(self) -> int:
        """Number of axes of the domain."""
        return len(self.subdomains or self.subdomain_size)

    @property
    def default_grid(self) -> Grid:
        """The box of a call that names none."""
        return self.grid or Grid(extent=(1.0,) * self.dim)

    def build(self) -> TransformerOperator:
        return TransformerOperator(self)

    def decompose(self, grid: Grid) -> Decomposition:
        """Cut a grid the way the model does."""
        if self.subdomains:
            return Decomposition(grid, self.subdomains)
        return Decomposition.by_size(grid, self.subdomain_size)

    def counts(self) -> tuple[int, ...]:
        """Number of subdomains along each axis of the default box."""
        if self.subdomains:
            return self.subdomains
        if self.grid is None:
            raise ValueError(f"subdomain_size={self.subdomain_size} needs a grid to say how many subdomains there are")
        return counts_by_size(self.grid, self.subdomain_size)


class TransformerOperator(OperatorModel):
    """A transformer over the functions on the subdomains of a box.

    Lift, position, blocks, projection; lift and projection are feed-forward operators on the subdomains too. Takes
    `(batch, in_channels, *space)` to `(batch, out_channels, *space)` at any resolution that the cuts divide.

    >>> import torch
    >>> model = TransformerSpec(in_channels=2, out_channels=1, hidden_channels=16, subdomains=(4, 4)).build()
    >>> model(torch.zeros(1, 2, 32, 32)).shape
    torch.Size([1, 1, 32, 32])
    >>> model(torch.zeros(1, 2, 64, 16)).shape
    torch.Size([1, 1, 64, 16])
    """

    spec: TransformerSpec

    def __init__(self, spec: TransformerSpec) -> None:
        super().__init__()
        self.spec = spec
        width, dim, operator = spec.hidden_channels, spec.dim, spec.operator
        self.lift = operator.feed_forward(spec.in_channels, width, width, dim=dim)
        learned = [p for p in spec.positions if isinstance(p, LearnedPosition)]
        self.positions = nn.ModuleList(p.build(width, p.tile or spec.counts()) for p in learned)
        self.blocks = nn.ModuleList(
            Block(width, spec.attention.in_block(index), operator, dim=dim, positions=spec.positions)
            for index in range(spec.n_layers)
        )
        self.projection = operator.feed_forward(width, width, spec.out_channels, dim=dim)

    def forward(
        self, x: Shaped[Tensor, "batch channel *space"], grid: Grid | None = None
    ) -> Float[Tensor, "batch out_channels *space"]:
        spec = self.spec
        check_input(x, spec.in_channels, spec.dim)
        box = (grid or spec.default_grid).with_points(tuple(x.shape[2:]))
        decomposition = spec.decompose(box)
        cell = Cell.build(decomposition.cell_points, spec.quadrature, dtype=x.dtype, device=x.device)
        v = self.lift(decomposition.cut(x), cell)
        for position in self.positions:
            v = position(v, cell, decomposition.lattice)
        for index, block in enumerate(self.blocks):
            if spec.stagger and index % 2:
                v = self._staggered(block, v, cell, decomposition)
            else:
                v = block(v, cell, decomposition.lattice)
        return decomposition.join(self.projection(v, cell))

    def _staggered(self, block: nn.Module, v: Tensor, cell: Cell, decomposition: Decomposition) -> Tensor:
        moved = decomposition.staggered()
        return moved.back(block(moved.move(v), cell, moved.lattice))


def check_input(x: Tensor, channels: int, dim: int) -> None:
    """Refuse what is no batch of functions with the right channels."""
    if not x.is_floating_point():
        raise ValueError(f"x has dtype {x.dtype}; needed a floating-point tensor")
    if x.ndim != dim + 2 or x.shape[1] != channels:
        raise ValueError(f"x has shape {tuple(x.shape)}; needed (batch, {channels} channels, {dim} space axes)")
    if 0 in x.shape:
        raise ValueError(f"x has shape {tuple(x.shape)}; needed at least one sample and one point")
