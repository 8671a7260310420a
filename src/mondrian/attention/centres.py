"""Attention between cells at arbitrary positions, some of which may be empty."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from mondrian.attention.patterns import AttentionSpec, Bias
from mondrian.attention.position import OffsetBias
from mondrian.decomposition import Lattice
from mondrian.lattice import LatticeRows
from mondrian.points.arrangement import Arrangement


@dataclass(frozen=True)
class CentreAttention(AttentionSpec):
    """Every cell attends to the cells that hold points and whose centres lie within `radius`; None means all of them.

    The radius is measured in typical cell sizes along every axis; on a full lattice it equals that of
    `NeighborhoodAttention`. A cell always attends to itself. The scores of all pairs are computed and then masked,
    which costs little for up to a few hundred cells; for many boxes use the patterns of a lattice.
    """

    radius: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius is not None and not self.radius >= 0:
            raise ValueError(f"radius={self.radius} must be at least 0")

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lattice: Lattice | LatticeRows,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self._added(q, lattice, bias), scale=scale)

    def definition(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lattice: Lattice | LatticeRows,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Tensor:
        score = torch.einsum("bhif,bhjf->bhij", scale * q, k)
        return torch.softmax(score + self._added(q, lattice, bias), dim=-1) @ v

    def seen(self, arrangement: Arrangement) -> Bool[Tensor, "sample row column"]:
        """Whether the first cell attends to the second."""
        ways = arrangement.displacements()
        seen = arrangement.filled[:, None, :].expand(ways.shape[:3])
        if self.radius is not None:
            seen = seen & (ways.abs().amax(dim=-1) <= self.radius * (1 + 1e-6))  # rounding keeps neighbours in
        return seen | torch.eye(ways.shape[1], dtype=torch.bool, device=ways.device)

    def _added(
        self, q: Tensor, lattice: Lattice | LatticeRows, bias: Bias | None
    ) -> Float[Tensor, "sample #head row column"]:
        """The mask added to the scores: the bias, and minus infinity between cells that do not attend."""
        if not isinstance(lattice, Arrangement):
            raise ValueError(
                f"CentreAttention got lattice={lattice}; needed the arrangement of a PointOperator's cells"
            )
        shown = torch.zeros((), dtype=q.dtype, device=q.device)
        if isinstance(bias, OffsetBias):
            shown = bias.at(lattice.displacements()).permute(0, 3, 1, 2).to(q.dtype)
        # contiguous, as fused GPU kernels require
        return torch.where(self.seen(lattice)[:, None], shown, -torch.inf).contiguous()
