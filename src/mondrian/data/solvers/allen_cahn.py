r"""Allen-Cahn on a box with zero flux through its walls.

$$u_t = \gamma \Delta u - (u^3 - u), \qquad \partial_n u = 0$$

In any number of dimensions. Space: second differences on cell-centred points, second order. Time: Strang splitting
into two flows with exact solutions, with shorter steps at the beginning and the end, and extrapolation in the square of
the step:

$$R_t(u) = \frac{u}{\sqrt{u^2 + (1 - u^2) e^{-2t}}}, \qquad D_t = e^{\gamma t \Delta_h}, \qquad
S_t = R_{t/2} D_t R_{t/2}.$$
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.bases import samples_at_once
from mondrian.data.random_fields import gaussian_random_field
from mondrian.data.solvers.checks import check_chunk, check_fields
from mondrian.data.solvers.diffusion import Diffusion, diffusion_of
from mondrian.grid import Grid
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Schedule(Spec):
    """The time steps of a solution: `steps[l]` steps of length `2**l` (in a common unit) for each level `l`, in order.

    Then follow `last[l]` steps of each level, from the longest to the shortest. For each `r` in `extrapolation` the
    solution is repeated with every step divided into `r` equal ones; with `m` such numbers the order in time is `2 m`.

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
        """The number of all Strang steps."""
        return (sum(self.steps) + sum(self.last)) * sum(self.extrapolation)

    def levels(self, time: float) -> tuple[tuple[float, int], ...]:
        """The length and number of the steps of each level."""
        levels = [*enumerate(self.steps), *reversed([*enumerate(self.last)])]
        unit = time / sum(count * 2**level for level, count in levels)
        return tuple((unit * 2**level, count) for level, count in levels if count)

    def weights(self) -> tuple[float, ...]:
        r"""Weights of the extrapolation to step length zero, $w_r = \prod_{s \ne r} r^2 / (r^2 - s^2)$."""
        rs = self.extrapolation
        return tuple(math.prod((r * r / (r * r - s * s) for s in rs if s != r), start=1.0) for r in rs)


# Short steps come first, because clipped data are not smooth, and last: most of the error of a splitting comes from the
# latest steps and decays within a time of order one. The comments give the largest and the mean difference from the
# solution that is exact in time, at 128^2 and t = 6 over the paper's range of gamma, for seeds that were not used to
# choose the numbers (96 in float32, 32 in float64).
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
    """The initial data of the paper: a random field with spectrum k^-3, clipped to [-bound, bound].

    In d dimensions the spectrum is k^-(d + 1), so that the energy per wavenumber falls like k^-2 in any dimension.

    >>> u = initial_condition([0, 1], Grid(extent=(2.0, 2.0), points=(16, 16)))
    >>> u.shape, u.abs().max().item()
    (torch.Size([2, 16, 16]), 0.5)
    """
    power = grid.dim + 1.0
    field = gaussian_random_field(seeds, grid, power=power, modes=modes, dtype=dtype, device=device)
    return field.clamp_(-bound, bound)


def solve(
    u0: Float[Tensor, "batch *space"],
    gamma: Float[Tensor, " batch"],
    grid: Grid,
    *,
    time: float = 6.0,
    schedule: Schedule | None = None,
    chunk: int | None = None,
) -> Float[Tensor, "batch *space"]:
    """The solution at `time`.

    The default `schedule` is `SINGLE` or `DOUBLE`, by the type of `u0`. `chunk` samples are solved at a time, by
    default as many as fit the cache of a CPU core. On one thread the result of a sample depends neither on `chunk` nor
    on the other samples, to the last bit.

    >>> grid = Grid(extent=(2.0, 2.0), points=(16, 16))
    >>> u = solve(initial_condition([0], grid), torch.tensor([1e-3]), grid)
    >>> bool((u.abs() <= 1).all())
    True
    """
    _check(u0, gamma, grid, time, chunk)
    if schedule is None:
        schedule = DOUBLE if u0.dtype == torch.float64 else SINGLE
    lines = {(n, n) for n in grid.points}
    chunk = samples_at_once(chunk or _chunk(u0), u0, grid.points, *lines)
    parts = zip(u0.split(chunk), gamma.split(chunk), strict=True)
    return torch.cat([_solve_chunk(u, diffusion_of(g, grid, u), time, schedule) for u, g in parts])


def energy(u: Float[Tensor, "batch *space"], gamma: Float[Tensor, " batch"], grid: Grid) -> Float[Tensor, " batch"]:
    r"""The energy, which decreases along solutions, $\int \frac\gamma2 |\nabla u|^2 + \frac14 (1 - u^2)^2 \, dx$."""
    slopes = [(u.diff(dim=1 + axis) / h).square().flatten(1).sum(dim=1) for axis, h in enumerate(grid.spacing)]
    wells = ((1 - u.square()).square() / 4).flatten(1).sum(dim=1)
    return math.prod(grid.spacing) * (gamma / 2 * torch.stack(slopes).sum(dim=0) + wells)


def _chunk(u0: Tensor) -> int:
    if u0.device.type != "cpu":
        return len(u0)
    return min(8, max(1, 8 * 128**2 // math.prod(u0.shape[1:])))


def _solve_chunk(u0: Tensor, diffusion: Diffusion, time: float, schedule: Schedule) -> Tensor:
    # each flow keeps |u| <= max(1, |u0|); only extrapolation may exceed it, by no more than its error
    bound = u0.abs().amax(dim=tuple(range(1, u0.ndim)), keepdim=True).clamp(min=1.0)
    total = torch.zeros_like(diffusion.u)
    for refinement, weight in zip(schedule.extrapolation, schedule.weights(), strict=True):
        diffusion.load_(u0)
        _strang_(diffusion, _lengths(schedule, time, refinement))
        total.add_(diffusion.u, alpha=weight)
    return diffusion.field(total).clamp_(-bound, bound)


def _lengths(schedule: Schedule, time: float, refinement: int) -> Iterator[float]:
    for length, count in schedule.levels(time):
        yield from [length / refinement] * (count * refinement)


def _strang_(diffusion: Diffusion, steps: Iterator[float]) -> None:
    reaction = 0.0  # the second half flow of the previous step, merged with the first one of this step
    for length in steps:
        _react_(diffusion.u, diffusion.work, reaction + length / 2)
        diffusion.advance_(length)
        reaction = length / 2
    _react_(diffusion.u, diffusion.work, reaction)


def _react_(u: Tensor, work: Tensor, time: float) -> None:
    decay = math.exp(-2.0 * time)
    torch.addcmul(u.new_full((), decay), u, u, value=1.0 - decay, out=work).rsqrt_()
    u.mul_(work)


def check_grid(grid: Grid) -> None:
    """Raise `ValueError` for a grid on which the equation cannot be solved."""
    if any(grid.periodic):
        raise ValueError(f"grid={grid} must have no periodic axes")


def _check(u0: Tensor, gamma: Tensor, grid: Grid, time: float, chunk: int | None) -> None:
    check_grid(grid)
    check_fields("u0", u0, grid)
    check_chunk(chunk)
    if gamma.shape != u0.shape[:1]:
        raise ValueError(f"gamma has shape {tuple(gamma.shape)}; needed one value for each of {len(u0)} samples")
    if not bool((gamma >= 0).all() and gamma.isfinite().all()):
        raise ValueError(f"gamma={gamma.tolist()} must be finite and at least 0")
    if not (math.isfinite(time) and time > 0):
        raise ValueError(f"time={time} must be positive and finite")
