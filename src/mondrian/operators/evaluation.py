"""How a ridge kernel is evaluated: three ways of the same operator, and what is kept between calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mondrian.operators.derivatives import beneath_transforms, is_transformed
from mondrian.operators.ridge import Ridge, terms_needed
from mondrian.quadrature import Cell

T = TypeVar("T")

LARGEST = 2**27  # numbers in a kernel that is held as a whole: half a gigabyte in single precision


class Evaluation(Enum):
    """The ways to apply a ridge kernel to functions on `n` points of a cell."""

    DENSE = "dense"  # the whole kernel as one matrix: best for few points
    COLLAPSED = "collapsed"  # one matrix of points a ridge, then one of channels: exact, never the whole kernel
    SEPARATED = "separated"  # ridges expanded in polynomials: linear in the points, to a tolerance


class SeparationTerms:
    """How many terms a separation needs for the present weights, looked at again only when it can matter.

    Reading the weights waits for the device, so in training it is done once in `EVERY` calls, with a margin in
    the tolerance that covers what the optimiser does in between; otherwise whenever a weight has changed. As long as
    the weights stay the answer does, so that an activation checkpoint computes again what it computed before.

    A compiled graph takes the last answer and never asks itself. Loading weights and changing the mode, `model.train()`
    or `model.eval()`, ask anew; between them the tolerance holds as far as the margin covers what the weights do.
    """

    EVERY = 64
    MARGIN = 0.1

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.terms: int | None = None
        self.forget()

    def forget(self) -> None:
        """Look at the weights when they are asked for next, whatever they are then."""
        self.answer: Answer | None = None
        self.latest: Weights | None = None
        self.calls = 0

    def look(self, layer: nn.Linear) -> int | None:
        """The number of terms for the ridges of `layer`; None where too many would be needed, or `vmap` hides them."""
        if torch.compiler.is_compiling() or layer.weight.is_meta:
            return self.terms
        weight, bias = beneath_transforms(layer.weight), beneath_transforms(layer.bias)
        if weight is None or bias is None:
            return None
        # a step of training may have passes without gradients
        training = layer.training or (torch.is_grad_enabled() and layer.weight.requires_grad)
        weights, asked = Weights.now([weight, bias]), (self.tolerance, training)
        answer, due = self.answer, self._is_due(weights)  # read once: other threads may ask too
        if answer is None or asked != answer.asked or not answer.serves(weights, due=due):
            a, b = weight.chunk(2, dim=1)
            terms = terms_needed(Ridge(a, b, bias), self.tolerance * (self.MARGIN if training else 1.0))
            self.answer, self.terms, self.calls = (answer := Answer(asked, weights, terms)), terms, 0
        return answer.terms

    def _is_due(self, weights: Weights) -> bool:
        """Whether the last answer is many calls old, and this call does not repeat an earlier one.

        What repeats has the weights of the call before, or runs in a backward pass (no public way to ask). Fused
        optimisers write without being counted: after twice as many calls weights are not taken to be the same.
        """
        self.calls += 1
        stayed, self.latest = weights == self.latest, weights
        if self.calls < (2 * self.EVERY if stayed else self.EVERY):
            return False
        return torch._C._current_graph_task_id() == -1

    def refresh(self, layer: nn.Linear) -> None:
        """Look at the weights now, as for training; at those that are sharded over processes when they are gathered."""
        if not layer.weight.is_meta and not _is_sharded(layer.weight):
            self.terms = terms_needed(Ridge.of(layer), self.tolerance * self.MARGIN)
        self.forget()


@dataclass(frozen=True)
class Answer:
    """What was found when it was `asked` for some tolerance, in training or not, and the weights it was found for."""

    asked: tuple[float, bool]
    weights: Weights
    terms: int | None

    def serves(self, weights: Weights, *, due: bool) -> bool:
        """Whether it is good for these weights: the same; in training the same tensors, until another is `due`."""
        _, training = self.asked
        return weights.same_tensors_as(self.weights) and not due if training else weights == self.weights


class KernelCache:
    """What depends on weights and points but not on the data, computed once while no gradient is wanted."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what is kept."""
        self.entry: tuple[Any, Any] | None = None

    def get(self, parameters: list[Tensor], cell: Cell, label: Any, make: Callable[[], T]) -> T:
        """`make()`, or what it returned before for the same weights, points, precision and label."""
        if torch.compiler.is_compiling() or is_transformed():
            return make()
        if torch.is_grad_enabled():
            self.clear()  # the weights may be about to change, and fused optimisers write without being counted
            return make()
        weights, place = Weights.now(parameters), cell.weights.device
        if weights.state is None:
            return make()
        key = (weights, label, cell, cell.weights.dtype, autocast_type(place.type), place)
        entry = self.entry  # key and value in one, and read once: other threads may ask for other cells
        if entry is None or entry[0] != key:
            entry = self.entry = key, make()
        return entry[1]

    def __deepcopy__(self, memo: dict[int, Any]) -> KernelCache:
        return KernelCache()

    def __reduce__(self) -> tuple[type[KernelCache], tuple[()]]:
        return KernelCache, ()


def autocast_type(device: str) -> torch.dtype | None:
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
    `model.to()` does, by fused optimisers, and by FSDP2 (`mondrian.training.sharding`).
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
