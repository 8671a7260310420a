"""The models of the paper: settings of `TransformerOperator` and `UNetOperator`.

Each is a function that builds the model, `vit_no(...)`, and a spec that a file may name, `spec: ViTNO`: a pattern of
attention given by its heads, window or radius. What is built, and stored, is a `TransformerSpec` or a `UNetSpec`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TypedDict, Unpack

from mondrian.attention import (
    AttentionSpec,
    GlobalAttention,
    LearnedPosition,
    NeighborhoodAttention,
    Position,
    RelativeBias,
    WindowedAttention,
)
from mondrian.grid import Grid
from mondrian.layers import Attention, Coarse, LayerSpec, Transport
from mondrian.models.coarsening import Coarsening
from mondrian.models.transfer import Transfer
from mondrian.models.transformer import TransformerOperator, TransformerSpec
from mondrian.models.unet import UNetOperator, UNetSpec
from mondrian.operators import OperatorSpec, Pointwise
from mondrian.quadrature import Quadrature
from mondrian.support.checks import positive
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Heads(Spec):
    """What all patterns of attention have in common; subclasses say which pattern it is."""

    n_heads: int = 4
    spatial_heads: tuple[int, ...] = ()
    attention_operator: OperatorSpec | None = None

    def pattern(self) -> AttentionSpec:
        """The pattern of attention that these settings describe."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        given, pattern = getattr(self, "attention", None), self.pattern()
        if given not in (None, pattern):
            raise ValueError(
                f"attention={given} beside n_heads={self.n_heads}: needed spec=TransformerSpec or spec=UNetSpec for a "
                "pattern of one's own"
            )
        object.__setattr__(self, "attention", pattern)
        super().__post_init__()


@dataclass(frozen=True)
class TransformerFamily(Heads, TransformerSpec):
    """A `TransformerSpec` whose pattern of attention is given by its settings."""

    attention: AttentionSpec = None  # type: ignore[assignment]  # that of `pattern`

    def resolved(self) -> TransformerSpec:
        return TransformerSpec(**{field.name: getattr(self, field.name) for field in fields(TransformerSpec)})

    def build(self) -> TransformerOperator:
        return self.resolved().build()


@dataclass(frozen=True)
class ViTNO(TransformerFamily):
    """ViT-NO: every subdomain attends to every other."""

    def pattern(self) -> GlobalAttention:
        return GlobalAttention(n_heads=self.n_heads, spatial_heads=self.spatial_heads, operator=self.attention_operator)


