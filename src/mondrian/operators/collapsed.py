"""The collapsed evaluation of a ridge kernel: points, then channels, a few cells at a time."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.operators.derivatives import differentiable_gradients

WORKSPACE = 2**19  # numbers in the intermediate of a chunk: two megabytes in float32, so that it stays in the cache


def collapsed_mix(
    v: Float[Tensor, "row channel_in y"],
    spread: Float[Tensor, "x term y"],
    mixing: Float[Tensor, "term channel_in channel_out"],
) -> Float[Tensor, "row channel_out x"]:
    r"""$u_{rox} = \sum_{ti} A_{tio} \sum_y F_{xty} v_{riy}$.

    The intermediate is `terms` times as large as the input. The function below never holds more of it than a chunk, and
    makes it again for the gradient; a compiler or autocast gets the plain form.
    """
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(v.device.type):
        return _chunk(v, spread, mixing)
    return CollapsedMix.apply(v, spread, mixing)


class CollapsedMix(torch.autograd.Function):
    """`collapsed_mix` in chunks of rows."""

    @staticmethod
    def forward(v: Tensor, spread: Tensor, mixing: Tensor) -> Tensor:
        u = v.new_empty(v.shape[0], mixing.shape[2], spread.shape[0])
        for rows in _chunks(v, spread):
            u[rows] = _chunk(v[rows], spread, mixing)
        return u

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        v, spread, mixing = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are wanted
            return differentiable_gradients(_chunk, (v, spread, mixing), ctx.needs_input_grad, slope)
        points, terms, _ = spread.shape
        matrix, functions = mixing.flatten(0, 1), spread.flatten(0, 1)
        to_v, to_functions, to_matrix = torch.empty_like(v), torch.zeros_like(functions), torch.zeros_like(matrix)
        for rows in _chunks(v, spread):
            by_point = slope[rows].mT.reshape(-1, mixing.shape[2])
            to_matrix.addmm_(_spread(v[rows], spread).mT, by_point)
            to_spread = (by_point @ matrix.mT).view(-1, points * terms, v.shape[1])
            to_v[rows] = (functions.mT[None] @ to_spread).mT
            to_functions += torch.bmm(to_spread, v[rows]).sum(dim=0)
        return to_v, to_functions.view_as(spread), to_matrix.view_as(mixing)


def _chunks(v: Tensor, spread: Tensor) -> list[slice]:
    size = max(1, WORKSPACE // (v.shape[1] * spread.shape[0] * spread.shape[1]))
    return [slice(start, start + size) for start in range(0, v.shape[0], size)]


def _spread(v: Tensor, spread: Tensor) -> Float[Tensor, "row_x term_channel"]:
    terms = spread.shape[1]
    return (spread.flatten(0, 1)[None] @ v.mT).view(-1, terms * v.shape[1])


def _chunk(v: Tensor, spread: Tensor, mixing: Tensor) -> Tensor:
    return (_spread(v, spread) @ mixing.flatten(0, 1)).view(v.shape[0], spread.shape[0], -1).mT
