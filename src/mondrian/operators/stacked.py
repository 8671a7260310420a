"""Kernels between points, then one matrix between channels: how a ridge kernel is applied at few points."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.operators.derivatives import differentiable_gradients

CACHE = 2**19  # numbers in the stack of a chunk on a CPU for each of its threads: two megabytes in float32
DEVICE = 2**26  # elsewhere, where few large products count


def stacked_mix(
    v: Float[Tensor, "row channel_in y"],
    kernels: Float[Tensor, "term #channel_in y x"],
    matrix: Float[Tensor, "channel_out stack"],
    constant: Float[Tensor, "#row channel_out"],
    *,
    parts: int = 1,
) -> tuple[Float[Tensor, "row channel_part x"], ...]:
    r"""$u_{rox} = \sum_{ti} A_{oti} \sum_y v_{riy} K_{tiyx} + \sum_i S_{oi} v_{rix} + b_{ro}$.

    `matrix` holds $A_1 \dots A_T$ beside each other, and $S$ at the end if there is a skip. The output channels come in
    so many `parts`, each a tensor of its own: gradients with respect to them need not be put together first. A
    compiler, which fuses by itself, and autocast, which casts by itself, get the plain form.
    """
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(v.device.type):
        return _plain(v, kernels, matrix, constant, parts)
    return StackedMix.apply(v, kernels, matrix, constant, parts)


class StackedMix(torch.autograd.Function):
    """`stacked_mix` in chunks of rows, with the channels first: all terms of a chunk are one matrix product.

    The stack of terms is several times as large as the input. Only a chunk of it is ever held, and made again for the
    gradient.
    """

    @staticmethod
    def forward(
        v: Tensor, kernels: Tensor, matrix: Tensor, constant: Tensor, parts: int
    ) -> tuple[Float[Tensor, "row channel_part x"], ...]:
        rows, points = v.shape[0], v.shape[2]
        outputs = tuple(v.new_empty(rows, len(matrix) // parts, points) for _ in range(parts))
        constants = constant.expand(rows, -1).chunk(parts, dim=1)
        for chunk in _chunks(v, kernels):
            mixed = (matrix @ _used(_stack(v[chunk], kernels), matrix)).view(len(matrix), -1, points)
            for u, part, shift in zip(outputs, mixed.chunk(parts), constants, strict=True):
                torch.add(part.transpose(0, 1), shift[chunk, :, None], out=u[chunk])
        return outputs

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:-1])
        ctx.parts = inputs[-1]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        v, kernels, matrix, constant = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are wanted
            plain = partial(_plain, parts=ctx.parts)
            needed = ctx.needs_input_grad[:-1]
            return *differentiable_gradients(plain, (v, kernels, matrix, constant), needed, slopes), None
        to_v = v.new_empty(v.shape)
        to_kernels, to_matrix, to_constant = (part.new_zeros(part.shape) for part in (kernels, matrix, constant))
        back, kernels_back = matrix.mT.contiguous(), kernels.mT.contiguous()
        for rows in _chunks(v, kernels):
            stack, by_channel = _stack(v[rows], kernels), _by_channel([slope[rows] for slope in slopes])
            to_matrix.addmm_(by_channel, _used(stack, matrix).mT)
            if len(constant) == 1:
                to_constant += by_channel.sum(dim=1)
            else:
                to_constant[rows] = by_channel.view(len(matrix), -1, v.shape[2]).sum(dim=-1).mT
            to_stack = torch.empty_like(stack)
            reached = len(back) == stack.shape[0] * stack.shape[1]  # with a skip the matrix reaches the input itself
            torch.mm(back, by_channel, out=_used(to_stack, matrix))
            source, (*to_terms, to_source) = _sources(stack, kernels), _grouped(to_stack, kernels)
            to_kernels.view(-1, *kernels.shape[2:]).baddbmm_(source.mT, _grouped(to_stack[:-1], kernels).flatten(0, 1))
            for number, (to_term, kernel) in enumerate(zip(to_terms, kernels_back, strict=True)):
                to_source.baddbmm_(to_term, kernel, beta=1 if reached or number else 0)
            to_v[rows] = to_stack[-1].transpose(0, 1)
        return to_v, to_kernels, to_matrix, to_constant, None


def _chunks(v: Tensor, kernels: Tensor) -> list[slice]:
    room = CACHE * torch.get_num_threads() if v.device.type == "cpu" else DEVICE
    size = room // (v[0].numel() * (len(kernels) + 1))
    return [slice(start, start + max(1, size)) for start in range(0, v.shape[0], max(1, size))]


def _stack(v: Tensor, kernels: Tensor) -> Float[Tensor, "term_and_one channel_in row x"]:
    """The input under each kernel, and at the end the input itself."""
    stack = v.new_empty(len(kernels) + 1, v.shape[1], v.shape[0], v.shape[2])
    stack[-1] = v.transpose(0, 1)
    torch.bmm(_sources(stack, kernels), kernels.flatten(0, 1), out=_grouped(stack[:-1], kernels).flatten(0, 1))
    return stack


def _grouped(stack: Tensor, kernels: Tensor) -> Float[Tensor, "part group channel_row point"]:
    """Channels that share a kernel become rows: each channel has its own, or all have one."""
    return stack.view(len(stack), kernels.shape[1], -1, stack.shape[-1])


def _sources(stack: Tensor, kernels: Tensor) -> Float[Tensor, "term_group channel_row point"]:
    """The input once for each kernel."""
    return _grouped(stack[-1:], kernels).expand(len(kernels), -1, -1, -1).flatten(0, 1)


def _by_channel(parts: list[Float[Tensor, "row channel_part x"]]) -> Float[Tensor, "channel_out row_x"]:
    """The channels of all parts below each other."""
    rows, channels, points = parts[0].shape
    joined = parts[0].new_empty(len(parts), channels, rows, points)
    for place, part in zip(joined, parts, strict=True):
        place.copy_(part.transpose(0, 1))
    return joined.view(len(parts) * channels, -1)


def _used(stack: Tensor, matrix: Tensor) -> Float[Tensor, "stack row_x"]:
    """What the matrix acts on: the input itself only where there is a skip."""
    return stack.view(-1, stack[0, 0].numel())[: matrix.shape[1]]


def _plain(v: Tensor, kernels: Tensor, matrix: Tensor, constant: Tensor, parts: int) -> tuple[Tensor, ...]:
    """The same in one piece, for whoever has to see through it."""
    source = v.transpose(0, 1)
    stack = (source @ kernels).flatten(0, 1)  # (term channel_in) row x
    if len(stack) < matrix.shape[1]:
        stack = torch.cat([stack, source])
    mixed = (matrix @ stack.flatten(1)).unflatten(1, v.shape[::2])
    return (mixed.transpose(0, 1) + constant[..., None]).chunk(parts, dim=1)
