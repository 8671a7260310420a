r"""Advection of vorticity by the flow it induces, on a periodic rectangle, in two forms.

$$N(\omega) = -P (u \cdot \nabla \omega), \qquad u = (\partial_y \psi, -\partial_x \psi), \quad
-\Delta \psi = \omega$$

$P$ keeps the modes of a filter. On modes $|k| < n/3$ the products are free of aliasing (the 2/3 rule) and
Basdevant's form, with two transforms each way in place of four and one, is the same to rounding:

$$N(\omega) = -P \bigl[ (\partial_{xx} - \partial_{yy}) (u_x u_y) + \partial_{xy} (u_y^2 - u_x^2) \bigr].$$

Basdevant, J. Comput. Phys. 50 (1983), doi:10.1016/0021-9991(83)90103-6.
"""

from __future__ import annotations

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mondrian.grid import Grid


@runtime_checkable
class Advection(Protocol):
    """A representation of vorticity as a tensor of coefficients, and `N` on it.

    `FourierAdvection` is made for one batch size, that of `like`, and reuses its working memory: new memory at every
    stage would cost as much as the arithmetic.
    """

    laplacian: Tensor
    """Eigenvalue of the Laplacian for every coefficient, in float64."""

    def coefficients(self, vorticity: Float[Tensor, "batch x y"]) -> Tensor:
        """The coefficients of a field."""
        ...

    def field(self, coefficients: Tensor) -> Float[Tensor, "batch x y"]:
        """The field on the points."""
        ...

    def accumulate_(self, slope: Tensor, coefficients: Tensor, carried: float) -> None:
        """`slope <- N(coefficients) + carried slope`."""
        ...


def symmetric_filter(grid: Grid) -> Bool[Tensor, "kx ky"]:
    """Modes of the real FFT with |k| < n/3 on both axes."""
    (kx, ky), (n, m) = _whole_wavenumbers(grid), grid.points
    return (3 * kx.abs() < n)[:, None] & (3 * ky < m)


