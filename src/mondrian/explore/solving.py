"""The truth for changed inputs: the equation solved from a painted state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.datasets import WindowDataset
from mondrian.data.problems import Problem
from mondrian.explore.question import Question
from mondrian.grid import Grid
from mondrian.resampling import resample
from mondrian.rollout import field_and_step


class Solver:
    """Continues states of a problem on its own grid. `dataset` holds its simulations at those points."""

    def __init__(self, problem: Problem, dataset: WindowDataset) -> None:
        self.problem, self.dataset = problem, dataset
        steps = (step for _, step in map(field_and_step, dataset.in_channels) if step is not None)
        self.first_step = min(steps)  # of the input: 0 or earlier

    @property
    def grid(self) -> Grid:
        return self.dataset.grid

    def frames(
        self, state: Float[Tensor, "*space"], simulation: int, question: Question
    ) -> dict[str, Float[Tensor, "*space"]]:
        """The state with its strokes on and the frames that follow, by the names of the channels."""
        for stroke in question.strokes:
            state = state + allowed(self.problem, stroke.field, stroke.on(self.grid))
        scalars = self._scalars(simulation) | dict(question.numbers)
        count = self.dataset.window.steps_out * question.applications - self.first_step
        values = {name: np.array([value], dtype=np.float32) for name, value in scalars.items()}
        later = self.problem.continued(state[None], values, self.grid, count)[0]
        every = [state, *later]
        return {f"{self.problem.unknown}[{self.first_step + n}]": frame for n, frame in enumerate(every)}

    def at(
        self, frames: Mapping[str, Float[Tensor, "*space"]], points: tuple[int, ...], *, stored: bool
    ) -> dict[str, Float[Tensor, "*points"]]:
        """Frames at other points: restricted like the data if these points are `stored`, otherwise resampled."""
        if points == self.grid.points:
            return dict(frames)
        if not stored:
            return at_points(frames, self.grid, self.grid.with_points(points))
        moved = self.problem.restriction(torch.stack(list(frames.values())), points)
        return dict(zip(frames, moved, strict=True))

    def _scalars(self, simulation: int) -> dict[str, float]:
        """All numbers of a simulation, including those that are no input."""
        source = self.dataset.source
        return {
            channel: float(value)
            for field in source.fields.values()
            if field.is_number
            for channel, value in zip(field.channels, field.numbers()[simulation].flatten(), strict=True)
        }


def allowed(problem: Any, field: str, change: Float[Tensor, "*space"]) -> Float[Tensor, "*space"]:
    """A change of a field that its problem allows: without its mean if the field has mean zero."""
    mean_free = isinstance(problem, Problem) and problem.mean_free and field == problem.unknown
    return change - change.mean() if mean_free else change


def at_points(
    channels: Mapping[str, Float[Tensor, "*space"]], source: Grid, target: Grid
) -> dict[str, Float[Tensor, "*points"]]:
    """Channels at the points of another grid."""
    if not channels:
        return {}
    moved = resample(torch.stack(list(channels.values()))[None], source, target)[0]
    return dict(zip(channels, moved, strict=True))


def solver_of(problem: Any, dataset: WindowDataset) -> Solver | str:
    """A solver for the inputs of a data set, or the reason why there is none."""
    if not isinstance(problem, Problem):
        return "the data is not of `mondrian generate`, so its equation is unknown"
    if not problem.can_continue:
        return f"{problem.name} has no solver that continues from a state"
    source, window = dataset.source, dataset.window
    fields = [name for name in window.input if not source.field(name).is_number]
    if fields != [problem.unknown] or window.target != (problem.unknown,):
        return f"the model does not map {problem.unknown} to {problem.unknown}"
    if problem.native or dataset.grid.points != problem.grid.points:
        return f"this split is not stored at the {problem.grid.points} points of the solver"
    return Solver(problem, dataset)
