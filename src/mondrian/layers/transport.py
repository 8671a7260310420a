"""Transport: each head reads its values at a displaced place that the input determines."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.decomposition import Decomposition
from mondrian.layers.base import LayerContext, LayerSpec
from mondrian.layers.sampling import ORDERS, sample
from mondrian.layers.update import PointwiseUpdate, pointwise
from mondrian.support.checks import positive

GOLDEN_ANGLE = math.pi * (3 - math.sqrt(5))


@dataclass(frozen=True)
class Transport(LayerSpec):
    r"""$v + F_2 \operatorname{gelu}(F_0 Nv + F_1 T Nv)$ with a `Displacement` $T$ of `heads` heads.

    Displacements are in subdomains, so that they are the same lengths on larger domains. They start as fixed offsets up
    to `reach`, and never exceed `bound` along an axis, if there is one. Values between points are interpolated at the
    `order` 2 (linear) or 4 (cubic).

    Warps as layers of surrogates: Muser et al. 2026, "Flowers: A Warp Drive for Neural PDE Solvers", arXiv 2603.04430.
    """

    heads: int = 16
    reach: float = 0.8
    bound: float | None = None
    order: int = 2
    expansion: int = 2
    norm: str | None = field(default="domain", kw_only=True)

    whole_domain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(heads=self.heads, expansion=self.expansion)
        if not 0 <= self.reach < math.inf:
            raise ValueError(f"reach={self.reach} must be at least 0 and finite")
        if self.bound is not None and not self.reach < self.bound < math.inf:
            raise ValueError(f"bound={self.bound} must be finite and greater than reach={self.reach}")
        if self.order not in ORDERS:
            raise ValueError(f"order={self.order} is not available; needed 2 (linear) or 4 (cubic)")

    def build(self, context: LayerContext) -> nn.Module:
        displacement = Displacement(self, context.channels, context.dim)
        return PointwiseUpdate(displacement, context.channels, expansion=self.expansion)


class Displacement(nn.Module):
    r"""$(Tv)_h(x) = (V_h v)\bigl(x + \delta_h(v)(x)\bigr)$ with $\delta_h(v)(x) = o_h + D_h v(x)$ for each head $h$.

    The heads share the channels equally. The offsets $o_h$ start on a spiral (in one dimension on both sides, in three
    on spheres), $D_h$ starts at zero. With a bound $\beta$ the displacement is $\beta \tanh(\delta_h / \beta)$. The
    matrices $W_h$ of $\sum_h W_h (V_h v)(x + \delta_h)$ are part of the map $F_1$ that follows.

    Maps `(batch, channel, *space)` to the same shape, at a cost linear in the points. Periodic axes wrap; at walls a
    field continues as its mirror image. Commutes with shifts by whole points along periodic axes.
    """

    def __init__(self, spec: Transport, channels: int, dim: int) -> None:
        super().__init__()
        if channels % spec.heads:
            raise ValueError(f"heads={spec.heads} does not divide hidden_channels={channels}")
        self.spec = spec
        self.dim = dim
        self.plain = False
        self.value = nn.Linear(channels, channels, bias=False)
        self.displacement = nn.Linear(channels, spec.heads * dim)
        with torch.no_grad():
            self.displacement.weight.zero_()
            offsets = spiral(spec.heads, dim) * spec.reach
            if spec.bound is not None:
                offsets = spec.bound * torch.atanh(offsets / spec.bound)
            self.displacement.bias.copy_(offsets.flatten())

    def forward(
        self, v: Float[Tensor, "batch channel *space"], domain: Decomposition
    ) -> Float[Tensor, "batch channel *space"]:
        positions = self.positions(v, domain).flatten(0, 1)
        values = pointwise(self.value, v).unflatten(1, (self.spec.heads, -1)).flatten(0, 1)
        wide = values.to(positions.dtype)
        moved = sample(wide, positions, domain.grid.periodic, order=self.spec.order, plain=self.plain)
        return moved.to(values.dtype).unflatten(0, (-1, self.spec.heads)).flatten(1, 2)

    def displacements(self, v: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch head axis *space"]:
        """The displacement of each head at each point, in subdomains along each axis."""
        delta = pointwise(self.displacement, v).unflatten(1, (self.spec.heads, self.dim))
        bound = self.spec.bound
        return delta if bound is None else bound * torch.tanh(delta / bound)

    def positions(
        self, v: Float[Tensor, "batch channel *space"], domain: Decomposition
    ) -> Float[Tensor, "batch head axis *space"]:
        """Where each head reads, counted in points along each axis; in single precision at least."""
        delta = self.displacements(v)
        delta = delta.to(torch.promote_types(delta.dtype, torch.float32))
        axes = []
        for axis, inside in enumerate(domain.cell_points):
            start = torch.arange(v.shape[2 + axis], dtype=delta.dtype, device=delta.device)
            axes.append(start.view(-1, *(1,) * (self.dim - 1 - axis)) + delta[:, :, axis] * inside)
        return torch.stack(axes, dim=2)


def spiral(count: int, dim: int) -> Float[Tensor, "point axis"]:
    """Points that fill the unit ball of up to three dimensions evenly, along a spiral of the golden angle.

    >>> spiral(4, 1).flatten()
    tensor([ 0.1250, -0.3750,  0.6250, -0.8750])
    """
    number = torch.arange(count, dtype=torch.float64)
    radius, angle = ((number + 0.5) / count) ** (1 / dim), GOLDEN_ANGLE * number
    match dim:
        case 1:
            points = (radius * (-1) ** number)[:, None]
        case 2:
            points = radius[:, None] * torch.stack([angle.cos(), angle.sin()], dim=1)
        case 3:
            height = 1 - 2 * torch.remainder((number + 0.5) * (math.sqrt(5) - 1) / 2, 1)
            ring = (1 - height.square()).sqrt()
            points = radius[:, None] * torch.stack([ring * angle.cos(), ring * angle.sin(), height], dim=1)
        case _:
            raise ValueError(f"dim={dim} has no spiral; needed 1, 2 or 3")
    return points.to(torch.get_default_dtype())
