"""Tensors that follow from sizes alone, made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

import torch

from mondrian.support.torch_internals import dispatch_mode_active, transform_active

P = ParamSpec("P")
T = TypeVar("T")


def constant(make: Callable[P, T]) -> Callable[P, T]:
    """Remember what `make` returns for each set of arguments, dtype and device among them. Nobody may write to it.

    What is kept can take part in training even if inference mode asked for it first. A compiler, a fake tensor mode and
    the transforms of `torch.func` make tensors of their own kind: they call `make` anew, and nothing of it is kept.

    >>> double = constant(lambda n, dtype: 2 * torch.arange(n, dtype=dtype))
    >>> double(3, torch.float32) is double(3, torch.float32)
    True
    """

    @lru_cache(maxsize=128)
    def kept(*args: P.args, **kwargs: P.kwargs) -> T:
        with torch.inference_mode(False), torch.no_grad(), torch.device("cpu"):
            return make(*args, **kwargs)

    @wraps(make)
    def get(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_compiling() or dispatch_mode_active() or transform_active():
            return make(*args, **kwargs)
        return kept(*args, **kwargs)  # type: ignore[arg-type]  # a ParamSpec cannot say that all are hashable

    return get
