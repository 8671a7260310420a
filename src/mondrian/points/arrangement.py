"""How the cells of a partition lie to each other: their centres, and which of them hold points."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mondrian.decomposition import Lattice


@dataclass(frozen=True)
class Arrangement(Lattice):
    """How cells lie that need not fill a lattice: their centres, in typical sizes of a cell, and which hold points.

    `sample` is the number of domains of a batch, or one for all. For boxes the centres are the places on the lattice.
    """

    centres: Float[Tensor, "sample cell axis"] = field(compare=False, repr=False)
    filled: Bool[Tensor, "sample cell"] = field(compare=False, repr=False)

    def ways(self) -> Float[Tensor, "sample row column axis"]:
        """The way from the centre of one cell to that of another, the shorter one on a periodic axis."""
        way = self.centres[:, None, :, :] - self.centres[:, :, None, :]
        axes = []
        for axis, along in enumerate(way.unbind(dim=-1)):
            if axis < len(self.counts) and self.periodic[axis]:
                half = self.counts[axis] // 2
                along = (along + half) % self.counts[axis] - half
            axes.append(along)
        return torch.stack(axes, dim=-1)
