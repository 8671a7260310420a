"""The separable mixture operator: diagonal matrices in the kernel, then a mix of channels at each point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import OperatorSpec, SubdomainOperator, add_skip
from mondrian.operators.kernel import pair_network
from mondrian.operators.kernel_method import LARGEST_KERNEL, KernelMethod
from mondrian.operators.kernel_mix import mix_kernels
from mondrian.operators.ridge import Ridge, Separation
from mondrian.operators.ridge_operator import RidgeOperator
from mondrian.operators.synthesis import synthesise
from mondrian.quadrature import Cell
from mondrian.support.checks import fraction, positive


@dataclass(frozen=True)
class SeparableMixture(OperatorSpec):
    """The paper's separable mixture operator (SepMO): `terms` diagonal matrices and a 1x1 mix; a 1x1 skip if asked.

    >>> sum(p.numel() for p in SeparableMixture(terms=256).build(128, 384, bias=False).parameters())
    84648
    """

    terms: int = 256
    hidden: int = 8
    skip: bool = False
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(terms=self.terms, hidden=self.hidden)
        fraction(tolerance=self.tolerance)

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        return SeparableMixtureOperator(self, in_channels, out_channels, dim=dim, bias=bias)


class SeparableMixtureOperator(RidgeOperator):
    r"""$(Iv)(x) = W \int \sum_n C_n(x, y) D_n\, v(y)\, dy + S v(x) + b$ with diagonal $D_n$.

    The kernel is a ridge kernel with diagonal $A_h = \sum_n W_{nh} D_n$, applied by the same three methods.
    """

    def __init__(self, spec: SeparableMixture, in_channels: int, out_channels: int, *, dim: int, bias: bool) -> None:
        first = nn.Linear(2 * dim, spec.hidden)
        super().__init__(in_channels, out_channels, first=first, bias=bias, tolerance=spec.tolerance)
        self.second = nn.Linear(spec.hidden, spec.terms)
        self.diagonals = nn.Parameter(torch.randn(spec.terms, in_channels) * 2 / spec.terms**0.5)
        self.mix = nn.Linear(in_channels, out_channels)
        self.skip = nn.Linear(in_channels, out_channels) if spec.skip else None

    def diagonal(self) -> tuple[Float[Tensor, "hidden channel"], Float[Tensor, " channel"]]:
        """The diagonals of $A_h$ and $A_0$."""
        collapsed = torch.cat([self.second.weight.mT, self.second.bias[None]]) @ self.diagonals
        return collapsed[:-1], collapsed[-1]

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        coefficients = pair_network(self.first, self.second, cell)
        kernel = torch.einsum("xyn,ni->xyi", coefficients, self.diagonals)
        integral = torch.einsum("y,xyi,bciy->bcix", cell.weights, kernel, v)
        return add_skip(self.add_bias(self.mix(integral.mT).mT), self.skip, v)

    def costs(self, rows: int, points: int, separation: tuple[int, int] | None) -> dict[KernelMethod, float]:
        n, hidden, i, o = points, self.first.out_features, self.in_channels, self.out_channels
        costs: dict[KernelMethod, float] = {KernelMethod.COLLAPSED: 1.0 * rows * i * n * (hidden * (n + 16) + o)}
        if i * n * n <= LARGEST_KERNEL:
            costs[KernelMethod.DENSE] = 1.0 * rows * i * n * (n + o) + (hidden + 8) * i * n * n
        if separation is not None:
            basis, terms = separation
            costs[KernelMethod.SEPARATED] = rows * ((i + o) * basis * n + 2 * i * basis * terms + basis * i * o) + 2e6
        return costs

    def dense(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "row channel_part point"], ...]:
        def kernels() -> Tensor:
            x = cell.coordinates
            diagonal, mean = self.diagonal()
            functions = torch.cat(
                [Ridge.of(self.first)(x, x), torch.ones_like(x[None, :1, :1]).expand(1, *2 * (cell.size,))]
            )
            mixed = torch.cat([diagonal, mean[None]]).mT @ functions.flatten(1)
            return mixed.view(-1, cell.size, cell.size) * cell.weights[:, None]

        kernel = self.cached(cell, KernelMethod.DENSE, kernels)  # channel y x
        matrices = [self.mix.weight] if self.skip is None else [self.mix.weight, self.skip.weight]
        return mix_kernels(v, kernel[None], torch.cat(matrices, dim=1), self._constant()[None], parts=parts)

    def collapsed(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "row channel_part point"], ...]:
        x = cell.coordinates
        diagonal, mean = self.diagonal()
        weighted = v * cell.weights
        integral = (weighted.sum(dim=-1) * mean)[..., None].expand_as(v)
        for ridge, scale in zip(Ridge.of(self.first)(x, x), diagonal, strict=True):
            integral = torch.addcmul(integral, weighted @ ridge, scale[:, None])
        return self._mix(integral.transpose(0, 1), v).chunk(parts, dim=1)

    def separated(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, terms: int
    ) -> Float[Tensor, "row channel_out point"]:
        def expand() -> tuple[Tensor, Tensor]:
            separation = Separation.of(Ridge.of(self.first), terms)
            diagonal, mean = self.diagonal()
            core = torch.einsum("hi,hpk,hpl->ikl", diagonal, separation.into, separation.out)
            start = torch.zeros_like(core)
            start[:, 0, 0] = mean  # the basis starts with the constant function
            return cell.basis(terms), core + start

        basis, core = self.cached(cell, (KernelMethod.SEPARATED, terms), expand)
        moments = v @ (basis * cell.weights[:, None])  # row channel basis
        coefficients = torch.bmm(moments.transpose(0, 1), core)  # channel row basis
        mixed = (self.mix.weight @ coefficients.flatten(1)).view(self.out_channels, *coefficients.shape[1:])
        skip = None if self.skip is None else self.skip.weight
        return synthesise(mixed.transpose(0, 1), basis, self._constant(), skip, v)

    def _mix(
        self, integral: Float[Tensor, "channel_in row point"], v: Float[Tensor, "row channel_in point"]
    ) -> Float[Tensor, "row channel_out point"]:
        """$W$ on the integral, skip and biases, as one matrix product with the channels first."""
        matrix, functions = self.mix.weight, integral
        if self.skip is not None:
            matrix = torch.cat([matrix, self.skip.weight], dim=1)
            functions = torch.cat([integral, v.transpose(0, 1)])
        u = torch.addmm(self._constant()[:, None], matrix, functions.flatten(1))
        return u.view(self.out_channels, -1, v.shape[-1]).transpose(0, 1)

    def _constant(self) -> Float[Tensor, " channel_out"]:
        # By `+`, not `stack().sum()`: its gradients share memory, which clipping would scale repeatedly.
        constant = self.mix.bias if self.bias is None else self.mix.bias + self.bias
        return constant if self.skip is None else constant + self.skip.bias
