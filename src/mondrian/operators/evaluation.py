"""How a ridge kernel is evaluated: three ways of the same operator, and what is kept between calls."""

from __future__ import annotations

from collections.abc import Callable
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
    the tolerance that covers what the optimiser does in between; without gradients whenever a weight has changed.
    A compiled graph takes the last answer; changing the mode, `model.train()` or `model.eval()`, asks anew.
    """

    EVERY = 64
    MARGIN = 0.1

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.terms: int | None = None
        self.key: Any = None
        self.calls = 0

    def look(self, layer: nn.Linear) -> int | None:
        """The number of terms for the ridges of `layer`; None where too many would be needed."""
        if torch.compiler.is_compiling():
            return self.terms
        training = torch.is_grad_enabled() and layer.weight.requires_grad
        version = weights_version([layer.weight, layer.bias])
        key = None if version is None else (version, self.tolerance, training)
        asked_in_training = self.key is not None and self.key[1:] == (self.tolerance, True)
        self.calls += 1
        if key is None or (key != self.key and not (training and asked_in_training and self.calls < self.EVERY)):
            self.terms = terms_needed(Ridge.of(layer), self.tolerance * (self.MARGIN if training else 1.0))
            self.key, self.calls = key, 0
        return self.terms

    def refresh(self, layer: nn.Linear) -> None:
        """Look at the weights now, as for training; at those that are sharded over processes when they are gathered."""
        if not layer.weight.is_meta and not _is_sharded(layer.weight):
            self.terms = terms_needed(Ridge.of(layer), self.tolerance * self.MARGIN)
        self.key = None


class KernelCache:
    """What depends on weights and points but not on the data, computed once while no gradient is wanted."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what is kept."""
        self.key: Any = None
        self.value: Any = None

    def get(self, parameters: list[Tensor], cell: Cell, label: Any, make: Callable[[], T]) -> T:
        """`make()`, or what it returned before for the same weights, points and label."""
        version = None if torch.compiler.is_compiling() else weights_version(parameters)
        if torch.is_grad_enabled() or version is None:
            return make()
        key = (version, label, cell, cell.weights.dtype, cell.weights.device)
        if key != self.key:
            self.value, self.key = make(), key
        return self.value

    def __deepcopy__(self, memo: dict[int, Any]) -> KernelCache:
        return KernelCache()

    def __reduce__(self) -> tuple[type[KernelCache], tuple[()]]:
        return KernelCache, ()


def _is_sharded(weight: Tensor) -> bool:
    """Whether a weight is a `DTensor`, of which this process has a part; the class takes a second to import."""
    return hasattr(weight, "full_tensor")


def weights_version(parameters: list[Tensor]) -> tuple[tuple[int, int, int], ...] | None:
    """What changes whenever a weight is written to or replaced; None where the engine does not count."""
    if any(parameter.is_inference() for parameter in parameters):
        return None
    return tuple((id(parameter), parameter.data_ptr(), parameter._version) for parameter in parameters)
