"""Synthesis: from coefficients to values at all points, the last step of a separated kernel."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from mondrian.operators.base import is_recorded
from mondrian.operators.kernel_cache import autocast_type

MANY = 512  # points from which a matrix product for each row is fastest


def synthesise(
    coefficients: Float[Tensor, "row channel_out basis"],
    basis: Float[Tensor, "point basis"],
    constant: Float[Tensor, "*row channel_out"] | None,
    skip: Float[Tensor, "channel_out channel_in"] | None,
    v: Float[Tensor, "row channel_in point"],
) -> Float[Tensor, "row channel_out point"]:
    r"""$u_{rox} = \sum_k c_{rok} P_k(x) + b_o + \sum_i S_{oi} v_{rix}$; $P_0 = 1$ carries the constant.

    Without gradients the output is written once. On a CPU with many points, basis and input form one matrix for each
    row.
    """
    if constant is not None:
        coefficients = coefficients + F.pad(constant[..., None], (0, coefficients.shape[-1] - 1))
    rows, channels, points = coefficients.shape[0], coefficients.shape[1], basis.shape[0]
    if is_recorded() or autocast_type(v.device.type) is not None:
        u = coefficients @ basis.mT
        return u if skip is None else torch.baddbmm(u, skip.expand(rows, -1, -1), v)
    u = coefficients.new_empty(rows, channels, points)
    if skip is None:
        torch.mm(coefficients.flatten(0, 1), basis.mT, out=u.view(-1, points))
        return u
    if points < MANY or v.device.type != "cpu" or rows == 0:
        torch.mm(coefficients.flatten(0, 1), basis.mT, out=u.view(-1, points))
        return u.baddbmm_(skip.expand(rows, -1, -1), v)
    functions = torch.cat([basis.mT, v[0]])  # the basis, then the input of one row after the other
    for row in range(rows):
        functions[basis.shape[1] :] = v[row]
        torch.mm(torch.cat([coefficients[row], skip], dim=1), functions, out=u[row])
    return u
