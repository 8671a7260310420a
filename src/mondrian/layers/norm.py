"""Normalisations of the input of a branch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.quadrature import Cell

GROUPS = 8


class CellNorm(nn.GroupNorm):
    r"""Group normalisation with the statistics of each cell: means over a group of channels and over the cell.

    $$v_c \mapsto \gamma_c (v_c - m_g) / \sqrt{s_g + \epsilon} + \beta_c, \qquad
    m_g = \operatorname{mean}_{c \in g} \int v_c, \quad s_g = \operatorname{mean}_{c \in g} \int (v_c - m_g)^2$$
    """

    def __init__(self, channels: int, groups: int = GROUPS) -> None:
        super().__init__(math.gcd(groups, channels), channels)

    def forward(  # type: ignore[override]  # the cell has the weights of the mean
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel point"]:
        if cell.quadrature.equal_weights:
            # not torch.nn.functional, which refuses a group of one value
            return torch.group_norm(v.flatten(0, 1), self.num_groups, self.weight, self.bias, self.eps).view(v.shape)
        wide = torch.promote_types(v.dtype, torch.float32)  # precision of the statistics, as in torch
        groups = v.to(wide).unflatten(2, (self.num_groups, -1))
        weights = Cell.build(cell.points, cell.quadrature, dtype=wide, device=v.device).weights / groups.shape[3]
        centred = groups - (groups * weights).sum(dim=(3, 4), keepdim=True)
        variance = (centred.square() * weights).sum(dim=(3, 4), keepdim=True)
        normalised = (centred * torch.rsqrt(variance + self.eps)).view(v.shape).to(v.dtype)
        return torch.addcmul(self.bias[:, None], self.weight[:, None], normalised)

    def on_field(self, v: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        """A field has no cells."""
        raise ValueError("norm='cell' needs cells; for a layer on the whole domain choose 'domain', 'point' or 'none'")


class DomainNorm(CellNorm):
    r"""Group normalisation of all channels together, with statistics of the whole domain.

    $$v_c \mapsto \gamma_c (v_c - m) / \sqrt{s + \epsilon} + \beta_c, \qquad
    m = \operatorname{mean}_{c, i} \int v_{ic}, \quad s = \operatorname{mean}_{c, i} \int (v_{ic} - m)^2$$
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, groups=1)

    def forward(  # type: ignore[override]  # as of its base
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel point"]:
        joined = v.transpose(1, 2)  # all cells as one
        if cell.quadrature.equal_weights:
            return self.on_field(joined).transpose(1, 2)
        wide = torch.promote_types(v.dtype, torch.float32)
        weights = Cell.build(cell.points, cell.quadrature, dtype=wide, device=v.device).weights
        weights = weights / (v.shape[1] * v.shape[2])
        centred = v.to(wide) - (v.to(wide) * weights).sum(dim=(1, 2, 3), keepdim=True)
        variance = (centred.square() * weights).sum(dim=(1, 2, 3), keepdim=True)
        normalised = (centred * torch.rsqrt(variance + self.eps)).to(v.dtype)
        return torch.addcmul(self.bias[:, None], self.weight[:, None], normalised)

    def on_field(self, v: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        """The same on a field, by the midpoint rule."""
        return torch.group_norm(v, self.num_groups, self.weight, self.bias, self.eps)


class PointNorm(nn.LayerNorm):
    """Layer normalisation over the channels at each point."""

    def forward(  # type: ignore[override]  # all norms are called alike
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel point"]:
        return super().forward(v.mT).mT

    def on_field(self, v: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        """The same on a field."""
        return super().forward(v.movedim(1, -1)).movedim(-1, 1)


class NoNorm(nn.Module):
    """No normalisation."""

    def __init__(self, channels: int) -> None:
        super().__init__()

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel point"]:
        return v

    def on_field(self, v: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        """The same on a field."""
        return v


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "cell": CellNorm,
    "domain": DomainNorm,
    "point": PointNorm,
    "none": NoNorm,
}
