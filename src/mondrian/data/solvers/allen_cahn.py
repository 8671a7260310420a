r"""Allen-Cahn on a box with zero flux through its walls.

$$u_t = \gamma \Delta u - (u^3 - u), \qquad \partial_n u = 0$$

Space: the 5-point Laplacian on cell-centred points, second order. Time: Strang splitting of two flows that
are known exactly, on steps that are shorter at both ends of the time, and extrapolation in the square of the step:

$$R_t(u) = \frac{u}{\sqrt{u^2 + (1 - u^2) e^{-2t}}}, \qquad D_t(u) = A_x u A_y, \quad
A = e^{\gamma t \Delta_h}, \qquad S_t = R_{t/2} D_t R_{t/2}.$$
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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

    Then come `last[l]` steps of each level, back from the longest to the shortest. The whole is repeated with
    every step cut into `r` equal ones for each `r` in `extrapolation`; with `m` such numbers the order in time
    is `2 m`.

    >>> Schedule(steps=(2, 1), extrapolation=(1,), last=(2,)).levels(6.0)
    ((1.0, 2), (2.0, 1), (1.0, 2))
    """

    steps: tuple[int, ...]
    extrapolation: tuple[int, ...] = (1, 2)
    last: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps or min(self.steps) < 0 or sum(self.steps) == 0:
            raise ValueError(f"steps={self.steps} must hold counts of at least 0, one of them positive")
        if any(count < 0 for count in self.last):
            raise ValueError(f"last={self.last} must hold counts of at least 0")
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
        return (sum(self.steps) + sum(self.last)) * sum(self.extrapolation)

    def levels(self, time: float) -> tuple[tuple[float, int], ...]:
        """Length and number of the steps of each level."""
        levels = [*enumerate(self.steps), *reversed([*enumerate(self.last)])]
        unit = time / sum(count * 2**level for level, count in levels)
        return tuple((unit * 2**level, count) for level, count in levels if count)

    def weights(self) -> tuple[float, ...]:
        r"""Weights of the extrapolation to step length zero, $w_r = \prod_{s \ne r} r^2 / (r^2 - s^2)$."""
        rs = self.extrapolation
        return tuple(math.prod((r * r / (r * r - s * s) for s in rs if s != r), start=1.0) for r in rs)


# Short steps first, for clipped data are not smooth, and last: most of the error of a splitting belongs to the step
# just taken and fades within a time of order one. Largest and mean difference from the exact solution in time at
# 128^2 and t = 6 over the paper's range of gamma, for seeds that were not used to choose the numbers (96 in float32,
# 32 in float64).
SINGLE = Schedule(steps=(2, 2, 14), last=(1, 6))  # 75 steps, 3.5e-5, 1.1e-6
DOUBLE = Schedule(steps=(2, 2, 3, 26), extrapolation=(1, 2, 3), last=(0, 0, 3))  # 216 steps, 6e-8, 1.4e-9


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
    axes = _axes(grid, u0.device)
    (n, m), wanted = grid.points, chunk or (8 if u0.device.type == "cpu" else len(u0))
    chunk = samples_at_once(wanted, u0, (n, m), (n, n), (m, m))
    parts = zip(u0.split(chunk), gamma.split(chunk), strict=True)
    return torch.cat([_solve_chunk(u, g, axes, time, schedule) for u, g in parts])


def energy(u: Float[Tensor, "batch x y"], gamma: Float[Tensor, " batch"], grid: Grid) -> Float[Tensor, " batch"]:
    r"""The energy that solutions descend, $\int \frac\gamma2 |\nabla u|^2 + \frac14 (1 - u^2)^2 \, dx$."""
    hx, hy = grid.spacing
    slope = (u.diff(dim=1) / hx).square().sum(dim=(1, 2)) + (u.diff(dim=2) / hy).square().sum(dim=(1, 2))
    return hx * hy * (gamma / 2 * slope + ((1 - u.square()).square() / 4).sum(dim=(1, 2)))


def _solve_chunk(u0: Tensor, gamma: Tensor, axes: _Axes, time: float, schedule: Schedule) -> Tensor:
    # Each flow keeps |u| <= max(1, |u0|); extrapolation alone could overstep it, by no more than its error.
    bound = u0.abs().amax(dim=(1, 2), keepdim=True).clamp(min=1.0)
    flows: dict[float, tuple[Tensor, Tensor]] = {}  # lengths recur: half a step is a step of the level before
    quarters = _fold(u0)
    total = torch.zeros_like(quarters)
    for refinement, weight in zip(schedule.extrapolation, schedule.weights(), strict=True):
        steps = list(_lengths(schedule, time, refinement))
        for length in sorted(set(steps) - set(flows)):
            flows[length] = _diffusion(gamma, axes, length, u0)
        total.add_(_strang(quarters, steps, flows), alpha=weight)
    return _unfold(total).clamp_(-bound, bound)


def _lengths(schedule: Schedule, time: float, refinement: int) -> Iterator[float]:
    for length, count in schedule.levels(time):
        yield from [length / refinement] * (count * refinement)


