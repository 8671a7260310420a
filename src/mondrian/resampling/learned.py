"""The base of all learned resamplers: maps from values at some points of a cell to values at other points."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.points.tiles import Tiles
from mondrian.quadrature import Cell
from mondrian.support.spec import Spec


class LearnedResampler(nn.Module):
    """A map from a function at the source points of a cell to a function at its target points.

    There are three uses: `between` two sets of points that are the same in every cell (coarsen, refine), `encode` from
    any points to the points of a reference cell, and `decode` back to any points. The map integrates over the source
    points with their quadrature weights. `definition` reads like the equation, for one cell; with `plain` set it runs,
    cell by cell.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.plain = False

    def between(
        self, v: Float[Tensor, "batch cell channel_in source"], source: Cell, target: Cell
    ) -> Float[Tensor, "batch cell channel_out target"]:
        """From the points of one reference cell to those of another: for coarsening and refining."""
        self._check(v, 2, source.size)
        if not self.plain:
            return self.evaluate_between(v, source, target)
        rows = self.definition(v.flatten(0, 1).mT, source.coordinates, source.weights, target.coordinates)
        return rows.mT.unflatten(0, v.shape[:2])

    def encode(
        self, v: Float[Tensor, "batch tile slot channel_in"], source: Tiles, target: Cell
    ) -> Float[Tensor, "batch cell channel_out target"]:
        """From any points to the points of the reference cell."""
        self._check(v, 3)
        if v.shape[1:3] != source.filled.shape:
            raise ValueError(f"v has shape {tuple(v.shape)}; needed {tuple(source.filled.shape)} tiles and slots")
        if not self.plain:
            return self.evaluate_encode(v, source, target)
        cells = []
        for cell in range(source.cells):
            inside = source.filled & (source.cell == cell)[:, None]
            cells.append(
                self.definition(v[:, inside], source.coordinates[inside], source.weights[inside], target.coordinates)
            )
        return torch.stack(cells, dim=1).mT

    def decode(
        self, v: Float[Tensor, "batch cell channel_in source"], source: Cell, target: Tiles
    ) -> Float[Tensor, "batch tile slot channel_out"]:
        """From the points of the reference cell to any points."""
        self._check(v, 2, source.size)
        if v.shape[1] != target.cells:
            raise ValueError(f"v has shape {tuple(v.shape)}; needed {target.cells} cells, as the target has")
        if not self.plain:
            return self.evaluate_decode(v, source, target)
        u = v.new_zeros(v.shape[0], *target.filled.shape, self.out_channels)
        for cell in range(target.cells):
            inside = target.filled & (target.cell == cell)[:, None]
            values = self.definition(v[:, cell].mT, source.coordinates, source.weights, target.coordinates[inside])
            u = u.index_put((torch.arange(len(u), device=u.device)[:, None], *inside.nonzero().unbind(1)), values)
        return u

    def definition(
        self,
        v: Float[Tensor, "row source channel_in"],
        y: Float[Tensor, "source axis"],
        weights: Float[Tensor, " source"],
        x: Float[Tensor, "target axis"],
    ) -> Float[Tensor, "row target channel_out"]:
        raise NotImplementedError

    def evaluate_between(
        self, v: Float[Tensor, "batch cell channel_in source"], source: Cell, target: Cell
    ) -> Float[Tensor, "batch cell channel_out target"]:
        raise NotImplementedError

    def evaluate_encode(
        self, v: Float[Tensor, "batch tile slot channel_in"], source: Tiles, target: Cell
    ) -> Float[Tensor, "batch cell channel_out target"]:
        raise NotImplementedError

    def evaluate_decode(
        self, v: Float[Tensor, "batch cell channel_in source"], source: Cell, target: Tiles
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
    """Describes a learned resampler; `build` makes it for given channels and a given dimension."""

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2) -> LearnedResampler:
        raise NotImplementedError


def squared_distances(x: Float[Tensor, "... x axis"], y: Float[Tensor, "... y axis"]) -> Float[Tensor, "... x y"]:
    """Squared distances of all pairs, from differences: a difference of squares would lose digits in low precision."""
    total = (x[..., :, None, 0] - y[..., None, :, 0]) ** 2
    for axis in range(1, x.shape[-1]):
        total = total + (x[..., :, None, axis] - y[..., None, :, axis]) ** 2
    return total
