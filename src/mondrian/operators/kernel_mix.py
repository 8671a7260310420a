"""A sum of kernels between points, mixed by one matrix between channels: a ridge kernel at few points."""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.operators.derivatives import differentiable_gradients, is_transformed
from mondrian.operators.kernel_cache import autocast_type

CPU_CHUNK = 2**19  # entries of the stack of a chunk for each thread of a CPU: two megabytes in float32
DEVICE_CHUNK = 2**26  # on other devices, where few large products are fastest


def mix_kernels(
    v: Float[Tensor, "row channel_in y"],
    kernels: Float[Tensor, "term #channel_in y x"],
    matrix: Float[Tensor, "channel_out stack"],
    constant: Float[Tensor, "#row channel_out"],
    *,
    parts: int = 1,
) -> tuple[Float[Tensor, "row channel_part x"], ...]:
    r"""$u_{rox} = \sum_{ti} A_{oti} \sum_y v_{riy} K_{tiyx} + \sum_i S_{oi} v_{rix} + b_{ro}$.

    `matrix` holds $A_1 \dots A_T$ side by side, followed by $S$ if there is a skip. The output channels come in `parts`
    separate tensors, so that their gradients need not be concatenated first. A compiler, which fuses by itself,
    autocast, which casts by itself, and `torch.func` get the plain form.
    """
    if torch.compiler.is_compiling() or autocast_type(v.device.type) is not None or is_transformed():
        return _plain(v, kernels, matrix, constant, parts)
    return KernelMix.apply(v, kernels, matrix, constant, parts)


class KernelMix(torch.autograd.Function):
    """`mix_kernels` in chunks of rows, channels first: one matrix product for all terms of a chunk.

    The stack of terms is several times as large as the input. Only one chunk of it exists at a time, and the gradient
    computes it again.
    """

    @staticmethod
    def forward(
        v: Tensor, kernels: Tensor, matrix: Tensor, constant: Tensor, parts: int
    ) -> tuple[Float[Tensor, "row channel_part x"], ...]:
        outputs = tuple(v.new_empty(v.shape[0], len(matrix) // parts, v.shape[2]) for _ in range(parts))
        shifts = constant.expand(v.shape[0], -1)[..., None].chunk(parts, dim=1)

        @cache
        def memory(rows: int) -> tuple[Stack, Mixed]:
            return Stack(v, kernels, matrix, rows), Mixed(v, matrix, parts, rows)

        for chunk in _chunks(v, kernels):
            source = v[chunk]
            stack, mixed = memory(len(source))
            stack.fill(source)
            torch.mm(matrix, stack.used, out=mixed.joined)
            for u, part, shift in zip(outputs, mixed.parts, shifts, strict=True):
                torch.add(part, shift[chunk], out=u[chunk])
        return outputs

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[:-1])
        ctx.parts = inputs[-1]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        v, kernels, matrix, constant = ctx.saved_tensors
        if torch.is_grad_enabled() or is_transformed(*slopes):  # second derivatives, or `vmap` over the slopes
            plain = partial(_plain, parts=ctx.parts)
            needed = ctx.needs_input_grad[:-1]
            return *differentiable_gradients(plain, (v, kernels, matrix, constant), needed, slopes), None
        to_v = v.new_empty(v.shape)
        to_kernels, to_matrix, to_constant = (part.new_zeros(part.shape) for part in (kernels, matrix, constant))
        back, kernels_back, to_each_kernel = matrix.mT.contiguous(), kernels.mT.contiguous(), to_kernels.flatten(0, 1)

        @cache
        def memory(rows: int) -> tuple[Stack, Stack, Mixed]:
            stack, to_stack = (Stack(v, kernels, matrix, rows) for _ in range(2))
            return stack, to_stack, Mixed(v, matrix, ctx.parts, rows)

        for chunk in _chunks(v, kernels):
            source = v[chunk]
            stack, to_stack, slope = memory(len(source))
            stack.fill(source)
            for target, part in zip(slope.parts, slopes, strict=True):
                target.copy_(part[chunk])
            to_matrix.addmm_(slope.joined, stack.used.mT)
            if len(constant) == 1:
                to_constant += slope.joined.sum(dim=1)
            else:
                to_constant[chunk] = slope.joined.view(len(matrix), *source.shape[::2]).sum(dim=-1).mT
            product = torch.mm if len(matrix) > 1 else torch.mul  # a column times a row is faster elementwise
            product(back, slope.joined, out=to_stack.used)
            to_each_kernel.baddbmm_(stack.sources.mT, to_stack.terms)
            *to_terms, to_source = to_stack.grouped
            for number, (to_term, kernel) in enumerate(zip(to_terms, kernels_back, strict=True)):
                to_source.baddbmm_(to_term, kernel, beta=1 if stack.whole or number else 0)
            to_v[chunk] = to_stack.input
        return to_v, to_kernels, to_matrix, to_constant, None


class Stack:
    """Memory for some rows of the input under each kernel, followed by the input itself.

    The views that the products use are made once, because there are many chunks.
    """

    def __init__(self, v: Tensor, kernels: Tensor, matrix: Tensor, rows: int) -> None:
        terms, groups = kernels.shape[:2]
        _, channels, points = v.shape
        values = v.new_empty(terms + 1, channels, rows, points)
        self.kernels = kernels.flatten(0, 1)
        self.input = values[-1].transpose(0, 1)  # row channel point
        # channels that share a kernel become rows: each channel has its own, or all have one
        self.grouped = values.view(terms + 1, groups, -1, points)
        self.terms = self.grouped[:-1].flatten(0, 1)
        self.sources = self.grouped[-1:].expand(terms, -1, -1, -1).view(self.terms.shape)  # the input for each kernel
        self.whole = matrix.shape[1] == (terms + 1) * channels  # with a skip the matrix reaches the input itself
        self.used = values.view(-1, rows * points)[: matrix.shape[1]]

    def fill(self, v: Float[Tensor, "row channel_in y"]) -> None:
        self.input.copy_(v)
        torch.bmm(self.sources, self.kernels, out=self.terms)


class Mixed:
    """Memory for the output channels of some rows: `joined` for the products, and by row in `parts`."""

    def __init__(self, v: Tensor, matrix: Tensor, parts: int, rows: int) -> None:
        values = v.new_empty(len(matrix), rows, v.shape[2])
        self.joined = values.flatten(1)
        self.parts = tuple(part.transpose(0, 1) for part in values.chunk(parts))


def _chunks(v: Tensor, kernels: Tensor) -> list[slice]:
    entries = CPU_CHUNK * torch.get_num_threads() if v.device.type == "cpu" else DEVICE_CHUNK
    size = entries // (math.prod(v.shape[1:]) * (len(kernels) + 1))
    return [slice(start, start + max(1, size)) for start in range(0, v.shape[0], max(1, size))]


def _plain(v: Tensor, kernels: Tensor, matrix: Tensor, constant: Tensor, parts: int) -> tuple[Tensor, ...]:
    """The whole sum by plain products, which compilers and transforms can differentiate."""
    source = v.transpose(0, 1)
    stack = (source @ kernels).flatten(0, 1)  # (term channel_in) row x
    if len(stack) < matrix.shape[1]:
        stack = torch.cat([stack, source])
    mixed = (matrix @ stack.flatten(1)).unflatten(1, v.shape[::2])
    return (mixed.transpose(0, 1) + constant[..., None]).chunk(parts, dim=1)
