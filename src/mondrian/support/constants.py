"""Tensors that depend on sizes alone, made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch

from mondrian.support.torch_internals import dispatch_mode_active, transform_active

P = ParamSpec("P")
T = TypeVar("T")


def constant(make: Callable[P, T]) -> Callable[P, T]:
    """Cache the result of `make` for each set of arguments, dtype and device included. Nothing may write to it.

    A cached tensor can take part in training even if it was first made in inference mode. Compilers, fake tensor modes
    and the transforms of `torch.func` have their own kinds of tensors: they call `make` anew, and nothing is cached.

    >>> double = constant(lambda n, dtype: 2 * torch.arange(n, dtype=dtype))
    >>> double(3, torch.float32) is double(3, torch.float32)
    True
    """

    @lru_cache(maxsize=128)
    def cached(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
            return make(*args, **kwargs)

    @wraps(make)
    def get(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling() or dispatch_mode_active() or transform_active():
            return make(*args, **kwargs)
        return cached(*args, **kwargs)  # type: ignore[arg-type]  # a ParamSpec cannot say that all are hashable

    return get