def jax_cfd_filter(grid: Grid) -> Bool[Tensor, "kx ky"]:
    """Modes that jax-cfd 0.2.1 keeps, with different limits for positive kx, negative kx and ky."""
    n, m = grid.points
    keep = torch.zeros(n, m // 2 + 1, dtype=torch.bool)
    rows, columns = int(2 / 3 * n), int(2 / 3 * (m // 2 + 1))
    keep[: rows // 2, :columns] = True
    keep[-rows // 2 :, :columns] = True
    return keep


class DirectAdvection:
    """The definition, by FFT, with any filter, which applies to the advection alone as in jax-cfd."""

    def __init__(self, grid: Grid, keep: Bool[Tensor, "kx ky"], like: Tensor) -> None:
        kx, ky = _wavenumbers(grid)
        self.points, self.keep = grid.points, keep.to(like)
        self.laplacian = -(kx.square() + ky.square())
        inverse = _inverse(-self.laplacian)
        factors = [
            1j * ky * inverse,
            -1j * kx * inverse,
            (1j * kx).expand_as(inverse),
            (1j * ky).expand_as(inverse),
        ]
        self.factors = torch.stack(factors).to(like.device, like.dtype.to_complex())

    def coefficients(self, vorticity: Tensor) -> Tensor:
        return torch.fft.rfft2(vorticity)

    def field(self, coefficients: Tensor) -> Tensor:
        return torch.fft.irfft2(coefficients, s=self.points)

    def accumulate_(self, slope: Tensor, coefficients: Tensor, carried: float) -> None:
        u_x, u_y, slope_x, slope_y = self.field(coefficients[:, None] * self.factors).unbind(dim=1)
        advection = torch.fft.rfft2(-(u_x * slope_x + u_y * slope_y)) * self.keep
        slope.mul_(carried).add_(advection)


class FourierAdvection:
    """Basdevant's form with the symmetric filter. Coefficients are `(batch, ky, kx, 2)`, the kept ky only.

    All FFTs run along contiguous lines and over at least two fields (the velocities, the products). MKL then
    transforms line by line, and the result of a sample does not depend on its neighbours.
    """

    def __init__(self, grid: Grid, like: Float[Tensor, "batch x y"]) -> None:
        batch, (n, m), is_kept = len(like), grid.points, symmetric_filter(grid).T
        self.points, self.columns = (n, m), int(is_kept[:, 0].sum())
        keep = is_kept[: self.columns].double()
        kx, ky = (k.T[: self.columns] for k in _wavenumbers(grid))
        k2 = kx.square() + ky.square()
        complex_dtype = like.dtype.to_complex()
        velocity = torch.stack([1j * ky * keep * _inverse(k2), -1j * kx * keep * _inverse(k2)])
        factors = torch.stack([keep * (kx.square() - ky.square()), keep * kx * ky])
        self.laplacian = -k2[..., None]
        self.keep = keep.to(like)
        self.velocity = velocity[:, None].to(like.device, complex_dtype)
        self.factors = factors[..., None].expand(-1, -1, -1, 2).to(like).contiguous().unbind()
        self.lines = torch.empty(2, batch, self.columns, n, dtype=complex_dtype, device=like.device)
        self.half = torch.zeros(2, batch, n, m // 2 + 1, dtype=complex_dtype, device=like.device)
        self.half_kept = self.half[..., : self.columns].mT
        self.products = like.new_empty(2, batch, n, m)

    def coefficients(self, vorticity: Tensor) -> Tensor:
        pair = vorticity.expand(2, *vorticity.shape)  # never one field alone, see above
        return torch.view_as_real(self._forward(pair)[0] * self.keep)

    def field(self, coefficients: Tensor) -> Tensor:
        pair = torch.view_as_complex(coefficients).expand(2, *coefficients.shape[:-1])
        return self._inverse(pair)[0]

    def accumulate_(self, slope: Tensor, coefficients: Tensor, carried: float) -> None:
        torch.mul(torch.view_as_complex(coefficients), self.velocity, out=self.lines)
        _basdevant(*self._inverse(self.lines), *self.products)
        cross, difference = torch.view_as_real(self._forward(self.products))
        slope.mul_(carried).addcmul_(cross, self.factors[0]).addcmul_(difference, self.factors[1])

    def _forward(self, fields: Tensor) -> Tensor:
        half = torch.fft.rfft(fields).narrow(-1, 0, self.columns)
        return torch.fft.fft(self.lines.copy_(half.mT))

    def _inverse(self, lines: Tensor) -> Tensor:
        self.half_kept.copy_(torch.fft.ifft(lines))
        return torch.fft.irfft(self.half, n=self.points[1])


def _basdevant(u_x: Tensor, u_y: Tensor, cross: Tensor, difference: Tensor) -> None:
    """Compute `cross = u_x u_y` and `difference = u_y^2 - u_x^2`; overwrites the velocity."""
    torch.mul(u_x, u_y, out=cross)
    torch.sub(u_y.mul_(u_y), u_x.mul_(u_x), out=difference)


def _whole_wavenumbers(grid: Grid) -> tuple[Float[Tensor, " kx"], Float[Tensor, " ky"]]:
    n, m = grid.points
    return torch.fft.fftfreq(n, 1 / n, dtype=torch.float64), torch.fft.rfftfreq(m, 1 / m, dtype=torch.float64)


def _wavenumbers(grid: Grid) -> tuple[Float[Tensor, "kx 1"], Float[Tensor, "1 ky"]]:
    (kx, ky), (length_x, length_y) = _whole_wavenumbers(grid), grid.extent
    return kx[:, None] * (2 * math.pi / length_x), ky[None] * (2 * math.pi / length_y)


def _inverse(k2: Tensor) -> Tensor:
    return torch.where(k2 > 0, 1 / k2.clamp(min=torch.finfo(k2.dtype).tiny), 0.0)
