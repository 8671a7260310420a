"""Rollouts and their truth: each prediction becomes the next input, from the first frames of each simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from jaxtyping import Float
from torch import Tensor

from mondrian.data.datasets import WindowDataset
from mondrian.grid import Grid
from mondrian.rollout import Advance, field_and_step, predictions
from mondrian.surrogate import Surrogate


class Rollout:
    """A rollout over `frames` frames from the first frames of each simulation of `dataset`, with its truth."""

    def __init__(self, surrogate: Surrogate, dataset: WindowDataset, frames: int) -> None:
        self.surrogate = surrogate
        self.frames = frames
        window = replace(dataset.window, steps_out=frames)
        self.dataset = WindowDataset(dataset.source, window, simulations=dataset.simulations, memory=0)
        self.first = [index for index in range(len(self.dataset)) if self.dataset.locate(index)[1] == 0]
        frames_in = _frames_in(surrogate)
        self.start = float(dataset.source.times[frames_in - 1])
        self.times = tuple(float(time) for time in dataset.source.times[frames_in : frames_in + frames])

    @staticmethod
    def possible(surrogate: Surrogate, dataset: WindowDataset, horizon: int) -> Rollout | None:
        """The rollout over `horizon` frames, or as many as all simulations have; `None` if that is one application."""
        try:
            advance = Advance(surrogate.spec.in_names, surrogate.spec.out_names)
        except ValueError:  # the prediction is no input
            return None
        frames_in = _frames_in(surrogate)
        shortest = min(dataset.source.steps[simulation] for simulation in dataset.simulations)
        frames = min(horizon, min(shortest, len(dataset.source.times)) - frames_in)  # times are those of the first one
        return Rollout(surrogate, dataset, frames) if frames_in and frames > advance.steps else None

    def predicted(
        self, x: Float[Tensor, "batch channel *space"], grid: Grid
    ) -> Iterator[Float[Tensor, "batch field *space"]]:
        """The frames one by one, without channels that are constant in time."""
        spec = self.surrogate.spec
        advance, changing = Advance(spec.in_names, spec.out_names), _changing(spec.out_names)
        applications = math.ceil(self.frames / advance.steps)
        outputs = predictions(lambda u: self.surrogate(u, grid), advance, self.surrogate.placed(x), applications)
        frames = (frame for y in outputs for frame in y[:, changing].unflatten(1, (advance.steps, -1)).unbind(1))
        return islice(frames, self.frames)

    def truth(self, y: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch time field *space"]:
        """The targets of a window by frame, without channels that are constant in time."""
        return y[:, _changing(self.dataset.out_channels)].unflatten(1, (self.frames, -1))


def _changing(names: Sequence[str]) -> list[int]:
    """The channels that change in time."""
    return [channel for channel, name in enumerate(names) if field_and_step(name)[1] is not None]


def _frames_in(surrogate: Surrogate) -> int:
    """The number of frames in the input."""
    steps = {step for _, step in map(field_and_step, surrogate.spec.in_names)}
    return len(steps - {None})
