"""How a ridge kernel is evaluated: three ways of the same operator, and what is kept between calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mondrian.operators.ridge import Ridge, terms_needed
from mondrian.quadrature import Cell

T = TypeVar("T")


class Evaluation(Enum):
    """The ways to apply a ridge kernel to functions on `n` points of a cell."""

    DENSE = "dense"  # the whole kernel as one matrix: best for few points
    COLLAPSED = "collapsed"  # one matrix of points a ridge, then one of channels: exact, never the whole kernel
    SEPARATED = "separated"  # ridges expanded in polynomials: linear in the points, to a tolerance


class SeparationTerms:
    """How many terms a separation needs for the present weights, looked at again only when it can matter.

    Reading the weights waits for the device, so in training it is done once in `EVERY` calls, with a margin in
    the tolerance that covers what the optimiser does in between; otherwise whenever a weight has changed. A compiled
    graph takes the last answer; changing the mode, `model.train()` or `model.eval()`, asks anew.
    """

    EVERY = 64
    MARGIN = 0.1

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.terms: int | None = None
        self.calls = 0
        self.forget()

    def forget(self) -> None:
        """Look at the weights when they are asked for next, whatever they are then."""
        self.asked: tuple[float, bool] | None = None
        self.weights: Weights | None = None

    def look(self, layer: nn.Linear) -> int | None:
        """The number of terms for the ridges of `layer`; None where too many would be needed."""
        if torch.compiler.is_compiling():
            return self.terms
        # a step of training may have passes without gradients
        training = layer.training or (torch.is_grad_enabled() and layer.weight.requires_grad)
        weights, asking = Weights.now([layer.weight, layer.bias]), (self.tolerance, training)
        self.calls += 1
        soon = training and self.calls < self.EVERY and weights.same_tensors_as(self.weights)
        if asking != self.asked or not (soon or weights == self.weights):
            self.terms = terms_needed(Ridge.of(layer), self.tolerance * (self.MARGIN if training else 1.0))
            self.weights, self.asked, self.calls = weights, asking, 0
        return self.terms

    def refresh(self, layer: nn.Linear) -> None:
        """Look at the weights now, as for training; at those that are sharded over processes when they are gathered."""
        if not layer.weight.is_meta and not _is_sharded(layer.weight):
            self.terms = terms_needed(Ridge.of(layer), self.tolerance * self.MARGIN)
        self.forget()


class KernelCache:
    """What depends on weights and points but not on the data, computed once while no gradient is wanted."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what is kept."""
        self.key: Any = None
        self.value: Any = None

    def get(self, parameters: list[Tensor], cell: Cell, label: Any, make: Callable[[], T]) -> T:
        """`make()`, or what it returned before for the same weights, points, precision and label."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return make()
        weights, place = Weights.now(parameters), cell.weights.device
        if weights.state is None:
            return make()
        key = (weights, label, cell, cell.weights.dtype, _autocast(place.type), place)
        if key != self.key:
            self.value, self.key = make(), key
        return self.value

    def __deepcopy__(self, memo: dict[int, Any]) -> KernelCache:
        return KernelCache()

    def __reduce__(self) -> tuple[type[KernelCache], tuple[()]]:
        return KernelCache, ()


def _autocast(device: str) -> torch.dtype | None:
    """What products are cast to on a kind of device, if they are."""
    active = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if active else None


def _is_sharded(weight: Tensor) -> bool:
    """Whether a weight is a `DTensor`, of which this process has a part; the class takes a second to import."""
    return hasattr(weight, "full_tensor")


@dataclass(frozen=True, eq=False)
class Weights:
    """Tensors as they were at some moment, to tell whether they have been written to or replaced since.

    They are kept alive, so that no other can take their place meanwhile. Unseen is what is written through `.data`, as
    `model.to()` does, and by FSDP2 (`mondrian.training.sharding`).
    """

    tensors: tuple[Tensor, ...]
    state: tuple[tuple[int, int], ...] | None  # address and number of writes; None where the engine does not count

    @staticmethod
    def now(tensors: Sequence[Tensor]) -> Weights:
        counted = not any(tensor.is_inference() for tensor in tensors)
        state = tuple((tensor.data_ptr(), tensor._version) for tensor in tensors) if counted else None
        # without the graphs of those that were computed, which would be kept alive too
        return Weights(tuple(tensor if tensor.is_leaf else tensor.detach() for tensor in tensors), state)

    def same_tensors_as(self, earlier: Weights | None) -> bool:
        """Whether these are the same tensors, with whatever in them."""
        if earlier is None or self.state is None or len(self.tensors) != len(earlier.tensors):
            return False
        return all(tensor is other for tensor, other in zip(self.tensors, earlier.tensors, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weights) and self.same_tensors_as(other) and self.state == other.state

    def __hash__(self) -> int:
        return hash(self.state)

    def __deepcopy__(self, memo: dict[int, Any]) -> Weights:
        return Weights((), None)

    def __reduce__(self) -> tuple[type[Weights], tuple[Any, ...]]:
        return Weights, ((), None)
