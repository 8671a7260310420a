"""Samples a second and memory of several models at several resolutions, measured in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from mondrian.artefact import OperatorModel
from mondrian.benchmark.measure import flops, interleaved, peak_memory
from mondrian.benchmark.passes import finish, prediction, training_step
from mondrian.grid import Grid
from mondrian.prediction.files import load_model
from mondrian.recipes import build, recipe_names
from mondrian.surrogate import ScaledModel

TASKS = PREDICTION, TRAINING = "prediction", "training"
POINTS = {1: 256, 2: 64, 3: 16}  # of an axis where none are named, by the number of dimensions
PATIENCE = 10.0  # seconds in all to wait for other processes to be quiet


@dataclass(frozen=True)
class Candidate:
    """A model by its name: a recipe, with settings, or the folder of a run or an artefact."""

    name: str
    overrides: tuple[str, ...] = ()

    def build(self) -> OperatorModel:
        """The model, of a run without its scales; `ValueError` for models of functions on meshes."""
        is_folder = self.name not in recipe_names() and Path(self.name).exists()
        model = load_model(self.name) if is_folder else build(self.name, *self.overrides)
        if isinstance(model, ScaledModel):
            assert isinstance(model.model, OperatorModel)
            model = model.model
        if not hasattr(model.spec, "default_grid"):
            raise ValueError(f"{self.name} is a model of functions on meshes; needed one of fields on grids")
        return model


@dataclass(frozen=True)
class Speed:
    """What was measured of one model at one resolution: samples a second, bytes, operations a second.

    `operations` are those of matrix products in predictions; Fourier transforms are not counted.
    """

    name: str
    parameters: int
    points: tuple[int, ...]
    batch: int
    predictions: float
    trained: float
    prediction_memory: float
    training_memory: float
    operations: float


@dataclass(eq=False)
class Trial:
    """A model at one resolution, ready to be timed."""

    candidate: Candidate
    model: OperatorModel
    batch: int
    points: int  # of each axis
    device: torch.device

    def __post_init__(self) -> None:
        self.passes = {task: self._pass(task) for task in TASKS}

    def _pass(self, task: str) -> Callable[[], None]:
        """On random numbers."""
        spec: Any = self.model.spec
        grid: Grid = spec.default_grid.with_points((self.points,) * spec.default_grid.dim)
        x, y = (
            torch.randn(self.batch, channels, *grid.points, device=self.device)
            for channels in (spec.in_channels, spec.out_channels)
        )
        return prediction(self.model, x, grid) if task == PREDICTION else training_step(self.model, x, y, grid)

    def memory(self, task: str) -> float:
        """The most bytes that a pass needs besides the model and its input."""
        if self.device.type != "cuda":
            return peak_memory(_alone, self.candidate, self.batch, self.points, task)
        finish(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        before = torch.cuda.memory_allocated(self.device)
        self.passes[task]()
        return float(torch.cuda.max_memory_allocated(self.device) - before)

    def speed(self, seconds: Mapping[str, float], memory: Mapping[str, float]) -> Speed:
        """What was measured, of both tasks."""
        spec: Any = self.model.spec
        return Speed(
            self.candidate.name,
            parameters=sum(p.numel() * (2 if p.is_complex() else 1) for p in self.model.parameters()),
            points=(self.points,) * spec.default_grid.dim,
            batch=self.batch,
            predictions=self.batch / seconds[PREDICTION],
            trained=self.batch / seconds[TRAINING],
            prediction_memory=memory[PREDICTION],
            training_memory=memory[TRAINING],
            operations=flops(self.passes[PREDICTION]) / seconds[PREDICTION],
        )


def measure_speeds(
    candidates: Sequence[Candidate],
    points: Sequence[int] | None = None,
    *,
    batch: int = 8,
    device: torch.device | None = None,
    memory: bool = True,
    rounds: int = 5,
    progress: bool = False,
) -> tuple[list[Speed], dict[str, str]]:
    """Measure all models at each of so many points an axis; and why some were left out, where a model refused.

    Without `points` it is one resolution, for as many dimensions as the first model has.

    In each round every model makes a prediction and a step of training, one after the other, and the best round counts.
    On a CPU memory is measured in processes of their own.
    """
    device = device or torch.device("cpu")
    models = [(candidate, candidate.build().to(device)) for candidate in candidates]
    points = points or [POINTS[models[0][1].spec.default_grid.dim]]  # type: ignore[attr-defined]
    found, refused = [], {}
    total = len(points) * (1 + memory * len(TASKS) * len(models))
    bar = tqdm(total=total, desc="benchmark", disable=None if progress else True)
    for size in points:
        trials = []
        for candidate, model in models:
            trial = Trial(candidate, model, batch, size, device)
            try:
                trial.passes[PREDICTION]()
                trials.append(trial)
            except ValueError as error:
                refused[f"{candidate.name} at {size} points"] = str(error)
        runs = {(trial, task): trial.passes[task] for trial in trials for task in TASKS}
        seconds = interleaved(runs, rounds=rounds, seconds=30.0, patience=PATIENCE) if runs else {}
        bar.update()
        for trial in trials:
            peak = dict.fromkeys(TASKS, math.nan)
            for task in TASKS if memory else ():
                peak[task] = trial.memory(task)
                bar.update()
            found.append(trial.speed({task: seconds[trial, task] for task in TASKS}, peak))
    bar.close()
    return found, refused


def _alone(candidate: Candidate, batch: int, points: int, task: str) -> Callable[[], None]:
    """In a process of its own."""
    return Trial(candidate, candidate.build(), batch, points, torch.device("cpu")).passes[task]
