"""All private names of torch that we use, one small function each: where torch has no public way to ask.

The versions in `SEEN_IN` do what is promised here. `tests/support/test_torch_internals.py` checks each promise, so that
a new torch fails there first. Apart from these names our modules override two private methods of `nn.Module`, `_apply`
(moves and casts) and `_load_from_state_dict`, which the same test checks.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

SEEN_IN = ("2.13.0",)


def transform_active() -> bool:
    """Whether a transform of `torch.func` (`grad`, `vmap`, `jvp`) is at work around this call."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def forward_mode_active() -> bool:
    """Whether this call is inside `torch.autograd.forward_ad.dual_level`."""
    return forward_ad._current_level >= 0


def dispatch_mode_active() -> bool:
    """Whether a `TorchDispatchMode`, such as that of fake tensors, is at work around this call."""
    return torch._C._len_torch_dispatch_stack() > 0


def backward_active() -> bool:
    """Whether this call is part of a backward pass, as when a checkpointed layer is computed again."""
    return torch._C._current_graph_task_id() != -1


def is_wrapped(tensor: Tensor) -> bool:
    """Whether a transform of `torch.func` has put this tensor around another one."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def is_batched(tensor: Tensor) -> bool:
    """Whether `torch.func.vmap` has put this tensor around a batch of tensors."""
    return torch._C._functorch.is_batchedtensor(tensor)


def is_batched_gradient(tensor: Tensor) -> bool:
    """Whether `torch.autograd.grad(..., is_grads_batched=True)` has put this tensor around a batch of tensors."""
    return torch._C._functorch.is_legacy_batchedtensor(tensor)


def unwrapped(tensor: Tensor) -> Tensor:
    """The tensor that the innermost transform of `torch.func` has put this one around."""
    return torch._C._functorch.get_unwrapped(tensor)


def write_count(tensor: Tensor) -> int:
    """How often this tensor, or one that shares its memory, was written to in place. Fused optimisers do not count."""
    return tensor._version
