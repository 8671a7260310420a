"""Points of many cells of different sizes in rows of one length: ragged batches without padding to the largest cell."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

ROW = 24  # slots that cost as much as beginning another row: what a row adds to the sums of its cell, and reads of it


@dataclass(frozen=True, eq=False)
class Tiles:
    """Points sorted by cell, in rows ("tiles") of equal length, each of one cell; a cell has as many as it needs.

    Products within a cell become products within a tile, all alike, and what several tiles of a cell have to say is
    added. At most the last tile of a cell is not full: `filled` says which slots hold a point. Coordinates are those
    in the cell, weights relative to the volume of the cell, zero in the slots that are not filled.

    >>> tiles = Tiles.build(torch.tensor([0, 2, 0, 0]), torch.zeros(4, 1), torch.ones(4), cells=3, length=2)
    >>> tiles.cell.tolist(), tiles.filled.tolist()
    ([0, 0, 2], [[True, True], [True, False], [True, False]])
    """

    index: Int[Tensor, "tile slot"]  # the point in each slot
    filled: Bool[Tensor, "tile slot"]
    place: Int[Tensor, " point"]  # the slot of each point, counted through all tiles
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
        """Tiles of a given length, or of the one with the least work."""
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
            place=torch.empty_like(order).index_copy(0, order, slot),
            cell=torch.arange(cells, device=rows.device).repeat_interleave(rows),
            cells=cells,
            coordinates=torch.where(filled[:, None], coordinates[index], 0.0).view(*shape, -1),
            weights=torch.where(filled, weights[index], 0.0).view(shape),
        )

    def spread(self, values: Shaped[Tensor, "batch channel point"]) -> Shaped[Tensor, "batch tile slot channel"]:
        """From the points to the slots. Slots that are not filled repeat some point, and have no weight."""
        return values.mT.index_select(1, self.index.flatten()).unflatten(1, self.index.shape)

    def collect(self, values: Shaped[Tensor, "batch tile slot channel"]) -> Shaped[Tensor, "batch channel point"]:
        """From the slots back to the points: the inverse of `spread`."""
        return values.flatten(1, 2).index_select(1, self.place).mT

    def sum_by_cell(self, parts: Shaped[Tensor, "batch tile *rest"]) -> Shaped[Tensor, "batch cell *rest"]:
        """The sum over the tiles of each cell; zero where there is none."""
        total = parts.new_zeros(parts.shape[0], self.cells, *parts.shape[2:])
        return total.index_add(1, self.cell, parts)

    def max_by_cell(self, parts: Shaped[Tensor, "batch tile *rest"]) -> Shaped[Tensor, "batch cell *rest"]:
        """The largest over the tiles of each cell; minus infinity where there is none."""
        least = parts.new_full((parts.shape[0], self.cells, *parts.shape[2:]), -torch.inf)
        index = self.cell.view(1, -1, *(1,) * (parts.ndim - 2)).expand_as(parts)
        return least.scatter_reduce(1, index, parts, "amax")

    def of_cells(self, cells: Shaped[Tensor, "batch cell *rest"]) -> Shaped[Tensor, "batch tile *rest"]:
        """What belongs to a cell, for each of its tiles."""
        return cells.index_select(1, self.cell)

    def to(self, dtype: torch.dtype, device: torch.device) -> Tiles:
        """The same in another floating-point type and on another device."""
        if self.weights.dtype == dtype and self.weights.device == device:
            return self
        return replace(
            self,
            index=self.index.to(device),
            filled=self.filled.to(device),
            place=self.place.to(device),
            cell=self.cell.to(device),
            coordinates=self.coordinates.to(device, dtype),
            weights=self.weights.to(device, dtype),
        )


def best_length(counts: Int[Tensor, " cell"]) -> int:
    """The length of tiles with the least work: slots, and tiles, which cost as much as `ROW` slots each."""
    largest = int(counts.max())
    lengths = [2**k for k in range(3, 16) if 2**k < largest] + [largest]
    return min(lengths, key=lambda length: int(((counts + length - 1) // length).sum()) * (length + ROW))
