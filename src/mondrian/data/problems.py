"""Problems: partial differential equations with random data, which turn a seed into a simulation."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.restriction import BlockAverage, FourierTruncation, Restriction
from mondrian.data.seeds import uniform
from mondrian.data.solvers import allen_cahn, kuramoto_sivashinsky, navier_stokes
from mondrian.data.solvers.checks import check_steps
from mondrian.data.store import AXES, Simulations
from mondrian.grid import Grid
from mondrian.support.former import former_names
from mondrian.support.spec import Spec

Fields = dict[str, Float[Tensor, "simulation time ..."]]
Scalars = Mapping[str, Float[np.ndarray, " simulation"]]


@dataclass(frozen=True)
class Problem(Spec, ABC):
    """A partial differential equation with random data: `seed -> simulation`, in float32.

    A simulation runs on `grid` and is then restricted to the requested points, because a simulation on a coarse grid
    has another solution; with `native` it runs on each requested grid nevertheless.
    """

    name: ClassVar[str]
    unknown: ClassVar[str]  # the field to solve for
    mean_free: ClassVar[bool] = False  # whether its mean is zero at all times
    chunk: ClassVar[int]  # simulations that are solved together; the values do not depend on it

    grid: Grid
    restriction: Restriction
    native: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.grid.points:
            raise ValueError(f"grid={self.grid} has no points; needed those to simulate on")
        if not self.grid.is_cell_centred:
            raise ValueError(f"grid={self.grid} has points at its ends; needed cell-centred points")

    @property
    def can_continue(self) -> bool:
        """Whether the problem implements `continued`."""
        return type(self).continued is not Problem.continued

    @property
    @abstractmethod
    def times(self) -> Float[np.ndarray, " time"]:
        """The times of the stored frames."""

    @abstractmethod
    def solve(self, seeds: Sequence[int], grid: Grid) -> tuple[Fields, Scalars]:
        """Fields and scalars of simulations on one grid."""

    def continued(
        self, state: Float[Tensor, "simulation ..."], scalars: Scalars, grid: Grid, frames: int
    ) -> Float[Tensor, "simulation frame ..."]:
        """The next `frames` stored frames after a state of the field, on one grid."""
        raise NotImplementedError(f"{self.name} cannot continue from a state")

    @abstractmethod
    def check_grid(self, grid: Grid) -> None:
        """Raise `ValueError` if the equation cannot be solved on `grid`."""

    def check(self, points: tuple[int, ...]) -> None:
        """Raise `ValueError` if simulations cannot be stored at `points`."""
        if self.grid.dim > len(AXES):
            raise ValueError(f"grid={self.grid} has {self.grid.dim} axes; files store at most {len(AXES)}")
        if len(points) != self.grid.dim:
            raise ValueError(f"points={points} have {len(points)} entries; {self.name} needs {self.grid.dim}")
        if min(points) < 1:
            raise ValueError(f"points={points} must be at least 1 along each axis")
        if self.native:
            self.check_grid(self.grid.with_points(points))
            return
        self.check_grid(self.grid)
        if any(n > fine for n, fine in zip(points, self.grid.points, strict=True)):
            raise ValueError(
                f"points={points} are finer than those of the simulation, {self.grid.points}; "
                "needed a finer simulation, or native=true"
            )
        self.restriction.check(self.grid, points)

    def simulate(self, seeds: Sequence[int], points: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Simulations]:
        """Simulations at each of the resolutions; each depends on its seed alone, not on the other seeds."""
        if self.native:
            return {sizes: self._simulations(seeds, self.grid.with_points(sizes)) for sizes in points}
        fields, scalars = self.solve(seeds, self.grid)
        return {
            sizes: Simulations(
                grid=self.grid.with_points(sizes),
                times=self.times,
                fields={name: self._restrict(values, sizes).numpy() for name, values in fields.items()},
                scalars=scalars,
            )
            for sizes in points
        }

    def _simulations(self, seeds: Sequence[int], grid: Grid) -> Simulations:
        fields, scalars = self.solve(seeds, grid)
        arrays = {name: values.numpy() for name, values in fields.items()}
        return Simulations(grid=grid, times=self.times, fields=arrays, scalars=scalars)

    def _restrict(self, values: Float[Tensor, "simulation time ..."], points: tuple[int, ...]) -> Tensor:
        if points == self.grid.points:
            return values
        coarse = self.restriction(values.flatten(0, 1), points)
        return coarse.unflatten(0, values.shape[:2])


@dataclass(frozen=True)
class AllenCahn(Problem):
    r"""Allen-Cahn, $u_t = \gamma \Delta u - (u^3 - u)$ with zero flux, from clipped random fields to $t = 6$.

    In any dimension; files store up to three. Stored are `u` at $t = 0$ and at the end, and the number `gamma`, drawn
    uniformly from the interval `gamma` by the seed of the simulation.
    """

    name: ClassVar[str] = "allen_cahn"
    unknown: ClassVar[str] = "u"
    chunk: ClassVar[int] = 16

    grid: Grid = field(default_factory=lambda: Grid(extent=(2.0, 2.0), points=(128, 128)))
    restriction: Restriction = BlockAverage()
    native: bool = False
    gamma: tuple[float, float] = (1e-4, 5e-3)
    time: float = 6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.gamma) != 2 or not 0 < self.gamma[0] <= self.gamma[1] < math.inf:
            raise ValueError(f"gamma={self.gamma} must be two positive numbers, the lower one first")
        if not 0 < self.time < math.inf:
            raise ValueError(f"time={self.time} must be positive and finite")

    @property
    def times(self) -> Float[np.ndarray, " time"]:
        return np.array([0.0, self.time])

    def solve(self, seeds: Sequence[int], grid: Grid) -> tuple[Fields, Scalars]:
        low, high = self.gamma
        # the solver uses the float32 number that is stored
        gamma = np.array([low + (high - low) * uniform(seed, "gamma") for seed in seeds], dtype=np.float32)
        start = allen_cahn.initial_condition(seeds, grid, dtype=torch.float32, device="cpu")
        end = self.continued(start, {"gamma": gamma}, grid, 1)
        return {"u": torch.cat([start[:, None], end], dim=1)}, {"gamma": gamma}

    def continued(
        self, state: Float[Tensor, "simulation ..."], scalars: Scalars, grid: Grid, frames: int
    ) -> Float[Tensor, "simulation frame ..."]:
        if frames < 1:
            raise ValueError(f"frames={frames} must be at least 1")
        states = [state]
        for _ in range(frames):
            states.append(allen_cahn.solve(states[-1], torch.from_numpy(scalars["gamma"]), grid, time=self.time))
        return torch.stack(states[1:], dim=1)

    def check_grid(self, grid: Grid) -> None:
        allen_cahn.check_grid(grid)


@dataclass(frozen=True)
class Evolution(Problem):
    """A problem in time: `steps` steps of length `dt`, of which `frames` are stored at equal intervals."""

    dt: float
    steps: int
    frames: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_steps(self.dt, self.steps, self.frames)

    @property
    def times(self) -> Float[np.ndarray, " time"]:
        return np.arange(1, self.frames + 1) * (self.dt * self.steps / self.frames)

    @property
    def frame_steps(self) -> int:
        """Steps from one stored frame to the next."""
        return self.steps // self.frames


@dataclass(frozen=True)
class NavierStokes(Evolution):
    r"""Decaying turbulence, $\omega_t + u \cdot \nabla \omega = \nu \Delta \omega$ on a periodic box.

    Stored is `vorticity` at `frames` times, every `steps / frames` steps.
    """

    name: ClassVar[str] = "navier_stokes"
    unknown: ClassVar[str] = "vorticity"
    mean_free: ClassVar[bool] = True
    chunk: ClassVar[int] = 4

    grid: Grid = field(
        default_factory=lambda: Grid(extent=(math.tau, math.tau), points=(128, 128), periodic=(True, True))
    )
    restriction: Restriction = FourierTruncation()
    native: bool = False
    viscosity: float = 1e-3
    dt: float = 0.004
    steps: int = 2500
    frames: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.viscosity < math.inf:
            raise ValueError(f"viscosity={self.viscosity} must be at least 0 and finite")

    def solve(self, seeds: Sequence[int], grid: Grid) -> tuple[Fields, Scalars]:
        start = navier_stokes.initial_vorticity(seeds, grid, dtype=torch.float32, device="cpu")
        return {"vorticity": self.continued(start, {}, grid, self.frames)}, {}

    def continued(
        self, state: Float[Tensor, "simulation ..."], scalars: Scalars, grid: Grid, frames: int
    ) -> Float[Tensor, "simulation frame ..."]:
        steps = frames * self.frame_steps
        return navier_stokes.solve(state, grid, viscosity=self.viscosity, dt=self.dt, steps=steps, frames=frames)

    def check_grid(self, grid: Grid) -> None:
        navier_stokes.check_grid(grid)


@dataclass(frozen=True)
class KuramotoSivashinsky(Evolution):
    r"""Kuramoto-Sivashinsky, $u_t + u u_x + u_{xx} + u_{xxxx} = 0$ on a ring: chaos in one dimension.

    Stored is `u` at `frames` times, every `steps / frames` steps, after `spin_up` steps in which the solution reaches
    the attractor and forgets its random initial data. The solver uses float64, because errors grow.
    """

    name: ClassVar[str] = "kuramoto_sivashinsky"
    unknown: ClassVar[str] = "u"
    mean_free: ClassVar[bool] = True
    chunk: ClassVar[int] = 32

    grid: Grid = field(default_factory=lambda: Grid(extent=(64.0,), points=(256,), periodic=(True,)))
    restriction: Restriction = FourierTruncation()
    native: bool = False
    dt: float = 0.05
    steps: int = 1280
    frames: int = 64
    spin_up: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spin_up < 0:
            raise ValueError(f"spin_up={self.spin_up} must be at least 0")

    def solve(self, seeds: Sequence[int], grid: Grid) -> tuple[Fields, Scalars]:
        u = kuramoto_sivashinsky.initial_condition(seeds, grid, dtype=torch.float64, device="cpu")
        if self.spin_up:
            u = kuramoto_sivashinsky.solve(u, grid, dt=self.dt, steps=self.spin_up, frames=1)[:, 0]
        return {"u": self.continued(u, {}, grid, self.frames)}, {}

    def continued(
        self, state: Float[Tensor, "simulation ..."], scalars: Scalars, grid: Grid, frames: int
    ) -> Float[Tensor, "simulation frame ..."]:
        steps = frames * self.frame_steps
        return kuramoto_sivashinsky.solve(state.double(), grid, dt=self.dt, steps=steps, frames=frames).float()

    def check_grid(self, grid: Grid) -> None:
        kuramoto_sivashinsky.check_grid(grid)


__getattr__ = former_names(__name__)
