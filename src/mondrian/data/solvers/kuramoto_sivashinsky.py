r"""Kuramoto-Sivashinsky on a ring: long waves grow, short waves decay, and steepening couples them into chaos.

$$u_t + u u_x + u_{xx} + u_{xxxx} = 0$$

Space: Fourier modes up to 2/3 of those of the grid, so that the product is free of aliasing. Time: ETDRK4, fourth
order. The mean of $u$ is conserved; the length of the ring determines the number of waves, one per $2 \pi \sqrt2$.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from mondrian.data.random_fields import random_field
from mondrian.data.solvers.checks import check_chunk, check_fields, check_steps
from mondrian.data.solvers.exponential import ETDRK4
from mondrian.grid import Grid


def initial_condition(
    seeds: Sequence[int],
    grid: Grid,
    *,
    std: float = 1.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "batch x"]:
    r"""Smooth random fields of mean zero, $E|\hat u_k|^2 \propto e^{-2 k^2}$: mostly growing waves, $k < 1$.

    One seed gives one function on every grid that resolves wavenumbers up to about 4.

    >>> initial_condition([0, 1], Grid(extent=(64.0,), points=(128,), periodic=(True,))).shape
    torch.Size([2, 128])
    """
    check_grid(grid)
    if not (math.isfinite(std) and std > 0):
        raise ValueError(f"std={std} must be positive and finite")
    unit = 2 * math.pi / grid.extent[0]
    k = unit * torch.arange(1, math.ceil(6 / unit) + 2, dtype=torch.float64)  # beyond 6 the amplitudes vanish
    norm = (2 * torch.exp(-2 * k.square()).sum()).sqrt()  # a sine and a cosine for each
    if not norm > 1e-150:
        raise ValueError(f"grid.extent={grid.extent} is too short for any growing wave; needed more than 2 pi")
    field = random_field(seeds, grid, lambda k: torch.where(k > 0, torch.exp(-k.square()) * (std / norm), 0.0))
    return field.to(device=device, dtype=dtype or torch.get_default_dtype())


def solve(
    u0: Float[Tensor, "batch x"],
    grid: Grid,
    *,
    dt: float = 0.05,
    steps: int = 1000,
    frames: int = 50,
    chunk: int | None = None,
) -> Float[Tensor, "batch frame x"]:
    r"""The solution after each of `frames` equal parts of the steps, without the initial values.

    `chunk` samples are solved at a time, by default 64 on a CPU. On one thread the result of a sample depends neither
    on `chunk` nor on the other samples, to the last bit.

    >>> grid = Grid(extent=(64.0,), points=(96,), periodic=(True,))
    >>> wave = 1e-6 * torch.cos(2 * torch.pi * 5 * grid.axis(0, dtype=torch.float64) / 64)
    >>> u = solve(wave[None], grid, dt=0.1, steps=20, frames=2)  # too small to steepen: grows by k^2 - k^4
    >>> k = 2 * torch.pi * 5 / 64
    >>> bool(torch.allclose(u[0, -1] / wave, torch.exp(torch.tensor(2 * (k**2 - k**4))).double(), rtol=1e-4))
    True
    """
    check_grid(grid)
    check_fields("u0", u0, grid)
    check_steps(dt, steps, frames)
    check_chunk(chunk)
    at_once = chunk or (64 if u0.device.type == "cpu" else len(u0))
    trajectory = torch.cat([_integrate(u, grid, dt, steps, frames) for u in u0.split(at_once)])
    if not trajectory.isfinite().all():
        raise ValueError(f"dt={dt} is too long a step for these values on {grid.points} points: they blew up")
    return trajectory


class RingModes:
    r"""Fourier coefficients $|m| < n/3$ on a ring, and the terms of the equation for them.

    $$\lambda_k = k^2 - k^4, \qquad N(v) = -\tfrac12 \mathrm{i} k\, \widehat{u^2}$$
    """

    def __init__(self, grid: Grid, like: Float[Tensor, "batch x"]) -> None:
        (self.points,) = grid.points
        self.count = (self.points + 2) // 3  # modes m with 3 m < n
        k = torch.arange(self.count, dtype=torch.float64) * (2 * math.pi / grid.extent[0])
        self.eigenvalues = k.square() - k.square().square()
        self.slope = (-0.5j * k).to(like.device, like.dtype.to_complex())

    def coefficients(self, u: Float[Tensor, "batch x"]) -> Complex[Tensor, "batch mode"]:
        return torch.fft.rfft(u)[:, : self.count]

    def field(self, v: Complex[Tensor, "batch mode"]) -> Float[Tensor, "batch x"]:
        return torch.fft.irfft(v, n=self.points)  # filled up with zeros

    def nonlinear(self, v: Complex[Tensor, "batch mode"]) -> Complex[Tensor, "batch mode"]:
        return self.slope * self.coefficients(self.field(v).square())


def _integrate(u0: Tensor, grid: Grid, dt: float, steps: int, frames: int) -> Tensor:
    if len(u0) == 1 and u0.device.type == "cpu":  # MKL rounds the transform of a single line differently
        return _integrate(u0.expand(2, -1), grid, dt, steps, frames)[:1]
    modes = RingModes(grid, u0)
    v = modes.coefficients(u0)
    step = ETDRK4(modes.eigenvalues, dt, v)
    trajectory = u0.new_empty(len(u0), frames, *u0.shape[1:])
    for frame in range(frames):
        for _ in range(steps // frames):
            v = step(v, modes.nonlinear)
        trajectory[:, frame] = modes.field(v)
    return trajectory


def check_grid(grid: Grid) -> None:
    """Raise `ValueError` for a grid on which the equation cannot be solved."""
    if grid.dim != 1 or not all(grid.periodic):
        raise ValueError(f"grid={grid} must have one periodic axis")
    if not grid.points or min(grid.points) < 4:
        raise ValueError(f"grid.points={grid.points} must be at least 4")
