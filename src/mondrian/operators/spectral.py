"""The spectral convolution of FNO, on one cell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mondrian.operators.base import OperatorSpec, SubdomainOperator, add_skip
from mondrian.quadrature import Cell, Midpoint
from mondrian.support.checks import positive
from mondrian.support.constants import constant


@dataclass(frozen=True)
class Spectral(OperatorSpec):
    """A periodic convolution on the cell, with `modes` frequencies per axis and a complex matrix for each.

    >>> sum(p.numel() for p in Spectral(modes=8).build(64, 192, bias=False).parameters())
    983232
    """

    modes: int = 8
    skip: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(modes=self.modes)

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        return SpectralOperator(self, in_channels, out_channels, dim=dim, bias=bias)


class SpectralOperator(SubdomainOperator):
    r"""$(Iv)(x) = \sum_k c_k \operatorname{Re}[e^{i\pi k x} W_k \hat v_k] + S v(x) + b$ on the cell $[-1, 1]^d$.

    $$\hat v_k = \int e^{-i\pi k y} v(y)\,dy$$

    The frequencies are FNO's: `modes` of both signs along every axis but the last, $0 \dots$ `modes // 2` along the
    last, where $c_k = 2$ stands for the conjugate half. Frequencies that alias on the points, $2|k| \ge n$, are left
    out, so that the operator is the same at every resolution that resolves the function. Like FNO's layer it has its
    own bias, besides the one that the feed-forward form adds.
    """

    def __init__(self, spec: Spectral, in_channels: int, out_channels: int, *, dim: int, bias: bool) -> None:
        super().__init__(in_channels, out_channels, bias=bias, dim=dim)
        both = range(-(spec.modes // 2), spec.modes - spec.modes // 2)
        self.frequencies = tuple(product(*[both] * (dim - 1), range(spec.modes // 2 + 1)))
        scale = (2 / (in_channels + out_channels)) ** 0.5
        self.weight = nn.Parameter(scale * torch.randn(len(self.frequencies), 2, in_channels, out_channels))
        self.offset = nn.Parameter(torch.zeros(out_channels))
        self.skip = nn.Linear(in_channels, out_channels) if spec.skip else None

    def waves(self, cell: Cell) -> tuple[Tensor, Tensor, Float[Tensor, " mode"], Int[Tensor, " mode"]]:
        """Cosine and sine of $\\pi k x$ for the visible modes, their factors $c_k$, and their indices."""
        return _waves(self.frequencies, cell.points, cell.coordinates.dtype, cell.coordinates.device)

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        cos, sin, twice, index = self.waves(cell)
        wave = torch.complex(cos, sin)
        weight = torch.complex(self.weight[index, 0], self.weight[index, 1])
        transformed = torch.einsum("y,yk,bciy->bcik", cell.weights.to(wave.dtype), wave.conj(), v.to(wave.dtype))
        u = torch.einsum("k,xk,kio,bcik->bcox", twice.to(wave.dtype), wave, weight, transformed).real
        return add_skip(self.add_bias(u + self.offset[:, None]), self.skip, v)

    def evaluate(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        cos, sin, twice, index = self.waves(cell)
        n, modes, rows = cell.size, cos.shape[1], v.flatten(0, 1)
        analysis = torch.cat([cos, -sin], dim=1) * cell.weights[:, None]
        synthesis = torch.cat([cos * twice, -sin * twice], dim=1)
        real, imaginary = self.weight[index].unbind(dim=1)  # mode in out
        product = torch.cat([torch.cat([real, imaginary], dim=2), torch.cat([-imaginary, real], dim=2)], dim=1)
        transformed = (rows.reshape(-1, n) @ analysis).view(-1, self.in_channels, 2, modes)
        by_mode = transformed.permute(3, 0, 2, 1).reshape(modes, -1, 2 * self.in_channels)
        mixed = torch.bmm(by_mode, product).view(modes, -1, 2, self.out_channels).permute(1, 3, 2, 0)
        u = (mixed.reshape(-1, 2 * modes) @ synthesis.mT).view(*v.shape[:2], self.out_channels, n)
        return add_skip(self.add_bias(u + self.offset[:, None]), self.skip, v)


@constant
def _waves(
    frequencies: tuple[tuple[int, ...], ...], points: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "point mode"], Float[Tensor, "point mode"], Float[Tensor, " mode"], Int[Tensor, " mode"]]:
    visible = [
        index
        for index, mode in enumerate(frequencies)
        if all(2 * abs(k) < n for k, n in zip(mode, points, strict=True))  # no alias
    ]
    x = Cell.build(points, Midpoint(), dtype=torch.float64, device=device).coordinates
    modes = torch.tensor([frequencies[index] for index in visible], dtype=torch.float64, device=device)
    twice = torch.where(modes[:, -1] == 0, 1.0, 2.0)
    phase = torch.pi * x @ modes.mT  # many periods: half precision would lose the phase
    return phase.cos().to(dtype), phase.sin().to(dtype), twice.to(dtype), torch.tensor(visible, device=device)
