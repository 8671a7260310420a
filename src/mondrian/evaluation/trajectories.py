"""Errors of rollouts against time."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.evaluation.batches import batches
from mondrian.evaluation.entries import Trajectories
from mondrian.evaluation.means import Means, mean_of_defined
from mondrian.evaluation.one_step import EvaluationSettings
from mondrian.evaluation.rollouts import Rollout
from mondrian.evaluation.running_spectra import RunningSpectra
from mondrian.evaluation.statistics import summary
from mondrian.evaluation.tables import size
from mondrian.metrics import correlation, correlation_time, mean_absolute_error, relative_l2_error

THRESHOLD = 0.8  # of the correlation time


def trajectories(rollout: Rollout, settings: EvaluationSettings) -> Trajectories:
    """Errors of each frame; one batch of true trajectories and one predicted frame are in memory at a time."""
    dataset, grid = rollout.dataset, rollout.dataset.grid
    means = Means(dataset.simulations)
    spectra = RunningSpectra(means, grid, settings.edges)
    label = f"{size(grid.points)} rollout"
    diverged = 0
    for batch in batches(dataset, rollout.first, settings.batch_size, label=label, progress=settings.progress):
        simulation, truth = batch["simulation"], rollout.truth(batch["y"])
        blown_up = torch.zeros(len(simulation), dtype=torch.bool)
        for number, frame in enumerate(rollout.predicted(batch["x"], batch["grid"])):
            blown_up = blown_up.to(frame.device) | ~frame.flatten(1).isfinite().all(dim=1)
            # A model may map an infinite frame to a finite one, but a diverged simulation stays diverged.
            frame = torch.where(blown_up.reshape(-1, *(1,) * (frame.ndim - 1)), math.nan, frame)
            true = truth[:, number].to(frame.device)
            means.add(f"mae {number}", simulation, mean_absolute_error(frame, true))
            means.add(f"relative_l2 {number}", simulation, relative_l2_error(frame, true))
            means.add(f"correlation {number}", simulation, _correlations(frame, true))
        diverged += int(blown_up.sum())
        spectra.add(simulation, frame, true)
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
        spectrum=spectra.spectrum(),
        bands=spectra.bands(),
    )


def _correlations(
    frame: Float[Tensor, "batch field *space"], true: Float[Tensor, "batch field *space"]
) -> Float[Tensor, "batch field"]:
    """The correlation of each field by itself: fields with different offsets would correlate by these alone."""
    each = correlation(frame.flatten(0, 1)[:, None], true.flatten(0, 1)[:, None])
    return each.unflatten(0, frame.shape[:2])


def _correlation_times(
    correlations: Float[np.ndarray, "simulation time"], rollout: Rollout
) -> Float[Tensor, " simulation"]:
    """The time at which the correlation, 1 at the last input frame, falls below the threshold."""
    values = torch.from_numpy(np.insert(correlations, 0, 1.0, axis=1))
    times = torch.tensor((rollout.start, *rollout.times), dtype=torch.float64)
    return correlation_time(values, times, THRESHOLD)
