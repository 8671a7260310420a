"""Points of cells of different sizes in rows of equal length: ragged batches without padding to the largest cell."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

ROW = 24  # slots that cost as much as one more row: its part of the sums of its cell, and reading them


@dataclass(frozen=True, eq=False)
class Tiles:
    """Points sorted by cell, in rows ("tiles") of equal length; each tile belongs to one cell, a cell has any number.

    Products within a cell become products within tiles of equal shape, and the sums over the tiles of a cell are added.
    Only the last tile of a cell may have empty slots: `filled` marks the slots that hold a point. Coordinates are local
    to the cell, weights relative to its volume; both are zero in empty slots.

    >>> tiles = Tiles.build(torch.tensor([0, 2, 0, 0]), torch.zeros(4, 1), torch.ones(4), cells=3, length=2)
    >>> tiles.cell.tolist(), tiles.filled.tolist()
    ([0, 0, 2], [[True, True], [True, False], [True, False]])
    """

    index: Int[Tensor, "tile slot"]  # the point in each slot
    filled: Bool[Tensor, "tile slot"]
    slot: Int[Tensor, " point"]  # the slot of each point, numbered through all tiles
    cell: Int[Tensor, " tile"]
    cells: int
    coordinates: Float[Tensor, "tile slot axis"]
    weights: Float[Tensor, "tile slot"]

    @staticmethod
    def build(
        members: Int[Tensor, " point"],
        coordinates: Float[Tensor, "point axis"],
        weights: Float[Tensor, " point"],
        *,
        cells: int,
        length: int | None = None,
    ) -> Tiles:
        """Tiles of a given length, or of the cheapest one."""
        counts = torch.bincount(members, minlength=cells)
        length = length or best_length(counts)
        order = members.argsort(stable=True)
        rows = (counts + length - 1) // length
        sorted_cells = members[order]
        rank = torch.arange(len(order), device=order.device) - (counts.cumsum(0) - counts)[sorted_cells]
        slot = ((rows.cumsum(0) - rows)[sorted_cells] + rank // length) * length + rank % length
        total = int(rows.sum())
        index, filled = (order.new_zeros(total * length, dtype=kind) for kind in (torch.int64, torch.bool))
        index[slot], filled[slot] = order, True
        shape = (total, length)
        return Tiles(
            index=index.view(shape),
            filled=filled.view(shape),
            slot=torch.empty_like(order).index_copy(0, order, slot),
            cell=torch.arange(cells, device=rows.device).repeat_interleave(rows),
            cells=cells,
            coordinates=torch.where(filled[:, None], coordinates[index], 0.0).view(*shape, -1),
            weights=torch.where(filled, weights[index], 0.0).view(shape),
        )

    def spread(self, values: Shaped[Tensor, "batch channel point"]) -> Shaped[Tensor, "batch tile slot channel"]:
        """Values at the points, arranged in slots; empty slots repeat some point and have weight zero."""
        return values.mT.index_select(1, self.index.flatten()).unflatten(1, self.index.shape)

    def collect(self, values: Shaped[Tensor, "batch tile slot channel"]) -> Shaped[Tensor, "batch channel point"]:
        """Values in slots, arranged by point: the inverse of `spread`."""
        return values.flatten(1, 2).index_select(1, self.slot).mT

    def sum_by_cell(self, parts: Shaped[Tensor, "batch tile *rest"]) -> Shaped[Tensor, "batch cell *rest"]:
        """The sum over the tiles of each cell; zero for a cell without tiles."""
        total = parts.new_zeros(parts.shape[0], self.cells, *parts.shape[2:])
        return total.index_add(1, self.cell, parts)

    def max_by_cell(self, parts: Shaped[Tensor, "batch tile *rest"]) -> Shaped[Tensor, "batch cell *rest"]:
        """The maximum over the tiles of each cell; minus infinity for a cell without tiles."""
        least = parts.new_full((parts.shape[0], self.cells, *parts.shape[2:]), -torch.inf)
        index = self.cell.view(1, -1, *(1,) * (parts.ndim - 2)).expand_as(parts)
        return least.scatter_reduce(1, index, parts, "amax")

    def of_cells(self, cells: Shaped[Tensor, "batch cell *rest"]) -> Shaped[Tensor, "batch tile *rest"]:
        """The values of each cell, repeated for its tiles."""
        return cells.index_select(1, self.cell)

    def to(self, dtype: torch.dtype, device: torch.device) -> Tiles:
        """These tiles in another floating-point type and on another device."""
        if self.weights.dtype == dtype and self.weights.device == device:
            return self
        return replace(
            self,
            index=self.index.to(device),
            filled=self.filled.to(device),
            slot=self.slot.to(device),
            cell=self.cell.to(device),
            coordinates=self.coordinates.to(device, dtype),
            weights=self.weights.to(device, dtype),
        )


def best_length(counts: Int[Tensor, " cell"]) -> int:
    """The cheapest length of tiles, where a tile costs its slots and `ROW` more."""
    largest = int(counts.max())
    lengths = [2**k for k in range(3, 16) if 2**k < largest] + [largest]
    return min(lengths, key=lambda length: int(((counts + length - 1) // length).sum()) * (length + ROW))
