"""The interpolating operator: a low-rank kernel with factors interpolated from values at a few nodes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import OperatorSpec, SubdomainOperator, add_skip
from mondrian.quadrature import Cell, Midpoint
from mondrian.support.checks import positive
from mondrian.support.constants import constant


@dataclass(frozen=True)
class Interpolating(OperatorSpec):
    """A kernel of rank `rank`, its factors given at `nodes` per axis; a 1x1 skip.

    >>> sum(p.numel() for p in Interpolating(rank=32, nodes=4).build(128, 384, bias=False).parameters())
    311680
    """

    rank: int = 32
    nodes: int = 4
    skip: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(rank=self.rank, nodes=self.nodes)

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        return InterpolatingOperator(self, in_channels, out_channels, dim=dim, bias=bias)


class InterpolatingOperator(SubdomainOperator):
    r"""$(Iv)(x) = \sum_r \phi_r(x) \int \psi_r(y) \cdot v(y)\, dy + S v(x) + b$, $\phi_r(x) = \sum_m h_m(x) \Phi_{rm}$.

    $h_m$ are the multilinear hat functions of a cell-centred grid of nodes, constant beyond the outermost nodes: at
    any resolution the factors lie between the learned values.
    """

    def __init__(self, spec: Interpolating, in_channels: int, out_channels: int, *, dim: int, bias: bool) -> None:
        super().__init__(in_channels, out_channels, bias=bias, dim=dim)
        self.nodes = spec.nodes
        size = spec.nodes**dim
        self.phi = nn.Parameter(torch.randn(spec.rank, out_channels, size) / spec.rank**0.5)
        self.psi = nn.Parameter(torch.randn(spec.rank, in_channels, size) / in_channels**0.5)
        self.skip = nn.Linear(in_channels, out_channels) if spec.skip else None

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        hats = _hats(cell.points, self.nodes, cell.coordinates.dtype, cell.coordinates.device)
        phi, psi = (torch.einsum("xm,rcm->xrc", hats, values) for values in (self.phi, self.psi))
        coefficients = torch.einsum("y,yri,bciy->bcr", cell.weights, psi, v)
        return add_skip(self.add_bias(torch.einsum("xro,bcr->bcox", phi, coefficients)), self.skip, v)

    def evaluate(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        hats = _hats(cell.points, self.nodes, cell.coordinates.dtype, cell.coordinates.device)
        rows, n = v.flatten(0, 1), cell.size
        moments = rows.reshape(-1, n) @ (hats * cell.weights[:, None])  # (row channel) node
        coefficients = moments.view(-1, self.in_channels * hats.shape[1]) @ self.psi.flatten(1).mT
        at_nodes = coefficients @ self.phi.flatten(1)
        if self.bias is not None:  # the hats sum to one, so a constant function has the same value at every node
            at_nodes = at_nodes + self.bias.repeat_interleave(hats.shape[1])
        u = (at_nodes.view(-1, hats.shape[1]) @ hats.mT).view(-1, self.out_channels, n)
        if self.skip is not None:
            u = (
                u
                + torch.addmm(self.skip.bias, rows.mT.reshape(-1, self.in_channels), self.skip.weight.mT)
                .view(-1, n, self.out_channels)
                .mT
            )
        return u.view(*v.shape[:2], self.out_channels, n)


@constant
def _hats(points: tuple[int, ...], nodes: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    x = Cell.build(points, Midpoint(), dtype=torch.float64, device=device).coordinates
    return hat_functions(x, nodes).to(dtype)


def hat_functions(x: Float[Tensor, "point axis"], nodes: int) -> Float[Tensor, "point node"]:
    """Multilinear hats on `nodes` cell-centred nodes an axis of $[-1, 1]$; they sum to one everywhere."""
    positions = (2 * torch.arange(nodes, dtype=x.dtype, device=x.device) + 1) / nodes - 1
    inside = x.clamp(-1 + 1 / nodes, 1 - 1 / nodes)
    hats = (1 - (inside[..., None] - positions).abs() * (nodes / 2)).clamp_min(0)  # point axis node
    product = hats[:, 0]
    for axis in range(1, x.shape[-1]):
        product = (product[:, :, None] * hats[:, axis, None, :]).flatten(1)
    return product
