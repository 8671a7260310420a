"""The models of the paper: settings of `TransformerOperator` and `UNetOperator`."""

from __future__ import annotations

from collections.abc import Sequence
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
from mondrian.models.coarsening import Coarsening
from mondrian.models.transfer import Transfer
from mondrian.models.transformer import TransformerOperator, TransformerSpec
from mondrian.models.unet import UNetOperator, UNetSpec
from mondrian.operators import OperatorSpec
from mondrian.quadrature import Quadrature


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
    attention = GlobalAttention(n_heads=n_heads, spatial_heads=tuple(spatial_heads), operator=attention_operator)
    return TransformerOperator(TransformerSpec(in_channels, out_channels, attention=attention, **settings))


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
    attention = WindowedAttention(
        n_heads=n_heads,
        spatial_heads=tuple(spatial_heads),
        operator=attention_operator,
        window=tuple(window),
        shift=tuple(shift) or tuple(n // 2 for n in window),
    )
    settings.setdefault("positions", (LearnedPosition(tile=attention.window), RelativeBias()))
    return TransformerOperator(TransformerSpec(in_channels, out_channels, attention=attention, **settings))


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
    attention = NeighborhoodAttention(
        n_heads=n_heads,
        spatial_heads=tuple(spatial_heads),
        operator=attention_operator,
        radius=radius,
        zero_far=zero_far,
    )
    return TransformerOperator(TransformerSpec(in_channels, out_channels, attention=attention, **settings))


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
    attention = NeighborhoodAttention(
        n_heads=n_heads, spatial_heads=tuple(spatial_heads), operator=attention_operator, radius=radius
    )
    return UNetOperator(UNetSpec(in_channels, out_channels, attention=attention, **settings))
