"""What the operators with a ridge kernel share: three evaluations, one of which is chosen by its cost."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from mondrian.operators.base import SubdomainOperator
from mondrian.operators.evaluation import Evaluation, SeparationTerms
from mondrian.operators.ridge import basis_size
from mondrian.quadrature import Cell


class RidgeOperator(SubdomainOperator):
    """An operator whose kernel is made of the ridges of `first`, a linear layer on `[x; y]`.

    Subclasses give the three evaluations and what they cost. `evaluation` forces one of them; without it the
    cheapest is taken.
    """

    def __init__(self, in_channels: int, out_channels: int, *, first: nn.Linear, bias: bool, tolerance: float) -> None:
        super().__init__(in_channels, out_channels, bias=bias, dim=first.in_features // 2)
        self.first = first
        self.evaluation: Evaluation | None = None
        self.terms = SeparationTerms(tolerance)
        self.terms.refresh(first)
        self.register_load_state_dict_post_hook(_look_at_what_was_loaded)

    def evaluate(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        return self.evaluate_parts(v, cell, 1)[0]

    def evaluate_parts(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "batch cell channel_part point"], ...]:
        rows = v.flatten(0, 1)
        # one look for choice and evaluation: weights may be read anew in between
        terms = self.terms.look(self.first) if self.evaluation in (None, Evaluation.SEPARATED) else None
        match self.evaluation or self._cheapest(rows.shape[0], cell, terms):
            case Evaluation.DENSE:
                outputs = self.dense(rows, cell, parts)
            case Evaluation.COLLAPSED:
                outputs = self.collapsed(rows, cell, parts)
            case Evaluation.SEPARATED:
                if terms is None:
                    raise ValueError(
                        f"the kernel cannot be separated to tolerance={self.terms.tolerance}: its weights are too "
                        "large, or torch.func.vmap hides them"
                    )
                outputs = self.separated(rows, cell, terms).chunk(parts, dim=1)
        return tuple(u.unflatten(0, v.shape[:2]) for u in outputs)

    def choose(self, rows: int, cell: Cell) -> Evaluation:
        """The evaluation with the least estimated work."""
        return self._cheapest(rows, cell, self.terms.look(self.first))

    def _cheapest(self, rows: int, cell: Cell, terms: int | None) -> Evaluation:
        """The same for a known number of terms of the separation, if there is one."""
        sizes = None if terms is None else (basis_size(len(cell.points), terms), self.first.out_features * terms)
        costs = self.costs(rows, cell.size, sizes)
        best, *others = costs
        for other in others:  # not by `min` with a key, at which a compiler of dynamic shapes breaks off
            if costs[other] < costs[best]:
                best = other
        return best

    def costs(self, rows: int, points: int, separation: tuple[int, int] | None) -> dict[Evaluation, float]:
        """Estimated work in multiply-adds of a large matrix product; of a dense kernel where it is not too large.

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


def _look_at_what_was_loaded(operator: RidgeOperator, _: object) -> None:
    operator.terms.refresh(operator.first)  # a compiled graph would not look itself
