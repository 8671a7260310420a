"""Where a cell lies in the domain, as a function that is added to what lives on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.attention.position import Position
from mondrian.quadrature import Cell
from mondrian.support.checks import positive


@dataclass(frozen=True)
class CoordinatePosition(Position):
    r"""$v_i(x) + P\bigl(X_i(x), \log_2 s_i\bigr)$ with a small network $P$, added once before the blocks.

    $X_i(x)$ is the place of the point in the domain's box, in $[-1, 1]^d$, and $s_i$ the size of the cell in typical
    sizes, an axis each. Fits every partition, and says the same however its cells are numbered.
    """

    hidden: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(hidden=self.hidden)

    def build(self, channels: int, dim: int) -> CoordinateFunction:
        return CoordinateFunction(self, channels, dim)


class CoordinateFunction(nn.Module):
    """The network of `CoordinatePosition`."""

    def __init__(self, spec: CoordinatePosition, channels: int, dim: int) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(2 * dim, spec.hidden), nn.GELU(), nn.Linear(spec.hidden, channels, bias=False)
        )

    def forward(
        self,
        v: Float[Tensor, "batch cell channel point"],
        cell: Cell,
        centres: Float[Tensor, "sample cell axis"],
        sizes: Float[Tensor, "sample cell axis"],
        scales: Float[Tensor, "sample cell axis"],
    ) -> Float[Tensor, "batch cell channel point"]:
        """`centres` and `sizes` as parts of half the domain's box, `scales` as logarithms of typical sizes."""
        places = centres[:, :, None] + sizes[:, :, None] / 2 * cell.coordinates
        return v + self.network(torch.cat([places, scales[:, :, None].expand_as(places)], dim=-1)).mT
