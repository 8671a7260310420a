"""The arrangement of the cells of a partition: their centres, and which of them hold points."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mondrian.decomposition import Lattice, shorter_offset


@dataclass(frozen=True)
class Arrangement(Lattice):
    """Cells that need not fill a lattice: their centres, in units of a typical cell size, and which hold points.

    `sample` is the number of domains of a batch, or one for all. The centres of boxes are their lattice positions.
    """

    centres: Float[Tensor, "sample cell axis"] = field(compare=False, repr=False)
    filled: Bool[Tensor, "sample cell"] = field(compare=False, repr=False)

    def displacements(self) -> Float[Tensor, "sample row column axis"]:
        """The vectors from the centre of one cell to that of another, the shorter ones on a periodic axis."""
        displacement = self.centres[:, None, :, :] - self.centres[:, :, None, :]
        axes = []
        for axis, along in enumerate(displacement.unbind(dim=-1)):
            is_ring = axis < len(self.counts) and self.periodic[axis]
            axes.append(shorter_offset(along, self.counts[axis]) if is_ring else along)
        return torch.stack(axes, dim=-1)
