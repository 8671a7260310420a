"""Learned down- and upsampling by two; its stencils of grid points are tied to the spacing of training."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class Stencil(nn.Module):
    """A convolution with three points along each axis; periodic axes wrap, others repeat the last value."""

    def __init__(self, channels: int, dim: int, *, stride: int = 1) -> None:
        super().__init__()
        if dim not in CONVOLUTIONS:
            raise ValueError(f"dim={dim} has no convolution; needed one of {sorted(CONVOLUTIONS)}")
        self.convolution = CONVOLUTIONS[dim](channels, channels, kernel_size=3, stride=stride)

    def forward(
        self, u: Float[Tensor, "batch channel *space"], periodic: tuple[bool, ...]
    ) -> Float[Tensor, "batch channel *out"]:
        for axis, ring in enumerate(periodic, start=2):
            first, last = u.narrow(axis, 0, 1), u.narrow(axis, u.shape[axis] - 1, 1)
            u = torch.cat([last, u, first] if ring else [first, u, last], dim=axis)
        return self.convolution(u)


class Down(nn.Module):
    """Half the points along each axis.

    >>> Down(4, dim=2)(torch.zeros(1, 4, 8, 6), (True, False)).shape
    torch.Size([1, 4, 4, 3])
    """

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        self.halve = Stencil(channels, dim, stride=2)
        self.smooth = Stencil(channels, dim)

    def forward(
        self, u: Float[Tensor, "batch channel *space"], periodic: tuple[bool, ...]
    ) -> Float[Tensor, "batch channel *half"]:
        return self.smooth(F.gelu(self.halve(u, periodic)), periodic)


class Up(nn.Module):
    """Twice the points along each axis.

    >>> Up(4, dim=1)(torch.zeros(1, 4, 3), (True,)).shape
    torch.Size([1, 4, 6])
    """

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        self.first = Stencil(channels, dim)
        self.second = Stencil(channels, dim)

    def forward(
        self, u: Float[Tensor, "batch channel *space"], periodic: tuple[bool, ...]
    ) -> Float[Tensor, "batch channel *double"]:
        for axis in range(2, u.ndim):
            u = u.repeat_interleave(2, dim=axis)
        return self.second(F.gelu(self.first(u, periodic)), periodic)
