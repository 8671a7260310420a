"""Second derivatives of functions that have a fast first one of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def differentiable_gradients(
    plain: Callable[..., Tensor | tuple[Tensor, ...]],
    inputs: Sequence[Tensor | None],
    needed: Sequence[bool],
    slope: Tensor | tuple[Tensor, ...],
) -> tuple[Tensor | None, ...]:
    """The gradients of `plain` at `inputs` as autograd finds them, which can be differentiated again."""
    wanted = [tensor for tensor, need in zip(inputs, needed, strict=True) if need and tensor is not None]
    found = iter(torch.autograd.grad(plain(*inputs), wanted, slope, create_graph=True))
    return tuple(next(found) if need else None for need in needed)