@dataclass(frozen=True)
class SwinNO(TransformerFamily):
    """Swin-NO: attention inside windows of subdomains, shifted in every other block (by half a window by default).

    By default each position in a window has a learned vector, and scores have a relative bias.
    """

    positions: tuple[Position, ...] = None  # type: ignore[assignment]  # those of the window
    window: tuple[int, ...] = (4, 4)
    shift: tuple[int, ...] = ()

    def pattern(self) -> WindowedAttention:
        return WindowedAttention(
            n_heads=self.n_heads,
            spatial_heads=self.spatial_heads,
            operator=self.attention_operator,
            window=self.window,
            shift=self.shift or tuple(n // 2 for n in self.window),
        )

    def __post_init__(self) -> None:
        if self.positions is None:
            object.__setattr__(self, "positions", (LearnedPosition(tile=tuple(self.window)), RelativeBias()))
        super().__post_init__()


@dataclass(frozen=True)
class NbrNO(TransformerFamily):
    """Nbr-NO: every subdomain attends to those within a radius."""

    radius: int = 2
    zero_far: bool = False

    def pattern(self) -> NeighborhoodAttention:
        return NeighborhoodAttention(
            n_heads=self.n_heads,
            spatial_heads=self.spatial_heads,
            operator=self.attention_operator,
            radius=self.radius,
            zero_far=self.zero_far,
        )


@dataclass(frozen=True)
class UNetNO(Heads, UNetSpec):
    """UNet-NO: levels of fewer and larger subdomains, neighbourhoods on all but the coarsest, which is global."""

    attention: AttentionSpec = None  # type: ignore[assignment]  # that of `pattern`
    radius: int = 1

    def pattern(self) -> NeighborhoodAttention:
        return NeighborhoodAttention(
            n_heads=self.n_heads,
            spatial_heads=self.spatial_heads,
            operator=self.attention_operator,
            radius=self.radius,
        )

    def resolved(self) -> UNetSpec:
        return UNetSpec(**{field.name: getattr(self, field.name) for field in fields(UNetSpec)})

    def build(self) -> UNetOperator:
        return self.resolved().build()


@dataclass(frozen=True)
class FlowNO(TransformerSpec):
    """Flow-NO: a coarse level, then `n_layers` layers of transport, optionally after attention between subdomains.

    `modes` are those of `Coarse`; `reach`, `bound` and `order` those of `Transport`, whose heads have `head_channels`
    channels each. All else is pointwise. With `exchange` attention of that pattern comes first, which needs an
    operator of its own, such as `Interpolating`. Where the output is a later state of the input, `residual` should name
    the channels of that input.
    """

    hidden_channels: int = 32
    operator: OperatorSpec = Pointwise()
    positions: tuple[Position, ...] = ()
    opening: tuple[LayerSpec, ...] = None  # type: ignore[assignment]  # those of the settings below
    layers: tuple[LayerSpec, ...] = None  # type: ignore[assignment]  # likewise
    modes: int = 12
    head_channels: int = 2
    reach: float = 0.8
    bound: float | None = None
    order: int = 2
    exchange: AttentionSpec | None = None

    def __post_init__(self) -> None:
        positive(head_channels=self.head_channels)
        if self.hidden_channels % self.head_channels:
            raise ValueError(
                f"head_channels={self.head_channels} does not divide hidden_channels={self.hidden_channels}"
            )
        if self.opening is None:
            first = () if self.exchange is None else (Attention(pattern=self.exchange, norm="domain"),)
            object.__setattr__(self, "opening", (*first, Coarse(modes=self.modes)))
        if self.layers is None:
            heads = self.hidden_channels // self.head_channels
            layer = Transport(heads=heads, reach=self.reach, bound=self.bound, order=self.order)
            object.__setattr__(self, "layers", (layer,))
        super().__post_init__()

    def resolved(self) -> TransformerSpec:
        return TransformerSpec(**{field.name: getattr(self, field.name) for field in fields(TransformerSpec)})

    def build(self) -> TransformerOperator:
        return self.resolved().build()


class TransformerSettings(TypedDict, total=False):
    """The fields of `TransformerSpec` that every factory accepts."""

    hidden_channels: int
    n_layers: int
    subdomains: tuple[int, ...]
    subdomain_size: tuple[float, ...]
    operator: OperatorSpec
    positions: tuple[Position, ...]
    quadrature: Quadrature
    grid: Grid | None
    stagger: bool
    cell_points: tuple[int, ...]
    norm: str
    branch_scale: float | None
    opening: tuple[LayerSpec, ...]
    layers: tuple[LayerSpec, ...]
    residual: tuple[int, ...]


def vit_no(
    in_channels: int,
    out_channels: int,
    *,
    n_heads: int = 4,
    spatial_heads: Sequence[int] = (),
    attention_operator: OperatorSpec | None = None,
    **settings: Unpack[TransformerSettings],
) -> TransformerOperator:
    """ViT-NO: every subdomain attends to every other.

    >>> from mondrian import Mixture
    >>> model = vit_no(in_channels=2, out_channels=1, hidden_channels=64, subdomains=(8, 8), operator=Mixture())
    >>> sum(p.numel() for p in model.parameters())
    6954850
    """
    return ViTNO(
        in_channels,
        out_channels,
        n_heads=n_heads,
        spatial_heads=tuple(spatial_heads),
        attention_operator=attention_operator,
        **settings,
    ).build()


def swin_no(
    in_channels: int,
    out_channels: int,
    *,
    window: Sequence[int] = (4, 4),
    shift: Sequence[int] = (),
    n_heads: int = 4,
    spatial_heads: Sequence[int] = (),
    attention_operator: OperatorSpec | None = None,
    **settings: Unpack[TransformerSettings],
) -> TransformerOperator:
    """Swin-NO: attention inside windows of subdomains, shifted in every other block (by half a window by default).

    By default each position in a window has a learned vector, and scores have a relative bias.
    """
    return SwinNO(
        in_channels,
        out_channels,
        window=tuple(window),
        shift=tuple(shift),
        n_heads=n_heads,
        spatial_heads=tuple(spatial_heads),
        attention_operator=attention_operator,
        **settings,
    ).build()


def nbr_no(
    in_channels: int,
    out_channels: int,
    *,
    radius: int = 2,
    zero_far: bool = False,
    n_heads: int = 4,
    spatial_heads: Sequence[int] = (),
    attention_operator: OperatorSpec | None = None,
    **settings: Unpack[TransformerSettings],
) -> TransformerOperator:
    """Nbr-NO: every subdomain attends to those within a radius."""
    return NbrNO(
        in_channels,
        out_channels,
        radius=radius,
        zero_far=zero_far,
        n_heads=n_heads,
        spatial_heads=tuple(spatial_heads),
        attention_operator=attention_operator,
        **settings,
    ).build()


class UNetSettings(TransformerSettings, total=False):
    """The fields that `UNetSpec` adds."""

    levels: int
    coarsening: Coarsening
    transfer: Transfer
    coarse_attention: tuple[AttentionSpec, ...]
    widening: int


def unet_no(
    in_channels: int,
    out_channels: int,
    *,
    radius: int = 1,
    n_heads: int = 4,
    spatial_heads: Sequence[int] = (),
    attention_operator: OperatorSpec | None = None,
    **settings: Unpack[UNetSettings],
) -> UNetOperator:
    """UNet-NO: levels of ever larger subdomains, with neighbourhood attention on all but the coarsest, global one.

    >>> unet_no(1, 1, hidden_channels=16, n_layers=1, subdomains=(8, 8), levels=3).spec.attentions[-1]
    GlobalAttention(n_heads=4, spatial_heads=(), operator=None)
    """
    return UNetNO(
        in_channels,
        out_channels,
        radius=radius,
        n_heads=n_heads,
        spatial_heads=tuple(spatial_heads),
        attention_operator=attention_operator,
        **settings,
    ).build()


class FlowSettings(TransformerSettings, total=False):
    """The fields that `FlowNO` adds."""

    modes: int
    head_channels: int
    reach: float
    bound: float | None
    order: int
    exchange: AttentionSpec | None


def flow_no(in_channels: int, out_channels: int, **settings: Unpack[FlowSettings]) -> TransformerOperator:
    """Flow-NO: a coarse level, then `n_layers` layers of transport, optionally after attention between subdomains.

    >>> model = flow_no(in_channels=1, out_channels=1, subdomains=(8, 8))
    >>> [[layer.label for layer in block] for block in (model.spec.opening, *model.spec.blocks)]
    [['coarse'], ['transport'], ['transport'], ['transport'], ['transport']]
    >>> sum(p.numel() for p in model.parameters())
    59713
    """
    return FlowNO(in_channels, out_channels, **settings).build()
