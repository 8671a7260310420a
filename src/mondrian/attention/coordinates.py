"""Position encoding by coordinates: a function of the position in the domain, added to the features of a cell."""

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

    $X_i(x) \in [-1, 1]^d$ is the position of the point in the bounding box of the domain; $s_i$ is the size of the cell
    along each axis, in typical sizes. It works on every partition and does not depend on the numbering of cells.
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
        """`centres` and `sizes` in units of half the bounding box, `scales` as logarithms of sizes in typical sizes."""
        places = centres[:, :, None] + sizes[:, :, None] / 2 * cell.coordinates
        return v + self.network(torch.cat([places, scales[:, :, None].expand_as(places)], dim=-1)).mT
