"""A kernel for each channel, then a mix of the channels: the dense evaluation of the separable mixture."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.operators.derivatives import differentiable_gradients


class DepthwiseMix(torch.autograd.Function):
    r"""$u_{rox} = \sum_i W_{oi} \sum_y v_{riy} K_{iyx} + \sum_i S_{oi} v_{rix} + b_o$, with $S$ or without.

    What autograd would do, in fewer passes over memory: the products accumulate in place, and the gradient of a matrix
    between channels is one product over rows and points instead of a matrix for each row, summed.
    """

    @staticmethod
    def forward(
        v: Float[Tensor, "row channel_in point"],
        kernel: Float[Tensor, "channel_in point point"],
        mix: Float[Tensor, "channel_out channel_in"],
        skip: Float[Tensor, "channel_out channel_in"] | None,
        constant: Float[Tensor, " channel_out"],
    ) -> tuple[Tensor, Tensor, Tensor]:
        rows = v.shape[0]
        by_channel = v.transpose(0, 1).contiguous()  # read here, and twice more for the gradient
        integral = torch.bmm(by_channel, kernel)
        u = torch.baddbmm(constant[:, None], mix.expand(rows, -1, -1), integral.transpose(0, 1))
        if skip is not None:
            u = u.baddbmm_(skip.expand(rows, -1, -1), v)
        return u, integral, by_channel

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs, *output[1:])

    @staticmethod
    def backward(ctx: Any, slope: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        v, kernel, mix, skip, constant, integral, v_by_channel = ctx.saved_tensors
        if torch.is_grad_enabled():  # second derivatives are wanted
            return differentiable_gradients(_plain, (v, kernel, mix, skip, constant), ctx.needs_input_grad, slope)
        slope = slope.contiguous()
        rows = v.shape[0]
        by_channel = slope.transpose(0, 1).flatten(1)
        to_integral = torch.bmm(mix.mT.contiguous().expand(rows, -1, -1), slope).transpose(0, 1)
        to_v = torch.bmm(to_integral, kernel.mT).transpose(0, 1)
        to_skip = None
        if skip is not None:
            to_v = torch.baddbmm(to_v, skip.mT.contiguous().expand(rows, -1, -1), slope)
            to_skip = by_channel @ v_by_channel.flatten(1).mT
        to_kernel = torch.bmm(v_by_channel.mT, to_integral)
        return to_v, to_kernel, by_channel @ integral.flatten(1).mT, to_skip, by_channel.sum(dim=1)


def _plain(v: Tensor, kernel: Tensor, mix: Tensor, skip: Tensor | None, constant: Tensor) -> Tensor:
    u = torch.einsum("oi,riy,iyx->rox", mix, v, kernel) + constant[:, None]
    return u if skip is None else u + torch.einsum("oi,rix->rox", skip, v)
