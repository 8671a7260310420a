r"""Allen-Cahn on a box with zero flux through its walls.

$$u_t = \gamma \Delta u - (u^3 - u), \qquad \partial_n u = 0$$

Space: the 5-point Laplacian on cell-centred points, second order. Time: Strang splitting of two flows that
are known exactly, on steps that double in length from level to level (clipped initial data are not smooth),
and extrapolation in the square of the step:

$$R_t(u) = \frac{u}{\sqrt{u^2 + (1 - u^2) e^{-2t}}}, \qquad D_t(u) = A_x u A_y, \quad
A = e^{\gamma t \Delta_h}, \qquad S_t = R_{t/2} D_t R_{t/2}.$$
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.bases import cosine_basis, samples_at_once
from mondrian.data.random_fields import gaussian_random_field
from mondrian.grid import Grid
from mondrian.spec import Spec


@dataclass(frozen=True)
class Schedule(Spec):
    """Steps of a solution: `steps[l]` steps of length `2**l` (in a common unit) for each level, in order.

    The whole is repeated with every step cut into `r` equal ones for each `r` in `extrapolation`; with `m`
    such numbers the order in time is `2 m`.

    >>> Schedule(steps=(2, 1), extrapolation=(1,)).levels(4.0)
    ((1.0, 2), (2.0, 1))
    """

    steps: tuple[int, ...]
    extrapolation: tuple[int, ...] = (1, 2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps or min(self.steps) < 0 or sum(self.steps) == 0:
            raise ValueError(f"steps={self.steps} must hold counts of at least 0, one of them positive")
        ascending = list(self.extrapolation) == sorted(set(self.extrapolation))
        if not self.extrapolation or not ascending or self.extrapolation[0] < 1:
            raise ValueError(f"extrapolation={self.extrapolation} must ascend from at least 1")

    @property
    def order(self) -> int:
        """Order of accuracy in time, for smooth data."""
        return 2 * len(self.extrapolation)

    @property
    def work(self) -> int:
        """Number of Strang steps in all."""
        return sum(self.steps) * sum(self.extrapolation)

    def levels(self, time: float) -> tuple[tuple[float, int], ...]:
        """Length and number of the steps of each level."""
        unit = time / sum(count * 2**level for level, count in enumerate(self.steps))
        return tuple((unit * 2**level, count) for level, count in enumerate(self.steps) if count)

    def weights(self) -> tuple[float, ...]:
        r"""Weights of the extrapolation to step length zero, $w_r = \prod_{s \ne r} r^2 / (r^2 - s^2)$."""
        rs = self.extrapolation
        return tuple(math.prod((r * r / (r * r - s * s) for s in rs if s != r), start=1.0) for r in rs)


# Largest difference from the exact solution in time at 128^2 and t = 6, over the paper's range of gamma.
SINGLE = Schedule(steps=(4, 8, 18), extrapolation=(1, 2))  # 90 steps, 5e-5; 2e-6 in the mean
DOUBLE = Schedule(steps=(4, 8, 12, 28), extrapolation=(1, 2, 3))  # 312 steps, 2e-7


def initial_condition(
    seeds: Sequence[int],
    grid: Grid,
    *,
    bound: float = 0.5,
    modes: int | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "batch *space"]:
    """The paper's initial data: a random field with spectrum k^-3, clipped to [-bound, bound].

    >>> u = initial_condition([0, 1], Grid(extent=(2.0, 2.0), points=(16, 16)))
    >>> u.shape, u.abs().max().item()
    (torch.Size([2, 16, 16]), 0.5)
    """
    return gaussian_random_field(seeds, grid, modes=modes, dtype=dtype, device=device).clamp_(-bound, bound)


def solve(
    u0: Float[Tensor, "batch x y"],
    gamma: Float[Tensor, " batch"],
    grid: Grid,
    *,
    time: float = 6.0,
    schedule: Schedule | None = None,
    chunk: int | None = None,
) -> Float[Tensor, "batch x y"]:
    """The solution at `time`.

    `schedule` is `SINGLE` or `DOUBLE` by the type of `u0` if None. `chunk` samples are worked on at a time, as
    many as suit the cache of a CPU's core if None. On one thread neither `chunk` nor the rest of the batch
    changes a bit of a sample's result.

    >>> grid = Grid(extent=(2.0, 2.0), points=(16, 16))
    >>> u = solve(initial_condition([0], grid), torch.tensor([1e-3]), grid)
    >>> bool((u.abs() <= 1).all())
    True
    """
    _check(u0, gamma, grid, time, chunk)
    if schedule is None:
        schedule = DOUBLE if u0.dtype == torch.float64 else SINGLE
    (n, m), wanted = grid.points, chunk or (8 if u0.device.type == "cpu" else len(u0))
    chunk = samples_at_once(wanted, u0, (n, m), (n, n), (m, m))
    parts = zip(u0.split(chunk), gamma.split(chunk), strict=True)
    return torch.cat([_solve_chunk(u, g, grid, time, schedule) for u, g in parts])


def energy(u: Float[Tensor, "batch x y"], gamma: Float[Tensor, " batch"], grid: Grid) -> Float[Tensor, " batch"]:
    r"""The energy that solutions descend, $\int \frac\gamma2 |\nabla u|^2 + \frac14 (1 - u^2)^2 \, dx$."""
    hx, hy = grid.spacing
    slope = (u.diff(dim=1) / hx).square().sum(dim=(1, 2)) + (u.diff(dim=2) / hy).square().sum(dim=(1, 2))
    return hx * hy * (gamma / 2 * slope + ((1 - u.square()).square() / 4).sum(dim=(1, 2)))


def _solve_chunk(u0: Tensor, gamma: Tensor, grid: Grid, time: float, schedule: Schedule) -> Tensor:
    # Each flow keeps |u| <= max(1, |u0|); extrapolation alone could overstep it, by no more than its error.
    bound = u0.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1.0)
    flows: dict[float, tuple[Tensor, Tensor]] = {}  # lengths recur: half a step is a step of the level before
    total = torch.zeros_like(u0)
    for refinement, weight in zip(schedule.extrapolation, schedule.weights(), strict=True):
        steps = list(_lengths(schedule, time, refinement))
        for length in set(steps) - set(flows):
            flows[length] = _diffusion(gamma, grid, length, u0)
        total += weight * _strang(u0, steps, flows)
    return total.clamp_(-bound, bound)


def _lengths(schedule: Schedule, time: float, refinement: int) -> Iterator[float]:
    for length, count in schedule.levels(time):
        yield from [length / refinement] * (count * refinement)


def _strang(u0: Tensor, steps: list[float], flows: dict[float, tuple[Tensor, Tensor]]) -> Tensor:
    u, other = u0.clone(), torch.empty_like(u0)
    reaction = 0.0  # the half flow owed by the step before: two halves in a row are one flow
    for length in steps:
        _react_(u, other, reaction + length / 2)
        left, right = flows[length]
        torch.bmm(left, u, out=other)
        torch.bmm(other, right, out=u)
        reaction = length / 2
    return _react_(u, other, reaction)


def _react_(u: Tensor, work: Tensor, time: float) -> Tensor:
    # Single IEEE operations, without a fused multiply-add: vector and remainder loops round alike.
    decay = math.exp(-2.0 * time)
    torch.mul(u, u, out=work).mul_(1.0 - decay).add_(decay).rsqrt_()
    return u.mul_(work)


def _diffusion(gamma: Tensor, grid: Grid, time: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """`exp(gamma time Laplacian)` along each axis, symmetric, in float64 before the cast.

    Row sums that are off by a rounding of float32 would act like a source at every step.
    """
    left = _axis_diffusion(gamma, grid, 0, time).to(like)
    if grid.points[0] == grid.points[1] and grid.extent[0] == grid.extent[1]:
        return left, left
    return left, _axis_diffusion(gamma, grid, 1, time).to(like)


def _axis_diffusion(gamma: Tensor, grid: Grid, axis: int, time: float) -> Tensor:
    n, h = grid.points[axis], grid.spacing[axis]
    basis = cosine_basis(grid, axis, n)
    phi, k = basis.values.to(gamma.device), basis.wavenumbers.to(gamma.device)
    eigenvalue = -((2 / h * torch.sin(k * h / 2)) ** 2)  # of the second difference
    decay = torch.exp(gamma.double()[:, None, None] * time * eigenvalue)
    return torch.bmm(phi * decay, (phi.T / n).expand(len(gamma), -1, -1))


def _check(u0: Tensor, gamma: Tensor, grid: Grid, time: float, chunk: int | None) -> None:
    if grid.dim != 2 or any(grid.periodic):
        raise ValueError(f"grid={grid} must be a plane box without periodic axes")
    if tuple(u0.shape[1:]) != grid.points:
        raise ValueError(f"u0 has points {tuple(u0.shape[1:])}; grid.points={grid.points} needs the same")
    if gamma.shape != u0.shape[:1]:
        raise ValueError(f"gamma has shape {tuple(gamma.shape)}; needed one for each of {len(u0)} samples")
    if u0.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"u0 is {u0.dtype}; needed torch.float32 or torch.float64")
    if not (math.isfinite(time) and time > 0):
        raise ValueError(f"time={time} must be positive and finite")
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk={chunk} must be at least 1")
