"""Samples a second and memory of several models at several resolutions, measured in turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from mondrian.artefact import OperatorModel
from mondrian.benchmark.measure import flops, interleaved, peak_memory
from mondrian.grid import Grid
from mondrian.prediction.files import load_model
from mondrian.settings.recipes import build, recipe_names
from mondrian.surrogate import ScaledModel
from mondrian.training.timed_steps import finish, prediction, training_step

TASKS = PREDICTION, TRAINING = "prediction", "training"
POINTS = {1: 256, 2: 64, 3: 16}  # of an axis where none are named, by the number of dimensions


@dataclass(frozen=True)
class Candidate:
    """A model by its name: a recipe, with settings, or the folder of a run or an artefact."""

    name: str
    overrides: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.name, *self.overrides])

    def build(self) -> OperatorModel:
        """The model, of a run without its scales; `ValueError` for models of functions on meshes."""
        if self.name in recipe_names():
            model = build(self.name, *self.overrides)
        elif not Path(self.name).exists():
            raise ValueError(f"{self.name} is no recipe of `mondrian models`, and no folder of a run or a model")
        elif self.overrides:
            raise ValueError(f"{' '.join(self.overrides)} is for recipes; {self.name} is a model as it is")
        else:
            model = load_model(self.name)
        if isinstance(model, ScaledModel):
            assert isinstance(model.model, OperatorModel)
            model = model.model
        if not hasattr(model.spec, "default_grid"):
            raise ValueError(f"{self.name} is a model of functions on meshes; needed one of fields on grids")
        return model


@dataclass(frozen=True)
class Speed:
    """The speed and memory of one model at one resolution.

    Bytes are those that the first step needs besides the model and its input: cached kernels, and in training gradients
    and the optimiser's state, are among them. Operations are those of matrix products in predictions.
    """

    name: str
    parameters: int
    points: tuple[int, ...]
    predictions_per_second: float
    trained_per_second: float
    prediction_bytes: float
    training_bytes: float
    operations_per_second: float


class Trial:
    """A model at one resolution: a prediction and a training step, each by its own copy, ready to be timed.

    One copy would not do for both: a prediction after a training step has to compute its kernels again.
    """

    def __init__(self, candidate: Candidate, points: int | None, batch_size: int, device: torch.device) -> None:
        self.candidate, self.batch_size, self.device = candidate, batch_size, device
        model = candidate.build()
        spec: Any = model.spec
        box: Grid = spec.default_grid
        self.asked = points
        self.points = (points or POINTS[box.dim],) * box.dim
        self.parameters = sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters())
        dtype = next(p.dtype for p in model.parameters() if p.is_floating_point())
        grid = box.with_points(self.points)
        x, y = (
            torch.randn(batch_size, channels, *self.points, device=device, dtype=dtype)
            for channels in (spec.in_channels, spec.out_channels)
        )
        learner = candidate.build().to(device).train()
        self.timed_steps = {
            PREDICTION: prediction(model.to(device).eval(), x, grid),
            TRAINING: training_step(learner, x, y, grid),
        }

    def try_out(self) -> None:
        """Run both steps once; `ValueError` if the model refuses the resolution, or if memory does not suffice."""
        try:
            for run in self.timed_steps.values():
                run()
        except torch.OutOfMemoryError as error:
            torch.cuda.empty_cache()
            raise ValueError(f"out of memory: {str(error).splitlines()[0]}") from error

    def memory(self, task: str) -> float:
        """The peak of the bytes that the first step needs besides the model and its input."""
        if self.device.type != "cuda":
            return peak_memory(_first_step, self.candidate, self.asked, self.batch_size, task)
        run = Trial(self.candidate, self.asked, self.batch_size, self.device).timed_steps[task]
        finish(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        run()
        return float(torch.cuda.max_memory_allocated(self.device) - before)

    def speed(self, seconds: Mapping[str, float], memory: Mapping[str, float]) -> Speed:
        """The results of both tasks."""
        return Speed(
            str(self.candidate),
            self.parameters,
            self.points,
            predictions_per_second=self.batch_size / seconds[PREDICTION],
            trained_per_second=self.batch_size / seconds[TRAINING],
            prediction_bytes=memory[PREDICTION],
            training_bytes=memory[TRAINING],
            operations_per_second=flops(self.timed_steps[PREDICTION]) / seconds[PREDICTION],
        )


def measure_speeds(
    candidates: Sequence[Candidate],
    points: Sequence[int | None] = (None,),
    *,
    batch_size: int = 8,
    device: torch.device | None = None,
    memory: bool = True,
    rounds: int = 5,
    progress: bool = False,
) -> tuple[list[Speed], dict[str, str]]:
    """Measure all models at each number of points per axis; models that refuse a resolution are listed with the reason.

    None stands for the points of `POINTS`. In each round every model makes a prediction and a training step, one after
    the other, and the best round counts. On a CPU memory is measured in separate processes.
    """
    device = device or torch.device("cpu")
    speeds: list[Speed] = []
    refused: dict[str, str] = {}
    for candidate in candidates:
        candidate.build()  # errors come before any measurement
    total = len(points) * (1 + memory * len(TASKS) * len(candidates))
    bar = tqdm(total=total, desc="benchmark", disable=None if progress else True)
    for size in points:
        trials = _possible(candidates, size, batch_size, device, refused)
        runs = {(trial, task): trial.timed_steps[task] for trial in trials for task in TASKS}
        clock = time.perf_counter if device.type == "cuda" else None
        seconds = interleaved(runs, rounds=rounds, seconds=30.0, patience=10.0, clock=clock) if runs else {}
        bar.update()
        for trial in trials:
            peak = dict.fromkeys(TASKS, math.nan)
            for task in TASKS if memory else ():
                peak[task] = trial.memory(task)
                bar.update()
            speeds.append(trial.speed({task: seconds[trial, task] for task in TASKS}, peak))
    bar.close()
    return speeds, refused


def _possible(
    candidates: Sequence[Candidate],
    points: int | None,
    batch_size: int,
    device: torch.device,
    refused: dict[str, str],
) -> list[Trial]:
    """The trials that fit; the reasons of the others are added to `refused`."""
    trials = []
    for candidate in candidates:
        trial = Trial(candidate, points, batch_size, device)
        try:
            trial.try_out()
            trials.append(trial)
        except ValueError as error:
            refused[f"{candidate} at {'x'.join(map(str, trial.points))}"] = str(error)
    return trials


def _first_step(candidate: Candidate, points: int | None, batch_size: int, task: str) -> Callable[[], None]:
    """For a separate process."""
    return Trial(candidate, points, batch_size, torch.device("cpu")).timed_steps[task]
