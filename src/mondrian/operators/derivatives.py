"""Higher and forward-mode derivatives of functions whose own backward pass gives first derivatives only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from mondrian.support.torch_internals import (
    forward_mode_active,
    is_batched,
    is_batched_gradient,
    is_wrapped,
    transform_active,
    unwrapped,
)


def differentiable_gradients(
    plain: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    slope: Tensor | tuple[Tensor, ...],
) -> tuple[Tensor | None, ...]:
    """The gradients of `plain` at `inputs` by autograd, differentiable again while gradients are recorded."""
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad():
        # one input may be computed from another: aliases cut that connection
        aliases = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
        variables = [alias for alias, need in zip(aliases, needed, strict=True) if need and alias is not None]
        gradients = iter(torch.autograd.grad(plain(*aliases), variables, slope, create_graph=create_graph))
    return tuple(next(gradients) if need else None for need in needed)


def is_transformed(*tensors: Tensor) -> bool:
    """Whether a `torch.func` transform or forward-mode differentiation is active, or `vmap` has batched a tensor.

    Both need plain operations; a compiler differentiates by itself.
    """
    if torch.compiler.is_compiling():
        return False
    return transform_active() or forward_mode_active() or any(map(is_batched_gradient, tensors))


def beneath_transforms(tensor: Tensor) -> Tensor | None:
    """The tensor inside the wrappers of `torch.func`; None if `vmap` has batched it."""
    while is_wrapped(tensor):
        if is_batched(tensor):
            return None
        tensor = unwrapped(tensor)
    return tensor


def differentiable_attention() -> AbstractContextManager[None]:
    """Attention by plain products under a transform: fused kernels have a first gradient only."""
    return sdpa_kernel(SDPBackend.MATH) if is_transformed() else nullcontext()
