"""`point_no`, or `spec: PointNO` in a file: the transformer operator on points, with its most common arguments."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TypedDict, Unpack

from mondrian.attention import AttentionSpec, CentreAttention, Position
from mondrian.models.points.model import PointOperator, PointSpec
from mondrian.operators import OperatorSpec
from mondrian.points.partition import PartitionSpec
from mondrian.quadrature import Quadrature
from mondrian.resampling.learned import ResamplerSpec


@dataclass(frozen=True)
class PointNO(PointSpec):
    """A `PointSpec` whose `CentreAttention` is given by its heads and radius, or whose `attention` is of one's own."""

    attention: AttentionSpec = None  # type: ignore[assignment]  # that of heads and radius
    n_heads: int | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        own = CentreAttention(n_heads=4 if self.n_heads is None else self.n_heads, radius=self.radius)
        if self.attention is None:
            object.__setattr__(self, "attention", own)
        elif (self.n_heads is not None or self.radius is not None) and self.attention != own:
            raise ValueError(
                f"n_heads={self.n_heads} and radius={self.radius} conflict with attention={self.attention}: needed "
                "either these or an attention"
            )
        super().__post_init__()

    def resolved(self) -> PointSpec:
        return PointSpec(**{field.name: getattr(self, field.name) for field in fields(PointSpec)})

    def build(self) -> PointOperator:
        return self.resolved().build()


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
    return PointNO(in_channels, out_channels, partition, n_heads=n_heads, radius=radius, **settings).build()
