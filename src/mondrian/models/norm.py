"""How a block normalises the functions that its branches see, each subdomain by itself."""

from __future__ import annotations

import math
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

GROUPS = 8


class CellNorm(nn.GroupNorm):
    """Group normalisation with statistics of each cell: over the channels of a group and the points of the cell."""

    def __init__(self, channels: int) -> None:
        super().__init__(math.gcd(GROUPS, channels), channels)

    def forward(self, v: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch cell channel point"]:
        return super().forward(v.flatten(0, 1)).view(v.shape)


class PointNorm(nn.LayerNorm):
    """Layer normalisation over the channels at each point."""

    def forward(self, v: Float[Tensor, "batch cell channel point"]) -> Float[Tensor, "batch cell channel point"]:
        return super().forward(v.mT).mT


NORMS: dict[str, Callable[[int], nn.Module]] = {"cell": CellNorm, "point": PointNorm, "none": lambda _: nn.Identity()}
