"""Operators with a full ridge kernel: a matrix between channels for every pair of points."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.kernel_method import LARGEST_KERNEL, KernelMethod
from mondrian.operators.kernel_mix import mix_kernels
from mondrian.operators.ridge import Ridge, Separation
from mondrian.operators.ridge_operator import RidgeOperator
from mondrian.operators.synthesis import synthesise
from mondrian.quadrature import Cell


class FullRidgeOperator(RidgeOperator):
    r"""$(Iv)(x) = \int \Bigl[\sum_h g_h(x, y) A_h + A_0\Bigr]^T v(y)\,dy + S^T v(x) + b$ for a ridge kernel.

    Subclasses give the matrices $A_h, A_0$ and, where they have one, the skip $S$ with its bias.
    """

    skip: nn.Linear | None

    def matrices(
        self,
    ) -> tuple[Float[Tensor, "hidden in_channels out_channels"], Float[Tensor, "in_channels out_channels"]]:
        """$A_h$ and $A_0$."""
        raise NotImplementedError

    def constant(self) -> Float[Tensor, " out_channels"] | None:
        """The constant function that is added: the bias, and that of the skip."""
        own = None if self.skip is None else self.skip.bias
        if self.bias is None or own is None:
            return self.bias if own is None else own
        return self.bias + own

    def costs(self, rows: int, points: int, separation: tuple[int, int] | None) -> dict[KernelMethod, float]:
        n, hidden, i, o = points, self.first.out_features, self.in_channels, self.out_channels
        costs: dict[KernelMethod, float] = {
            KernelMethod.COLLAPSED: 1.0 * rows * n * ((hidden + 1) * i * o + 4 * hidden * n * min(i, o))
        }
        if i * o * n * n <= LARGEST_KERNEL:
            costs[KernelMethod.DENSE] = 1.0 * (rows + hidden + 8) * i * o * n * n
        if separation is not None:
            basis, terms = separation
            moments, core = (i + o) * basis * n, (i + o) * basis * terms + terms * i * o
            costs[KernelMethod.SEPARATED] = rows * (1.5 * moments + 3 * core) + 2e6
        return costs

    def dense(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "row channel_part point"], ...]:
        kernel = self.cached(cell, KernelMethod.DENSE, lambda: self._kernel_matrix(cell))
        constant = self.constant()
        if constant is None:
            u = v.flatten(1) @ kernel
        else:
            u = torch.addmm(constant.repeat_interleave(cell.size), v.flatten(1), kernel)
        return u.unflatten(1, (self.out_channels, cell.size)).chunk(parts, dim=1)

    def _kernel_matrix(self, cell: Cell) -> Float[Tensor, "channel_in_point channel_out_point"]:
        """The operator as one matrix from `(channel, y)` to `(channel, x)`, weights and skip included."""
        n, i, o = cell.size, self.in_channels, self.out_channels
        matrices, mean = self.matrices()
        weights = cell.weights[:, None]
        x = cell.coordinates
        functions = [Ridge.of(self.first)(x, x) * weights, weights.expand(n, n)[None]]
        mixing = [matrices.flatten(1), mean.reshape(1, -1)]
        if self.skip is not None:
            functions.append(torch.eye(n, dtype=x.dtype, device=x.device)[None])
            mixing.append(self.skip.weight.mT.reshape(1, -1))
        kernel = torch.cat(mixing).mT @ torch.cat(functions).flatten(1)
        return kernel.view(i, o, n, n).transpose(1, 2).reshape(i * n, o * n)

    def collapsed(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "row channel_part point"], ...]:
        n, o, x = cell.size, self.out_channels, cell.coordinates
        ridges = self.cached(
            cell, KernelMethod.COLLAPSED, lambda: Ridge.of(self.first)(x, x) * cell.weights[:, None]
        )  # hidden y x
        matrices, mean = self.matrices()
        if self.in_channels > o:  # mix the channels first where that leaves fewer
            mixed = matrices.permute(2, 0, 1).reshape(-1, self.in_channels) @ v  # row (channel hidden) point
            u = (mixed.reshape(-1, ridges.shape[0] * n) @ ridges.reshape(-1, n)).view(-1, o, n)
            return self._finish(u, v, (v @ cell.weights) @ mean).chunk(parts, dim=1)
        matrix = matrices.permute(2, 0, 1).flatten(1)  # channel_out (hidden channel_in)
        if self.skip is not None:
            matrix = torch.cat([matrix, self.skip.weight], dim=1)
        shift, constant = (v @ cell.weights) @ mean, self.constant()
        return mix_kernels(v, ridges[:, None], matrix, shift if constant is None else shift + constant, parts=parts)

    def separated(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, terms: int
    ) -> Float[Tensor, "row channel_out point"]:
        n, i, o = cell.size, self.in_channels, self.out_channels

        def expand() -> tuple[Tensor, Separation, tuple[Tensor, Tensor]]:
            return cell.basis(terms), Separation.of(Ridge.of(self.first), terms), self.matrices()

        basis, separation, (matrices, mean) = self.cached(cell, (KernelMethod.SEPARATED, terms), expand)
        hidden, k = separation.out.shape[0], basis.shape[1]
        moments = (v.reshape(-1, n) @ (basis * cell.weights[:, None])).view(-1, i, k)  # row channel basis
        along_y = (moments.reshape(-1, k) @ separation.into.view(-1, k).mT).view(-1, i, hidden, terms)
        by_ridge = along_y.permute(2, 0, 3, 1).reshape(hidden, -1, i)
        mixed = torch.bmm(by_ridge, matrices).view(hidden, -1, terms, o).permute(1, 3, 0, 2)  # row channel hidden term
        coefficients = (mixed.reshape(-1, hidden * terms) @ separation.out.view(-1, k)).view(-1, o, k)
        shift, constant = moments[..., 0] @ mean, self.constant()  # the basis starts with the constant function
        skip = None if self.skip is None else self.skip.weight
        return synthesise(coefficients, basis, shift if constant is None else shift + constant, skip, v)

    def _finish(self, u: Tensor, v: Tensor, mean: Tensor) -> Tensor:
        """Add the skip, the bias and the constant part of the kernel."""
        constant = self.constant()
        u = u + (mean if constant is None else mean + constant)[..., None]
        return u if self.skip is None else torch.baddbmm(u, self.skip.weight.expand(u.shape[0], -1, -1), v)


def pair_network(first: nn.Linear, second: nn.Linear, cell: Cell) -> Float[Tensor, "x y out"]:
    """A network with one hidden layer, evaluated at every pair of points."""
    n = cell.size
    x, y = cell.coordinates[:, None].expand(n, n, -1), cell.coordinates.expand(n, n, -1)
    return second(nn.functional.gelu(first(torch.cat([x, y], dim=-1))))
