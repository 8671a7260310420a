r"""Two-dimensional incompressible flow on a periodic rectangle, in vorticity form.

$$\omega_t + u \cdot \nabla \omega = \nu \Delta \omega, \qquad u = (\partial_y \psi, -\partial_x \psi), \quad
-\Delta \psi = \omega$$

Space: Fourier modes up to 2/3 of those of the grid. Time: Crank-Nicolson for diffusion (second order) inside the
low-storage Runge-Kutta method of Carpenter and Kennedy (NASA TM-109112) for advection (fourth order, five stages).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum, auto

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.bases import Basis, apply_along, fourier_basis, resolved_modes, samples_at_once
from mondrian.data.random_fields import REFERENCE_POINTS, noise, wavenumber
from mondrian.data.solvers.advection import (
    Advection,
    DirectAdvection,
    FourierAdvection,
    jax_cfd_filter,
)
from mondrian.data.solvers.checks import check_chunk, check_fields, check_steps
from mondrian.grid import Grid

# times of the stages, weights of the previous slope, weights of the slope in the step
_TIMES = (0.0, 0.1496590219993, 0.3704009573644, 0.6222557631345, 0.9582821306748, 1.0)
_CARRIED = (0.0, -0.4178904745, -1.192151694643, -1.697784692471, -1.514183444257)
_GAINS = (0.1496590219993, 0.3792103129999, 0.8229550293869, 0.6994504559488, 0.1530572479681)


class Dealias(Enum):
    """The modes of the advection to keep."""

    SYMMETRIC = auto()
    """|k| < n/3 on both axes, for vorticity and advection: no aliasing, and mirror symmetry is preserved."""
    JAX_CFD = auto()
    """As in jax-cfd: limits that differ by one between kx > 0, kx < 0 and ky, for the advection alone."""


def initial_vorticity(
    seeds: Sequence[int],
    grid: Grid,
    *,
    maximum_velocity: float = 3.0,
    peak_wavenumber: float = 4.0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "batch x y"]:
    r"""The vorticity of a random divergence-free flow with velocity concentrated around `peak_wavenumber`.

    The velocity is white noise, projected to be divergence-free, times the amplitude $p(|k|) / |k|$, where $p$ is the
    log-normal density with variance 1/4 and mode `peak_wavenumber` (as in jax-cfd's `filtered_velocity_field`). It is
    scaled such that the largest speed on 128 x 128 points is `maximum_velocity`. One seed gives one flow: grids differ
    in the modes they resolve, not in the scale.

    >>> grid = Grid(extent=(2 * torch.pi,) * 2, points=(32, 32), periodic=(True, True))
    >>> initial_vorticity([0, 1], grid).shape
    torch.Size([2, 32, 32])
    """
    check_grid(grid)
    for name, value in (("maximum_velocity", maximum_velocity), ("peak_wavenumber", peak_wavenumber)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}={value} must be positive and finite")

    reference = grid.with_points((REFERENCE_POINTS,) * 2)
    coefficients, bases = _vorticity_modes(seeds, reference, peak_wavenumber)
    k = wavenumber(reference, tuple(coefficients.shape[1:]))
    stream = coefficients / k.square().clamp(min=torch.finfo(k.dtype).tiny)
    u_x = apply_along(bases[1].derivatives, apply_along(bases[0].values, stream, 0), 1)
    u_y = apply_along(bases[1].values, apply_along(bases[0].derivatives, stream, 0), 1)
    speed = torch.hypot(u_x, u_y).amax(dim=(1, 2), keepdim=True)

    coefficients, bases = _vorticity_modes(seeds, grid, peak_wavenumber)
    vorticity = apply_along(bases[1].values, apply_along(bases[0].values, coefficients, 0), 1)
    vorticity *= maximum_velocity / speed
    return vorticity.to(device=device, dtype=dtype or torch.get_default_dtype())


def solve(
    vorticity0: Float[Tensor, "batch x y"],
    grid: Grid,
    *,
    viscosity: float = 1e-3,
    dt: float = 0.004,
    steps: int = 2500,
    frames: int = 50,
    dealias: Dealias = Dealias.SYMMETRIC,
    chunk: int | None = None,
) -> Float[Tensor, "batch frame x y"]:
    r"""The vorticity after each of `frames` equal parts of the steps, without the initial vorticity.

    `chunk` samples are solved at a time, by default as many as fit the cache of a CPU core. On one thread the result of
    a sample depends neither on `chunk` nor on the other samples, to the last bit.

    >>> grid = Grid(extent=(2 * torch.pi,) * 2, points=(16, 16), periodic=(True, True))
    >>> x, y = grid.coordinates(dtype=torch.float64)
    >>> vortices = torch.sin(x) * torch.sin(y)  # Taylor-Green: decays without changing shape
    >>> w = solve(vortices[None], grid, viscosity=0.1, dt=0.01, steps=100, frames=4)
    >>> torch.allclose(w[0, -1], vortices * torch.exp(torch.tensor(-0.2)), atol=1e-6)
    True
    """
    check_grid(grid)
    check_fields("vorticity0", vorticity0, grid)
    check_steps(dt, steps, frames)
    check_chunk(chunk)
    if not viscosity >= 0:
        raise ValueError(f"viscosity={viscosity} must be at least 0")
    chunk = _chunk(chunk, vorticity0, dealias)

    def advection(like: Tensor) -> Advection:
        if dealias is Dealias.JAX_CFD:
            return DirectAdvection(grid, jax_cfd_filter(grid), like)
        return FourierAdvection(grid, like)

    parts = vorticity0.split(chunk)
    trajectory = torch.cat([integrate(w, advection(w), viscosity, dt, steps, frames) for w in parts])
    if not trajectory.isfinite().all():
        raise ValueError(f"dt={dt} is too long a step for this vorticity on {grid.points} points: it blew up")
    return trajectory


def integrate(
    vorticity0: Float[Tensor, "batch x y"],
    advection: Advection,
    viscosity: float,
    dt: float,
    steps: int,
    frames: int,
) -> Float[Tensor, "batch frame x y"]:
    r"""The time loop of `solve` with a given form of the advection.

    In stage $i$, with $\mu_i = \tfrac12 \Delta t (c_{i+1} - c_i)$ and $L = \nu \Delta$,

    $$h \leftarrow N(\omega) + B_i h, \qquad
    (1 - \mu_i L)\, \omega \leftarrow (1 + \mu_i L)\, \omega + C_i \Delta t\, h.$$
    """
    w = advection.coefficients(vorticity0)
    stages = []
    for start, end, carried, weight in zip(_TIMES, _TIMES[1:], _CARRIED, _GAINS, strict=False):
        mu = 0.5 * dt * (end - start) * viscosity * advection.laplacian
        decay, gain = ((1 + mu) / (1 - mu)).expand(w.shape[1:]), (weight * dt / (1 - mu)).expand(w.shape[1:])
        stages.append((carried, decay.to(w).contiguous(), gain.to(w).contiguous()))

    trajectory = vorticity0.new_empty(len(vorticity0), frames, *vorticity0.shape[1:])
    slope = torch.zeros_like(w)
    for frame in range(frames):
        for _ in range(steps // frames):
            for carried, decay, gain in stages:
                advection.accumulate_(slope, w, carried)
                w.mul_(decay).addcmul_(slope, gain)
        trajectory[:, frame] = advection.field(w)
    return trajectory


def _chunk(requested: int | None, vorticity0: Tensor, dealias: Dealias) -> int:
    batch, *points = vorticity0.shape
    if vorticity0.device.type != "cpu":
        return requested or batch
    if dealias is Dealias.JAX_CFD:
        return 1  # it transforms single fields, which MKL rounds differently
    in_cache = max(1, 6 * 128**2 // math.prod(points))
    return samples_at_once(requested or in_cache, vorticity0, tuple(points))


def _vorticity_modes(seeds: Sequence[int], grid: Grid, peak: float) -> tuple[Tensor, list[Basis]]:
    counts = tuple(resolved_modes(grid, axis) for axis in (0, 1))
    log_k = wavenumber(grid, counts).clamp(min=torch.finfo(torch.float64).tiny).log()
    variance = 0.25
    density = torch.exp(-((log_k - math.log(peak) - variance) ** 2) / (2 * variance) - log_k)
    return noise(seeds, counts) * density, [fourier_basis(grid, axis, counts[axis]) for axis in (0, 1)]


def check_grid(grid: Grid) -> None:
    """Raise `ValueError` for a grid on which the equation cannot be solved."""
    if grid.dim != 2 or not all(grid.periodic):
        raise ValueError(f"grid={grid} must have two axes, both periodic")
    if not grid.points or min(grid.points) < 4:
        raise ValueError(f"grid.points={grid.points} must be at least 4 along each axis")
