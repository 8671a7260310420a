"""Operators with a full ridge kernel: every pair of points has a matrix between channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import SubdomainOperator
from mondrian.operators.evaluation import Evaluation, KernelCache, SeparationTerms
from mondrian.operators.ridge import Ridge, Separation, basis_size
from mondrian.polynomials import legendre_basis
from mondrian.quadrature import Cell

T = TypeVar("T")


class RidgeOperator(SubdomainOperator):
    r"""$(Iv)(x) = \int \Bigl[\sum_h g_h(x, y) A_h + A_0\Bigr]^T v(y)\,dy + S^T v(x) + b$ for a ridge kernel.

    Subclasses give the ridges (`first`, a linear layer on `[x; y]`), the matrices $A_h, A_0$ and, where they have
    one, the skip $S$ with its bias. `evaluation` forces one of the three evaluations; without it the cheapest
    is taken.
    """

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool, tolerance: float) -> None:
        super().__init__(in_channels, out_channels, bias=bias)
        self.evaluation: Evaluation | None = None
        self.terms = SeparationTerms(tolerance)
        self.cache = KernelCache()

    first: nn.Linear
    skip: nn.Linear | None

    def matrices(
        self,
    ) -> tuple[Float[Tensor, "hidden in_channels out_channels"], Float[Tensor, "in_channels out_channels"]]:
        """$A_h$ and $A_0$."""
        raise NotImplementedError

    def constant(self) -> Float[Tensor, " out_channels"] | None:
        """The bias function, the skip's own included."""
        own = None if self.skip is None else self.skip.bias
        if self.bias is None or own is None:
            return self.bias if own is None else own
        return self.bias + own

    def evaluate(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        rows = v.flatten(0, 1)
        evaluation = self.evaluation or self.choose(rows.shape[0], cell)
        match evaluation:
            case Evaluation.DENSE:
                u = self._dense(rows, cell)
            case Evaluation.COLLAPSED:
                u = self._collapsed(rows, cell)
            case Evaluation.SEPARATED:
                u = self._separated(rows, cell)
        return u.view(*v.shape[:2], self.out_channels, cell.size)

    def choose(self, rows: int, cell: Cell) -> Evaluation:
        """The evaluation with the least estimated work, counted in multiply-adds of a large matrix product."""
        n, hidden, i, o = cell.size, self.first.out_features, self.in_channels, self.out_channels
        costs: dict[Evaluation, float] = {
            Evaluation.DENSE: rows * i * o * n * n + (hidden + 8) * i * o * n * n,
            Evaluation.COLLAPSED: 1.7 * rows * hidden * n * (min(i, o) * n + i * o) + 8 * rows * hidden * n * i,
        }
        terms = self.terms.look(self.first)
        if terms is not None:
            basis, inner = basis_size(len(cell.points), terms), hidden * terms
            costs[Evaluation.SEPARATED] = 1.5 * rows * ((i + o) * basis * (n + inner) + inner * i * o) + 2e6
        return min(costs, key=lambda evaluation: costs[evaluation])

    def _dense(self, v: Float[Tensor, "row channel_in point"], cell: Cell) -> Float[Tensor, "row channel_out point"]:
        kernel = self._kept(cell, Evaluation.DENSE, lambda: self._kernel_matrix(cell))
        constant = self.constant()
        if constant is None:
            u = v.flatten(1) @ kernel
        else:
            u = torch.addmm(constant.repeat_interleave(cell.size), v.flatten(1), kernel)
        return u.unflatten(1, (self.out_channels, cell.size))

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

    def _collapsed(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell
    ) -> Float[Tensor, "row channel_out point"]:
        n, i, o = cell.size, self.in_channels, self.out_channels
        x = cell.coordinates
        ridges = self._kept(
            cell, Evaluation.COLLAPSED, lambda: Ridge.of(self.first)(x, x) * cell.weights[:, None]
        )  # hidden y x
        matrices, mean = self.matrices()
        if i <= o:  # points first, on the fewer channels
            spread = (v.reshape(-1, n) @ ridges.transpose(0, 1).reshape(n, -1)).view(-1, i * self.first.out_features, n)
            u = matrices.permute(2, 1, 0).reshape(o, -1) @ spread
        else:
            mixed = matrices.permute(2, 0, 1).reshape(-1, i) @ v  # row (channel hidden) point
            u = (mixed.reshape(-1, self.first.out_features * n) @ ridges.reshape(-1, n)).view(-1, o, n)
        return self._finish(u, v, (v @ cell.weights) @ mean)

    def _separated(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell
    ) -> Float[Tensor, "row channel_out point"]:
        n, i, o = cell.size, self.in_channels, self.out_channels
        terms = self.terms.look(self.first)
        if terms is None:
            raise ValueError(
                f"the kernel cannot be separated to tolerance={self.terms.tolerance}: its weights are too large"
            )

        def expand() -> tuple[Tensor, Separation, tuple[Tensor, Tensor]]:
            basis = legendre_basis(cell.coordinates, terms)
            return basis, Separation.of(Ridge.of(self.first), terms), self.matrices()

        basis, separation, (matrices, mean) = self._kept(cell, (Evaluation.SEPARATED, terms), expand)
        hidden, k = separation.out.shape[0], basis.shape[1]
        moments = (v.reshape(-1, n) @ (basis * cell.weights[:, None])).view(-1, i, k)  # row channel basis
        along_y = (moments.reshape(-1, k) @ separation.into.view(-1, k).mT).view(-1, i, hidden, terms)
        by_ridge = along_y.permute(2, 0, 3, 1).reshape(hidden, -1, i)
        mixed = torch.bmm(by_ridge, matrices).view(hidden, -1, terms, o).permute(1, 3, 0, 2)  # row channel hidden term
        coefficients = (mixed.reshape(-1, hidden * terms) @ separation.out.view(-1, k)).view(-1, o, k)
        first = coefficients[..., 0] + moments[..., 0] @ mean  # the basis starts with the constant function
        coefficients = torch.cat([first[..., None], coefficients[..., 1:]], dim=-1)
        if self.skip is None:
            constant = self.constant()
            if constant is not None:
                coefficients = coefficients + torch.nn.functional.pad(constant[:, None], (0, k - 1))
            return (coefficients.reshape(-1, k) @ basis.mT).view(-1, o, n)
        u = (coefficients.reshape(-1, k) @ basis.mT).view(-1, o, n)
        return self._finish(u, v, None)

    def _finish(self, u: Tensor, v: Tensor, mean: Tensor | None) -> Tensor:
        """Add skip, bias and the constant part of the kernel."""
        constant = self.constant()
        shift = mean if constant is None else constant if mean is None else mean + constant
        if shift is not None:
            u = u + shift[..., None]
        return u if self.skip is None else torch.baddbmm(u, self.skip.weight.expand(u.shape[0], -1, -1), v)

    def _kept(self, cell: Cell, label: object, make: Callable[[], T]) -> T:
        return self.cache.get(list(self.parameters()), cell, label, make)


def pair_network(first: nn.Linear, second: nn.Linear, cell: Cell) -> Float[Tensor, "x y out"]:
    """A network with one hidden layer, evaluated at every pair of points."""
    n = cell.size
    x, y = cell.coordinates[:, None].expand(n, n, -1), cell.coordinates.expand(n, n, -1)
    return second(nn.functional.gelu(first(torch.cat([x, y], dim=-1))))
