"""What every learned resampler is: a map from functions at some points of a cell to functions at other points of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.points.tiles import Tiles
from mondrian.quadrature import Cell
from mondrian.support.spec import Spec


class LearnedResampler(nn.Module):
    """A map between functions on the cell that takes them at some points and gives them at others.

    Three uses: `between` two sets of points that are the same in every cell (coarsen, refine), `encode` from any points
    to those, `decode` from those to any points. What is given is integrated over, so the quadrature weights of the
    given points enter; what is wanted is only looked at. `definition` reads like the equation, for one cell; with
    `plain` set it is what runs, cell by cell.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.plain = False

    def between(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Cell
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        """From the points of one reference cell to those of another: for coarsening and refining."""
        self._check(v, 2, given.size)
        if not self.plain:
            return self.evaluate_between(v, given, wanted)
        rows = self.definition(v.flatten(0, 1).mT, given.coordinates, given.weights, wanted.coordinates)
        return rows.mT.unflatten(0, v.shape[:2])

    def encode(
        self, v: Float[Tensor, "batch tile slot channel_in"], given: Tiles, wanted: Cell
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        """From any points to the points of the reference cell."""
        self._check(v, 3)
        if v.shape[1:3] != given.filled.shape:
            raise ValueError(f"v has shape {tuple(v.shape)}; needed {tuple(given.filled.shape)} tiles and slots")
        if not self.plain:
            return self.evaluate_encode(v, given, wanted)
        cells = []
        for cell in range(given.cells):
            here = given.filled & (given.cell == cell)[:, None]
            cells.append(self.definition(v[:, here], given.coordinates[here], given.weights[here], wanted.coordinates))
        return torch.stack(cells, dim=1).mT

    def decode(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Tiles
    ) -> Float[Tensor, "batch tile slot channel_out"]:
        """From the points of the reference cell to any points."""
        self._check(v, 2, given.size)
        if v.shape[1] != wanted.cells:
            raise ValueError(f"v has shape {tuple(v.shape)}; needed {wanted.cells} cells, as the wanted points have")
        if not self.plain:
            return self.evaluate_decode(v, given, wanted)
        u = v.new_zeros(v.shape[0], *wanted.filled.shape, self.out_channels)
        for cell in range(wanted.cells):
            here = wanted.filled & (wanted.cell == cell)[:, None]
            values = self.definition(v[:, cell].mT, given.coordinates, given.weights, wanted.coordinates[here])
            u = u.index_put((torch.arange(len(u), device=u.device)[:, None], *here.nonzero().unbind(1)), values)
        return u

    def definition(
        self,
        v: Float[Tensor, "row given channel_in"],
        y: Float[Tensor, "given axis"],
        weights: Float[Tensor, " given"],
        x: Float[Tensor, "wanted axis"],
    ) -> Float[Tensor, "row wanted channel_out"]:
        raise NotImplementedError

    def evaluate_between(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Cell
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        raise NotImplementedError

    def evaluate_encode(
        self, v: Float[Tensor, "batch tile slot channel_in"], given: Tiles, wanted: Cell
    ) -> Float[Tensor, "batch cell channel_out wanted"]:
        raise NotImplementedError

    def evaluate_decode(
        self, v: Float[Tensor, "batch cell channel_in given"], given: Cell, wanted: Tiles
    ) -> Float[Tensor, "batch tile slot channel_out"]:
        raise NotImplementedError

    def _check(self, v: Tensor, channel_axis: int, points: int | None = None) -> None:
        if v.ndim != 4 or v.shape[channel_axis] != self.in_channels or (points is not None and v.shape[3] != points):
            needed = f"{self.in_channels} channels along axis {channel_axis}"
            raise ValueError(
                f"v has shape {tuple(v.shape)}; needed {needed}" + (f" and {points} points" if points else "")
            )


@dataclass(frozen=True)
class ResamplerSpec(Spec):
    """Describes a learned resampler; `build` makes it for given channels and dimension."""

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2) -> LearnedResampler:
        raise NotImplementedError


def squared_distances(x: Float[Tensor, "... x axis"], y: Float[Tensor, "... y axis"]) -> Float[Tensor, "... x y"]:
    """Squared distances of all pairs, from differences: a difference of squares loses digits in low precision."""
    total = (x[..., :, None, 0] - y[..., None, :, 0]) ** 2
    for axis in range(1, x.shape[-1]):
        total = total + (x[..., :, None, axis] - y[..., None, :, axis]) ** 2
    return total
