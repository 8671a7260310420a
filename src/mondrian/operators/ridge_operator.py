"""The base of operators with a ridge kernel: three methods to apply it, chosen by cost."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import SubdomainOperator
from mondrian.operators.kernel_method import KernelMethod
from mondrian.operators.ridge import basis_size
from mondrian.operators.separation_terms import SeparationTerms
from mondrian.quadrature import Cell
from mondrian.support import former


class RidgeOperator(SubdomainOperator):
    """An operator whose kernel is made of the ridges of `first`, a linear layer on `[x; y]`.

    Subclasses implement the three methods of `KernelMethod` and estimate their costs. `method` forces one of them; by
    default the cheapest one runs.
    """

    def __init__(self, in_channels: int, out_channels: int, *, first: nn.Linear, bias: bool, tolerance: float) -> None:
        super().__init__(in_channels, out_channels, bias=bias, dim=first.in_features // 2)
        self.first = first
        self.method: KernelMethod | None = None
        self.terms = SeparationTerms(tolerance)
        self.terms.refresh(first)
        self.register_load_state_dict_post_hook(_refresh_terms)

    @property
    def evaluation(self) -> KernelMethod | None:
        """The former name of `method`."""
        former.warn_renamed("evaluation", "method")
        return self.method

    @evaluation.setter
    def evaluation(self, method: KernelMethod | None) -> None:
        former.warn_renamed("evaluation", "method", frames=2)  # one of them is nn.Module.__setattr__
        self.method = method

    def evaluate(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        return self.evaluate_parts(v, cell, 1)[0]

    def evaluate_parts(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "batch cell channel_part point"], ...]:
        rows = v.flatten(0, 1)
        # counted once for choice and computation: weights may be read anew in between
        terms = self.terms.count(self.first) if self.method in (None, KernelMethod.SEPARATED) else None
        match self.method or self._cheapest(rows.shape[0], cell, terms):
            case KernelMethod.DENSE:
                outputs = self.dense(rows, cell, parts)
            case KernelMethod.COLLAPSED:
                outputs = self.collapsed(rows, cell, parts)
            case KernelMethod.SEPARATED:
                if terms is None:
                    raise ValueError(
                        f"tolerance={self.terms.tolerance} cannot be met by a separated kernel: needed smaller weights "
                        "that torch.func.vmap does not hide"
                    )
                outputs = self.separated(rows, cell, terms).chunk(parts, dim=1)
        return tuple(u.unflatten(0, v.shape[:2]) for u in outputs)

    def choose(self, rows: int, cell: Cell) -> KernelMethod:
        """The method with the least estimated work."""
        return self._cheapest(rows, cell, self.terms.count(self.first))

    def _cheapest(self, rows: int, cell: Cell, terms: int | None) -> KernelMethod:
        """The cheapest method, given the number of terms of a separation, if one exists."""
        sizes = None if terms is None else (basis_size(len(cell.points), terms), self.first.out_features * terms)
        costs = self.costs(rows, cell.size, sizes)
        best, *others = costs
        for other in others:  # not `min` with a key: compilation with dynamic shapes fails at it
            if costs[other] < costs[best]:
                best = other
        return best

    def costs(self, rows: int, points: int, separation: tuple[int, int] | None) -> dict[KernelMethod, float]:
        """Estimated work of each method, in multiply-adds of a large matrix product; no dense kernel if too large.

        `separation` holds the number of basis functions and of terms over all ridges, where a separation exists.
        """
        raise NotImplementedError

    def dense(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "row channel_part point"], ...]:
        raise NotImplementedError

    def collapsed(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "row channel_part point"], ...]:
        raise NotImplementedError

    def separated(
        self, v: Float[Tensor, "row channel_in point"], cell: Cell, terms: int
    ) -> Float[Tensor, "row channel_out point"]:
        raise NotImplementedError

    def train(self, mode: bool = True) -> RidgeOperator:
        super().train(mode)
        self.terms.refresh(self.first)
        return self

    def forget(self) -> None:
        super().forget()
        self.terms.forget()


def _refresh_terms(operator: RidgeOperator, _: object) -> None:
    operator.terms.refresh(operator.first)  # a compiled graph does not read the weights itself
