"""Energy spectra of fields and of errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from mondrian.grid import Grid
from mondrian.metrics import check_finite, check_pair, check_space


def energy_spectrum(
    u: Float[Tensor, "batch channel *space"], grid: Grid
) -> tuple[Float64[Tensor, " shell"], Float64[Tensor, "batch channel shell"]]:
    r"""Wavenumbers of the shells and the energy in each, which add up to the mean square of the field.

    $$E_s = \sum_{|k| / \Delta \in [s - \frac12, s + \frac12)} |\hat u_k|^2, \qquad
    \sum_s E_s = \operatorname{mean} u^2$$

    On a periodic axis $\hat u$ are Fourier coefficients and $k_a = 2 \pi m / L_a$; on others cosine coefficients (the
    field continued without flux, so that ends that differ are no jump) and $k_a = \pi m / L_a$. Shells are centred on
    multiples of $\Delta$, the smallest wavenumber of the box, and reach to the corners. Shell 0 is the mean.

    >>> x = Grid(extent=(1.0,), points=(8,), periodic=(True,))
    >>> k, energy = energy_spectrum(3 + torch.cos(4 * torch.pi * x.axis(0, dtype=torch.float64))[None, None], x)
    >>> k / (2 * torch.pi)
    tensor([0., 1., 2., 3., 4.], dtype=torch.float64)
    >>> energy[0, 0].round(decimals=12)
    tensor([9.0000, 0.0000, 0.5000, 0.0000, 0.0000], dtype=torch.float64)
    """
    check_space(u, grid, "u")
    width, shells = _shells(grid.with_points(tuple(u.shape[2:])))
    energy = _coefficients(u.double(), grid).abs().square().flatten(2)
    count = int(shells.max()) + 1
    spectrum = energy.new_zeros((*energy.shape[:2], count)).index_add(2, shells.to(u.device), energy)
    return width * torch.arange(count, dtype=torch.float64, device=u.device), spectrum


def band_energies(
    u: Float[Tensor, "batch channel *space"], grid: Grid, bands: Sequence[float] | None = None
) -> Float64[Tensor, "batch channel band"]:
    """The energy in bands of wavenumbers; energies add up to the mean square of the field.

    `bands` are the wavenumbers between them: `(10.0, 40.0)` means below 10, from 10 to below 40, and from 40 on. A
    shell belongs as a whole to the band of its wavenumber. By default the bands are `log_thirds(grid)`.

    >>> wave = torch.tensor([[[1.0, -1.0, 1.0, -1.0]]])
    >>> band_energies(2 + wave, Grid(extent=(1.0,), periodic=(True,)), bands=(6.0, 9.0))
    tensor([[[4., 0., 1.]]], dtype=torch.float64)
    """
    k, energy = energy_spectrum(u, grid)
    if bands is None:
        bands = log_thirds(grid.with_points(tuple(u.shape[2:])))
    else:
        _check_bands(bands)
    edges = torch.tensor(tuple(bands), dtype=torch.float64, device=u.device)
    index = torch.bucketize(k, edges, right=True)
    return energy.new_zeros((*energy.shape[:2], len(edges) + 1)).index_add(2, index, energy)


def band_errors(
    prediction: Float[Tensor, "batch channel *space"],
    truth: Float[Tensor, "batch channel *space"],
    grid: Grid,
    bands: Sequence[float] | None = None,
) -> Float64[Tensor, "batch channel band"]:
    r"""The relative error in bands of wavenumbers, separated as in `band_energies`.

    $$\epsilon_b^2 = E_b(p - t) / E_b(t), \qquad \sum_b \epsilon_b^2 E_b(t) = \operatorname{mean} (p - t)^2$$

    Use the same `bands` to compare resolutions. As in `mondrian.metrics`, a prediction that is not finite has infinite
    errors; the error is NaN in a band where the truth has no energy beyond rounding.

    >>> truth = torch.tensor([[[3.0, 1.0, 3.0, 1.0]]])
    >>> band_errors(truth.mean() + 0 * truth, truth, Grid(extent=(1.0,), periodic=(True,)), bands=(6.0, 9.0))
    tensor([[[0., nan, 1.]]], dtype=torch.float64)
    """
    check_pair(prediction, truth)
    check_finite(truth)
    error = band_energies(prediction.double() - truth.double(), grid, bands)
    energy = band_energies(truth, grid, bands)
    digits = max(torch.finfo(truth.dtype).eps, 1e-14)  # of the truth, and of its transform in float64
    rounding = digits**2 * energy.sum(dim=2, keepdim=True)
    relative = (error / energy).sqrt().nan_to_num(nan=math.inf, posinf=math.inf)
    return torch.where(energy <= rounding, math.nan, relative)


def log_thirds(grid: Grid) -> tuple[float, float]:
    """The two wavenumbers that divide the range of a grid into three equal ratios.

    They lie half-way between shells, so that rounding does not move a shell from band to band.

    >>> log_thirds(Grid(extent=(torch.pi,), points=(28,)))  # cosine modes up to 3, up to 9, up to 27
    (3.5, 9.5)
    """
    width, shells = _shells(grid)
    ratio = math.cbrt(int(shells.max())) + 1e-9  # the third root of 27 is to be 3
    low = max(1, math.floor(ratio))
    high = max(low + 1, math.floor(ratio**2))
    return width * (low + 0.5), width * (high + 0.5)


def cosine_coefficients(u: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
    r"""The type-II cosine transform along one axis, orthonormal under the mean over the points.

    $$\hat u_m = \frac1n \sum_j \varphi_m(x_j) u_j, \qquad \varphi_0 = 1, \quad
    \varphi_m = \sqrt2 \cos\bigl(\pi m (j + \tfrac12) / n\bigr)$$

    Computed as the Fourier transform of the field followed by its mirror image.

    >>> cosine_coefficients(torch.tensor([1.0, 1.0, 1.0]), 0)
    tensor([1., 0., 0.])
    """
    n = u.shape[dim]
    mirrored = torch.fft.rfft(torch.cat([u, u.flip(dim)], dim), dim=dim).narrow(dim, 0, n)
    mode = torch.arange(n, dtype=u.dtype, device=u.device)
    norm = torch.full_like(mode, math.sqrt(0.5) / n)
    norm[0] = 0.5 / n
    turn = torch.polar(norm, -math.pi / (2 * n) * mode)
    return (mirrored.movedim(dim, -1) * turn).real.movedim(-1, dim)


def _coefficients(u: Float64[Tensor, "batch channel *space"], grid: Grid) -> Tensor:
    """Cosine coefficients along the axes with ends, then Fourier coefficients along the rings."""
    rings = [2 + axis for axis in range(grid.dim) if grid.periodic[axis]]
    for axis in range(grid.dim):
        if not grid.periodic[axis]:
            u = cosine_coefficients(u, 2 + axis)
    return torch.fft.fftn(u, dim=rings, norm="forward") if rings else u


def _shells(grid: Grid) -> tuple[float, Int[Tensor, " mode"]]:
    """The width of the shells and the shell of each mode, modes flattened in axis order."""
    units = [(2 if ring else 1) * math.pi / length for ring, length in zip(grid.periodic, grid.extent, strict=True)]
    width = min((unit for unit, n in zip(units, grid.points, strict=True) if n > 1), default=min(units))
    squares = torch.zeros((), dtype=torch.float64)
    for unit, n, ring in zip(units, grid.points, grid.periodic, strict=True):
        mode = torch.arange(n, dtype=torch.float64)
        mode = torch.minimum(mode, n - mode) if ring else mode
        squares = squares[..., None] + (mode * (unit / width)) ** 2
    return width, (squares.sqrt() + (0.5 + 1e-9)).floor().long().flatten()  # rounding must not decide what lies between


def _check_bands(bands: Sequence[float]) -> None:
    edges = (0.0, *bands, math.inf)
    if not all(low < high for low, high in pairwise(edges)):
        raise ValueError(f"bands={tuple(bands)} must be finite positive wavenumbers that increase")
