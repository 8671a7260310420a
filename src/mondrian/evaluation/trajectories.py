"""Errors of rollouts: what a surrogate predicts is what it is given next, from the first frames of each simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.datasets import WindowDataset
from mondrian.evaluation.batches import batches, placed
from mondrian.evaluation.entries import Trajectories
from mondrian.evaluation.means import Means, mean_of_defined
from mondrian.evaluation.one_step import Settings
from mondrian.evaluation.spread import Spread
from mondrian.evaluation.statistics import summary
from mondrian.evaluation.tables import size
from mondrian.grid import Grid
from mondrian.metrics import correlation, correlation_time, mean_absolute_error, relative_l2_error
from mondrian.rollout import Advance, field_and_step, predictions
from mondrian.surrogate import Surrogate

THRESHOLD = 0.8  # of the correlation time


class Rollout:
    """A rollout of `frames` frames and its truth, in the simulations of `dataset` from their first frames on."""

    def __init__(self, surrogate: Surrogate, dataset: WindowDataset, frames: int) -> None:
        self.surrogate = surrogate
        self.frames = frames
        window = replace(dataset.window, steps_out=frames)
        self.dataset = WindowDataset(dataset.source, window, simulations=dataset.simulations, memory=0)
        self.first = [index for index in range(len(self.dataset)) if self.dataset.locate(index)[1] == 0]
        given = _given(surrogate)
        self.start = float(dataset.source.times[given - 1])
        self.times = tuple(float(time) for time in dataset.source.times[given : given + frames])

    @staticmethod
    def possible(surrogate: Surrogate, dataset: WindowDataset, horizon: int) -> Rollout | None:
        """The rollout over `horizon` frames, or as many as every simulation has; `None` if that is one application."""
        try:
            advance = Advance(surrogate.spec.in_names, surrogate.spec.out_names)
        except ValueError:  # what is predicted is not what is given
            return None
        given = _given(surrogate)
        shortest = min(dataset.source.steps[simulation] for simulation in dataset.simulations)
        frames = min(horizon, min(shortest, len(dataset.source.times)) - given)  # times are those of the first one
        return Rollout(surrogate, dataset, frames) if given and frames > advance.steps else None

    def predicted(
        self, x: Float[Tensor, "batch channel *space"], grid: Grid
    ) -> Iterator[Float[Tensor, "batch field *space"]]:
        """Frame after frame, what stays constant in time left out."""
        spec = self.surrogate.spec
        advance, changing = Advance(spec.in_names, spec.out_names), _changing(spec.out_names)
        applications = math.ceil(self.frames / advance.steps)
        answers = predictions(lambda u: self.surrogate(u, grid), advance, placed(self.surrogate, x), applications)
        frames = (frame for y in answers for frame in y[:, changing].unflatten(1, (advance.steps, -1)).unbind(1))
        return islice(frames, self.frames)

    def truth(self, y: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch time field *space"]:
        """The targets of a window by frames, what stays constant in time left out."""
        return y[:, _changing(self.dataset.out_channels)].unflatten(1, (self.frames, -1))


def trajectories(rollout: Rollout, settings: Settings) -> Trajectories:
    """Errors against time; memory for one batch of true trajectories and one predicted frame."""
    dataset, grid = rollout.dataset, rollout.dataset.grid
    means = Means(dataset.simulations)
    spread = Spread(means, grid, settings.edges)
    label = f"{size(grid.points)} rollout"
    diverged = 0
    for batch in batches(dataset, rollout.first, settings.batch_size, label=label, progress=settings.progress):
        simulation, truth = batch["simulation"], rollout.truth(batch["y"])
        lost = torch.zeros(len(simulation), dtype=torch.bool)
        for number, frame in enumerate(rollout.predicted(batch["x"], batch["grid"])):
            lost = lost.to(frame.device) | ~frame.flatten(1).isfinite().all(dim=1)
            # A model may answer infinity with something finite: what is lost stays lost.
            frame = torch.where(lost.reshape(-1, *(1,) * (frame.ndim - 1)), math.nan, frame)
            true = truth[:, number].to(frame.device)
            means.add(f"mae {number}", simulation, mean_absolute_error(frame, true))
            means.add(f"relative_l2 {number}", simulation, relative_l2_error(frame, true))
            means.add(f"correlation {number}", simulation, _correlations(frame, true))
        diverged += int(lost.sum())
        spread.add(simulation, frame, true)
    columns = {
        name: np.stack([means.of(f"{name} {number}") for number in range(rollout.frames)], axis=1)
        for name in ("mae", "relative_l2", "correlation")
    }
    return Trajectories(
        points=grid.points,
        simulations=len(rollout.first),
        horizon=rollout.frames,
        start=rollout.start,
        times=rollout.times,
        diverged=diverged,
        mae=tuple(summary(column) for column in columns["mae"].T),
        relative_l2=tuple(summary(column) for column in columns["relative_l2"].T),
        correlation=tuple(summary(column) for column in columns["correlation"].T),
        mean_relative_l2=summary(mean_of_defined(columns["relative_l2"], axis=1)),
        correlation_time=summary(_correlation_times(columns["correlation"], rollout)),
        spectrum=spread.spectrum(),
        bands=spread.bands(),
    )


def _correlations(
    frame: Float[Tensor, "batch field *space"], true: Float[Tensor, "batch field *space"]
) -> Float[Tensor, "batch field"]:
    """Of each field by itself: fields of different offsets would correlate by those alone."""
    each = correlation(frame.flatten(0, 1)[:, None], true.flatten(0, 1)[:, None])
    return each.unflatten(0, frame.shape[:2])


def _correlation_times(
    correlations: Float[np.ndarray, "simulation time"], rollout: Rollout
) -> Float[Tensor, " simulation"]:
    """When the correlation, which is 1 at the last given frame, falls below the threshold."""
    values = torch.from_numpy(np.insert(correlations, 0, 1.0, axis=1))
    times = torch.tensor((rollout.start, *rollout.times), dtype=torch.float64)
    return correlation_time(values, times, THRESHOLD)


def _changing(names: Sequence[str]) -> list[int]:
    return [place for place, name in enumerate(names) if field_and_step(name)[1] is not None]


def _given(surrogate: Surrogate) -> int:
    """How many frames an application is given."""
    steps = {step for _, step in map(field_and_step, surrogate.spec.in_names)}
    return len(steps - {None})
