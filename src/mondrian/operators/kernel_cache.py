"""Kernels that are computed once while no gradient is recorded, and the snapshot of weights that tells when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from mondrian.operators.derivatives import is_transformed
from mondrian.quadrature import Cell
from mondrian.support.torch_internals import write_count

T = TypeVar("T")


class KernelCache:
    """The last tensor that was computed from weights and points alone, not from the data."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop the stored tensor."""
        self.entry: tuple[Any, Any] | None = None

    def get(self, parameters: list[Tensor], cell: Cell, label: Any, make: Callable[[], T]) -> T:
        """`make()`, or its earlier result for the same weights, points, precision and label."""
        if torch.compiler.is_compiling() or is_transformed():
            return make()
        if torch.is_grad_enabled():
            self.clear()  # the weights may be about to change, and fused optimisers write without being counted
            return make()
        weights, device = WeightSnapshot.take(parameters), cell.weights.device
        if weights.state is None:
            return make()
        key = (weights, label, cell, cell.weights.dtype, autocast_type(device.type), device)
        entry = self.entry  # key and value together, read once: other threads may ask for other cells
        if entry is None or entry[0] != key:
            entry = self.entry = key, make()
        return entry[1]

    def __deepcopy__(self, memo: dict[int, Any]) -> KernelCache:
        return KernelCache()

    def __reduce__(self) -> tuple[type[KernelCache], tuple[()]]:
        return KernelCache, ()


def autocast_type(device: str) -> torch.dtype | None:
    """The type that autocast gives to products on a kind of device; None without autocast."""
    active = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if active else None


@dataclass(frozen=True, eq=False)
class WeightSnapshot:
    """Weights at one moment, to tell whether they have been written to or replaced since.

    The snapshot keeps the tensors alive, so that no other tensor can take their memory. It does not notice writes
    through `.data`, as by `model.to()`, by fused optimisers, or by FSDP2 (`mondrian.training.sharding`).
    """

    tensors: tuple[Tensor, ...]
    state: tuple[tuple[int, int], ...] | None  # address and number of writes; None where the engine does not count

    @staticmethod
    def take(tensors: Sequence[Tensor]) -> WeightSnapshot:
        """A snapshot of the tensors as they are now."""
        counted = not any(tensor.is_inference() for tensor in tensors)
        state = tuple((tensor.data_ptr(), write_count(tensor)) for tensor in tensors) if counted else None
        # computed tensors are detached, or their graphs would stay alive too
        return WeightSnapshot(tuple(tensor if tensor.is_leaf else tensor.detach() for tensor in tensors), state)

    def same_tensors_as(self, earlier: WeightSnapshot | None) -> bool:
        """Whether these are the same tensors, whatever their values."""
        if earlier is None or self.state is None or len(self.tensors) != len(earlier.tensors):
            return False
        return all(tensor is other for tensor, other in zip(self.tensors, earlier.tensors, strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WeightSnapshot) and self.same_tensors_as(other) and self.state == other.state

    def __hash__(self) -> int:
        return hash(self.state)

    def __deepcopy__(self, memo: dict[int, Any]) -> WeightSnapshot:
        return WeightSnapshot((), None)

    def __reduce__(self) -> tuple[type[WeightSnapshot], tuple[Any, ...]]:
        return WeightSnapshot, ((), None)
