"""`point_no`: the transformer operator on points, with its most common arguments."""

from __future__ import annotations

from typing import TypedDict, Unpack

from mondrian.attention import AttentionSpec, CentreAttention, Position
from mondrian.models.points.model import PointOperator, PointSpec
from mondrian.operators import OperatorSpec
from mondrian.points.partition import PartitionSpec
from mondrian.quadrature import Quadrature
from mondrian.resampling.learned import ResamplerSpec


class PointSettings(TypedDict, total=False):
    """The fields of `PointSpec` that `point_no` accepts."""

    hidden_channels: int
    n_layers: int
    reference: tuple[int, ...]
    resampler: ResamplerSpec
    operator: OperatorSpec
    attention: AttentionSpec
    positions: tuple[Position, ...]
    quadrature: Quadrature
    stagger: bool


def point_no(
    in_channels: int,
    out_channels: int,
    *,
    partition: PartitionSpec,
    n_heads: int | None = None,
    radius: float | None = None,
    **settings: Unpack[PointSettings],
) -> PointOperator:
    """A transformer operator on points: cells attend to all others, or to those within `radius` typical sizes.

    The default is 4 heads. An explicit `attention` has its own heads and radius.

    >>> from mondrian.points import MetisParts
    >>> model = point_no(2, 1, partition=MetisParts(parts=32), hidden_channels=32, radius=2.0)
    >>> model.spec.attention
    CentreAttention(n_heads=4, spatial_heads=(), operator=None, radius=2.0)
    """
    if "attention" not in settings:
        settings["attention"] = CentreAttention(n_heads=4 if n_heads is None else n_heads, radius=radius)
    elif n_heads is not None or radius is not None:
        raise ValueError(
            f"n_heads={n_heads} and radius={radius} conflict with attention={settings['attention']}: needed either "
            "these or an attention"
        )
    return PointOperator(PointSpec(in_channels, out_channels, partition, **settings))
