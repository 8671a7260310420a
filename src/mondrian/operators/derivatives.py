"""Derivatives other than the first one, of functions that have a fast first one of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel


def differentiable_gradients(
    plain: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    slope: Tensor | tuple[Tensor, ...],
) -> tuple[Tensor | None, ...]:
    """The gradients of `plain` at `inputs` as autograd finds them, to be differentiated again while it records."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # one input may come from another: aliases have no part in how
        aliases = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
        wanted = [alias for alias, need in zip(aliases, needed, strict=True) if need and alias is not None]
        found = iter(torch.autograd.grad(plain(*aliases), wanted, slope, create_graph=again))
    return tuple(next(found) if need else None for need in needed)


def is_transformed(*tensors: Tensor) -> bool:
    """Whether `torch.func` or forward differentiation is at work, or one of `tensors` is many that `vmap` has joined.

    Both have to see through every step, and a compiler does by itself. There is no public way to ask.
    """
    if torch.compiler.is_compiling():
        return False
    functorch = torch._C._functorch
    active = functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0
    return active or any(functorch.is_legacy_batchedtensor(tensor) for tensor in tensors)


def beneath_transforms(tensor: Tensor) -> Tensor | None:
    """The tensor that the transforms of `torch.func` have wrapped; None where `vmap` has made one of several."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        if torch._C._functorch.is_batchedtensor(tensor):
            return None
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def differentiable_attention() -> AbstractContextManager[None]:
    """Attention by products that any transform sees through, where there is one: fused kernels know one gradient."""
    return sdpa_kernel(SDPBackend.MATH) if is_transformed() else nullcontext()
