"""From coefficients to values: the last step of a separated kernel, and the only one that writes all points."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

CHUNK = 2**23  # numbers written at a time without gradients: 32 megabytes in float32


def synthesise(
    coefficients: Float[Tensor, "row channel_out basis"],
    basis: Float[Tensor, "point basis"],
    constant: Float[Tensor, "*row channel_out"] | None,
    skip: Float[Tensor, "channel_out channel_in"] | None,
    v: Float[Tensor, "row channel_in point"],
) -> Float[Tensor, "row channel_out point"]:
    r"""$u_{rox} = \sum_k c_{rok} P_k(x) + b_o + \sum_i S_{oi} v_{rix}$; $P_0 = 1$ carries the constant.

    Without gradients a few rows at a time, each finished before the next: no second array of the output's size.
    """
    if constant is not None:
        coefficients = coefficients + F.pad(constant[..., None], (0, coefficients.shape[-1] - 1))
    rows, channels, points = coefficients.shape[0], coefficients.shape[1], basis.shape[0]
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.is_autocast_enabled(v.device.type):
        u = coefficients @ basis.mT
        return u if skip is None else torch.baddbmm(u, skip.expand(rows, -1, -1), v)
    u = coefficients.new_empty(rows, channels, points)
    step = max(1, CHUNK // (channels * points))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        torch.mm(coefficients[part].flatten(0, 1), basis.mT, out=u[part].view(-1, points))
        if skip is not None:
            u[part].baddbmm_(skip.expand(len(u[part]), -1, -1), v[part])
    return u
