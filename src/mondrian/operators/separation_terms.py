"""The number of terms that the separation of a ridge kernel needs, kept up to date with the weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mondrian.operators.derivatives import beneath_transforms
from mondrian.operators.kernel_cache import WeightSnapshot
from mondrian.operators.ridge import Ridge, terms_needed
from mondrian.support.torch_internals import backward_active


class SeparationTerms:
    """How many terms a separation needs for the present weights, computed only when it may have changed.

    To read the weights waits for the device. In training this happens once in `EVERY` calls, with a margin in the
    tolerance for what the optimiser does in between; otherwise whenever a weight has changed. While the weights stay,
    the number stays, so that an activation checkpoint recomputes what it computed before.

    A compiled graph uses the last number and never reads the weights. Loading weights, `model.train()` and
    `model.eval()` compute it anew; between them the tolerance holds as far as the margin covers the change of weights.
    """

    EVERY = 64
    MARGIN = 0.1

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.terms: int | None = None
        self.forget()

    def forget(self) -> None:
        """Read the weights at the next call, whatever they are then."""
        self.last: _Count | None = None
        self.latest: WeightSnapshot | None = None
        self.calls = 0

    def count(self, layer: nn.Linear) -> int | None:
        """The number of terms for the ridges of `layer`; None where too many would be needed, or `vmap` hides them."""
        if torch.compiler.is_compiling() or layer.weight.is_meta:
            return self.terms
        weight, bias = beneath_transforms(layer.weight), beneath_transforms(layer.bias)
        if weight is None or bias is None:
            return None
        # a training step may also call the operator without gradients
        training = layer.training or (torch.is_grad_enabled() and layer.weight.requires_grad)
        weights, request = WeightSnapshot.take([weight, bias]), (self.tolerance, training)
        last, due = self.last, self._is_due(weights)  # read once: other threads may call too
        if last is None or request != last.request or not last.holds_for(weights, due=due):
            a, b = weight.chunk(2, dim=1)
            terms = terms_needed(Ridge(a, b, bias), self.tolerance * (self.MARGIN if training else 1.0))
            self.last, self.terms, self.calls = (last := _Count(request, weights, terms)), terms, 0
        return last.terms

    def _is_due(self, weights: WeightSnapshot) -> bool:
        """Whether the last number is many calls old, and this call does not repeat an earlier one.

        A repeated call has the weights of the call before, or runs in a backward pass. Fused
        optimisers write without being counted: after twice as many calls weights do not count as unchanged.
        """
        self.calls += 1
        unchanged, self.latest = weights == self.latest, weights
        if self.calls < (2 * self.EVERY if unchanged else self.EVERY):
            return False
        return not backward_active()

    def refresh(self, layer: nn.Linear) -> None:
        """Read the weights now, as for training; weights that are sharded over ranks are read once gathered."""
        if not layer.weight.is_meta and not _is_sharded(layer.weight):
            self.terms = terms_needed(Ridge.of(layer), self.tolerance * self.MARGIN)
        self.forget()


@dataclass(frozen=True)
class _Count:
    """A number of terms, with the tolerance, mode and weights that it was computed for."""

    request: tuple[float, bool]
    weights: WeightSnapshot
    terms: int | None

    def holds_for(self, weights: WeightSnapshot, *, due: bool) -> bool:
        """Whether the number holds: for equal weights; in training for the same tensors, until another is `due`."""
        _, training = self.request
        return weights.same_tensors_as(self.weights) and not due if training else weights == self.weights


def _is_sharded(weight: Tensor) -> bool:
    """Whether a weight is a `DTensor`, sharded over ranks; importing the class takes a second."""
    return hasattr(weight, "full_tensor")
