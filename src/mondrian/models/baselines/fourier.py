"""Products with Fourier coefficients, and padding for domains that are not periodic."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def fourier_multiply(
    u: Float[Tensor, "batch channel_in *space"], weight: Float[Tensor, "channel_in channel_out *modes 2"]
) -> Float[Tensor, "batch channel_out *space"]:
    r"""A convolution on a ring (a torus) given by matrices for its lowest frequencies.

    $$(Ku)(x) = \sum_k e^{2\pi i k \cdot x} W_k \hat u_k, \qquad
    \hat u_k = \frac1n \sum_j e^{-2\pi i k \cdot x_j} u(x_j)$$

    `weight` is `(in, out, *modes, 2)`, real and imaginary parts last. Along every axis but the last its `m` modes are
    the frequencies $-\lfloor m/2 \rfloor, \dots, m - \lfloor m/2 \rfloor - 1$; along the last $0, \dots, m - 1$, the
    conjugates standing for the negative ones. Frequencies that the points cannot tell apart, $2|k| \ge n$, are left
    out, so that fewer points than modes are no special case. Half precision is transformed in single precision.

    >>> identity = torch.zeros(1, 1, 2, 2)
    >>> identity[..., 0] = 1  # W_0 = W_1 = 1: all that is left out are the frequencies from 2 on
    >>> t = 2 * torch.pi * torch.arange(8) / 8
    >>> u = (1 + t.cos())[None, None]
    >>> torch.allclose(fourier_multiply(u + (3 * t).cos(), identity), u, atol=1e-6)
    True
    """
    space, dim = u.shape[2:], u.ndim - 2
    if weight.ndim != dim + 3:
        raise ValueError(f"weight has shape {tuple(weight.shape)}; needed (in, out, {dim} axes of modes, 2)")
    dtype = torch.float32 if u.dtype in (torch.bfloat16, torch.float16) else u.dtype
    axes = tuple(range(2, u.ndim))
    spectrum = torch.fft.rfftn(u.to(dtype), dim=axes, norm="forward")
    matrices = torch.view_as_complex(weight.to(dtype).contiguous())
    ranges = []
    for axis in axes:
        n, modes, last = u.shape[axis], matrices.shape[axis], axis == axes[-1]
        start = 0 if last else -(modes // 2)
        seen = (n - 1) // 2
        low, high = max(start, -seen), min(start + modes - 1, seen)
        matrices = matrices.narrow(axis, low - start, high - low + 1)
        above = spectrum.narrow(axis, 0, high + 1)
        spectrum = torch.cat([spectrum.narrow(axis, n + low, -low), above], dim=axis) if low < 0 else above
        ranges.append((low, high))
    product = torch.einsum("bi...,io...->bo...", spectrum, matrices)
    for axis, (low, high) in zip(axes[:-1], ranges[:-1], strict=True):
        below, above = product.split([-low, high + 1], dim=axis)
        gap = product.new_zeros(
            [*product.shape[:axis], u.shape[axis] - product.shape[axis], *product.shape[axis + 1 :]]
        )
        product = torch.fft.ifft(torch.cat([above, gap, below], dim=axis), dim=axis, norm="forward")
    # The mean of a real function is real. An imaginary part is dropped on a CPU and undefined on a GPU.
    mean = torch.complex(product[..., :1].real, torch.zeros_like(product[..., :1].real))
    return torch.fft.irfft(torch.cat([mean, product[..., 1:]], dim=-1), n=space[-1], norm="forward").to(u.dtype)


def pad_domain(
    u: Float[Tensor, "batch channel *space"], periodic: tuple[bool, ...], fraction: float
) -> Float[Tensor, "batch channel *padded"]:
    """Pad `u` with zeros at the end of every axis that is not periodic, by a fraction of its length.

    >>> pad_domain(torch.ones(1, 1, 8, 8), (True, False), 0.25).shape
    torch.Size([1, 1, 8, 10])
    """
    widths = [0 if ring else round(fraction * n) for n, ring in zip(u.shape[2:], periodic, strict=True)]
    return F.pad(u, [width for after in reversed(widths) for width in (0, after)])


def crop_domain(
    u: Float[Tensor, "batch channel *padded"], points: tuple[int, ...]
) -> Float[Tensor, "batch channel *space"]:
    """The inverse of `pad_domain`: the values on the first `points`."""
    for axis, n in enumerate(points):
        u = u.narrow(2 + axis, 0, n)
    return u


def check_spectrum(modes: tuple[int, ...], padding: float) -> None:
    """Raise `ValueError` for an axis without modes, or padding that is not a fraction of the domain."""
    if not modes or any(n < 1 for n in modes):
        raise ValueError(f"modes={modes} must hold a number of at least 1 for each axis")
    if not 0 <= padding <= 1:
        raise ValueError(f"padding={padding} must lie between 0 and 1: the part of an axis to add")