def _strang(u0: Tensor, steps: list[float], flows: dict[float, tuple[Tensor, Tensor]]) -> Tensor:
    u, v, w = u0.clone(), torch.empty_like(u0), torch.empty_like(u0)
    # The same memory seen twice: quarters as rows for the butterfly, as matrices for diffusion.
    u_rows, v_rows, w_rows = (quarters.flatten(3).flatten(1, 2) for quarters in (u, v, w))
    v_matrices, w_matrices = (quarters.flatten(0, 2) for quarters in (v, w))
    parts, sums = _butterflies(u0)
    reaction = 0.0  # the half flow owed by the step before: two halves in a row are one flow
    for length in steps:
        _react_(u, v, reaction + length / 2)
        left, right = flows[length]
        torch.bmm(parts, u_rows, out=v_rows)
        torch.bmm(v_matrices, right, out=w_matrices)
        v += w
        w_matrices.baddbmm_(left, v_matrices)
        u_rows.baddbmm_(sums, w_rows)
        reaction = length / 2
    return _react_(u, v, reaction)


def _react_(u: Tensor, work: Tensor, time: float) -> Tensor:
    decay = math.exp(-2.0 * time)
    torch.addcmul(u.new_tensor(decay), u, u, value=1.0 - decay, out=work).rsqrt_()
    return u.mul_(work)


# ------------------------------------------------------------------------------------------------- diffusion
#
# Diffusion commutes with mirroring an axis, so it acts on even and odd parts apart: half the arithmetic. Fields are
# kept in quarters (a half of each axis) whose points are mirror images. Sums and differences of quarters round by
# what the images hold, not by what is there, and u near 0 is unstable: only the increment goes through them,
#
#     A_x v A_y - v = B_x (v + v B_y) + v B_y,    B = A - 1,
#
# which leaves smaller rounding errors than the plain product would.


class _Axis(NamedTuple):
    """Eigenvectors and eigenvalues of the second difference, by parity, on half of the points of an even axis."""

    modes: Float[Tensor, "parity point mode"]
    eigenvalues: Float[Tensor, "parity mode"]


_Axes = tuple[_Axis, _Axis]


def _axes(grid: Grid, device: torch.device) -> _Axes:
    x = _axis(grid, 0, device)
    alike = grid.points[0] == grid.points[1] and grid.extent[0] == grid.extent[1]
    return x, x if alike else _axis(grid, 1, device)


def _axis(grid: Grid, axis: int, device: torch.device) -> _Axis:
    n, h = grid.points[axis], grid.spacing[axis]
    phi, _, k = cosine_basis(grid, axis, n)
    eigenvalues = -((2 / h * torch.sin(k * h / 2)) ** 2)
    parities = _parities(n)
    points = n // parities
    modes = torch.stack([phi[:points, parity::parities] for parity in range(parities)]) / math.sqrt(points)
    return _Axis(modes.to(device), eigenvalues.view(-1, parities).T.contiguous().to(device))


def _parities(points: int) -> int:
    """An axis with a point in its middle is left whole."""
    return 2 if points % 2 == 0 else 1


def _fold(u: Tensor) -> Tensor:
    """(batch, x, y) to (batch, half of x, half of y, point, point), the second halves mirrored."""
    u = u[:, None, None]
    for axis in (3, 4):
        if _parities(u.shape[axis]) == 2:
            near, far = u.chunk(2, dim=axis)
            u = torch.cat([near, far.flip(axis)], dim=axis - 2)
    return u.contiguous()


def _unfold(u: Tensor) -> Tensor:
    """The inverse of `_fold`."""
    for axis in (3, 4):
        if u.shape[axis - 2] == 2:
            near, far = u.chunk(2, dim=axis - 2)
            u = torch.cat([near, far.flip(axis)], dim=axis)
    return u[:, 0, 0]


def _butterflies(quarters: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices, the same for each sample, from quarters to their even and odd parts, and back."""
    pair = quarters.new_tensor([[1.0, 1.0], [1.0, -1.0]])
    x, y = (pair[:parities, :parities] for parities in quarters.shape[1:3])
    sums = torch.kron(x, y)
    return (sums / len(sums)).expand(len(quarters), -1, -1), sums.expand(len(quarters), -1, -1)


def _diffusion(gamma: Tensor, axes: _Axes, time: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """`exp(gamma time Laplacian) - 1` along each axis, for each quarter.

    In float64 before the cast: row sums that are off by a rounding would act like a source at every step.
    """
    x = _axis_diffusion(gamma, axes[0], time).to(like)
    y = x if axes[0] is axes[1] else _axis_diffusion(gamma, axes[1], time).to(like)
    left = x[:, :, None].expand(-1, -1, y.shape[1], -1, -1)
    right = y[:, None].expand(-1, x.shape[1], -1, -1, -1)
    return left.flatten(0, 2), right.flatten(0, 2)


def _axis_diffusion(gamma: Tensor, axis: _Axis, time: float) -> Tensor:
    change = torch.expm1(gamma.double()[:, None, None] * time * axis.eigenvalues)
    # Operands are copied into one layout: a matrix product may round differently when one of them is transposed.
    scaled = (axis.modes * change[:, :, None]).contiguous()
    back = axis.modes.mT.contiguous().expand_as(scaled)
    return torch.bmm(scaled.flatten(0, 1), back.flatten(0, 1)).view_as(scaled)


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
