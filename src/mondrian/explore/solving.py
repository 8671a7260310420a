"""The truth for inputs that nobody has stored: the equation solved from a state that was painted on."""

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
        self.first_step = min(steps)  # of those that a model is given: 0, or before it

    @property
    def grid(self) -> Grid:
        return self.dataset.grid

    def frames(
        self, state: Float[Tensor, "*space"], simulation: int, question: Question
    ) -> dict[str, Float[Tensor, "*space"]]:
        """The state with its strokes on, and what it becomes, by the names of the channels."""
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
        """Frames at other points: as the data was brought there where it is `stored` there, otherwise by means."""
        if points == self.grid.points:
            return dict(frames)
        if not stored:
            return at_points(frames, self.grid, self.grid.with_points(points))
        moved = self.problem.restriction(torch.stack(list(frames.values())), points)
        return dict(zip(frames, moved, strict=True))

    def _scalars(self, simulation: int) -> dict[str, float]:
        """The numbers of a simulation, whether a model is given them or not."""
        source = self.dataset.source
        return {
            channel: float(value)
            for field in source.fields.values()
            if field.is_number
            for channel, value in zip(field.channels, field.numbers()[simulation].flatten(), strict=True)
        }


def allowed(problem: Any, field: str, change: Float[Tensor, "*space"]) -> Float[Tensor, "*space"]:
    """A change of a field that its problem, if it is known, allows: without a mean, where the field has none."""
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
    """A solver for inputs of a data set's kind, or why there is none."""
    if not isinstance(problem, Problem):
        return "the data is not of `mondrian generate`, so that nobody knows its equation"
    if not problem.can_continue:
        return f"{problem.name} does not say how it goes on from a state"
    source, window = dataset.source, dataset.window
    fields = [name for name in window.input if not source.field(name).is_number]
    if fields != [problem.unknown] or window.target != (problem.unknown,):
        return f"the model does not go from {problem.unknown} to {problem.unknown}"
    if problem.native or dataset.grid.points != problem.grid.points:
        return f"this part of the data is not stored at the {problem.grid.points} points that were solved at"
    return Solver(problem, dataset)
