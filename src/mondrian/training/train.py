"""A whole training run, from its description to a folder with the best model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch import Callback
from lightning.pytorch.plugins import DoublePrecision

from mondrian.artefact import ModelSpec
from mondrian.data.meshes.files import MeshSplits
from mondrian.data.protocol import DataSpec
from mondrian.data.splits import Splits
from mondrian.parallel.ranks import check_shares
from mondrian.surrogate import ScaledSpec
from mondrian.training.grids import GridTask
from mondrian.training.meshes import MeshTask
from mondrian.training.normalisation import fit_scales
from mondrian.training.order import Batches
from mondrian.training.preparation import prepared_data
from mondrian.training.run import Run
from mondrian.training.session import Session, resumed_config
from mondrian.training.settings import TrainingSpec, read_training
from mondrian.training.task import Task, check_channels

TASKS: dict[type[DataSpec[Any]], type[Task]] = {Splits: GridTask, MeshSplits: MeshTask}


def train(experiment: str, *overrides: str, progress: bool = False) -> Run:
    """Train a recipe, with the same overrides as on the command line.

    run = train("allen_cahn/vit_sepmo", "scale=smoke", "run=runs/first")
    """
    return train_config([f"experiment={experiment}", *overrides], progress=progress)


def train_model(
    model: ModelSpec, data: DataSpec[Any], *overrides: str, progress: bool = False, callbacks: Sequence[Callback] = ()
) -> Run:
    """Train a model of your own on data of your own; overrides say the rest, `run=FOLDER` at least.

    run = train_model(model.spec, Splits(files=..., window=...), "run=runs/mine", "max_steps=1000")
    """
    task = _task_of(data)
    overrides = (*task.overrides(data), *overrides)
    config = resumed_config(overrides)
    config["data"] |= task.described(data)
    config["model"] = model.to_json()
    return train_spec(read_training(config, data=data), overrides, progress=progress, callbacks=callbacks)


def train_config(overrides: Sequence[str], *, progress: bool = False, callbacks: Sequence[Callback] = ()) -> Run:
    """Train what some overrides describe. With `resume=true` those that the run began with need not be repeated.

    `callbacks` of the caller run after our own: after a validation its loss is logged and the best model kept.
    """
    spec = read_training(resumed_config(overrides))
    return train_spec(spec, overrides, progress=progress, callbacks=callbacks)


def train_spec(
    spec: TrainingSpec, overrides: Sequence[str], *, progress: bool = False, callbacks: Sequence[Callback] = ()
) -> Run:
    """Train what a spec describes, and write down the overrides that it was read from."""
    kind = _task_of(spec.data)
    kind.check(spec)
    session = Session.open(spec, overrides, progress=progress, callbacks=callbacks)
    trainer = session.trainer
    check_shares(trainer.world_size, spec.subdomains)
    ranks = trainer.world_size // spec.subdomains
    Batches(spec.batch_size, 1, accumulate=trainer.accumulate_grad_batches, ranks=ranks)
    data = prepared_data(spec, progress=progress)
    session.check_data(data)
    double = isinstance(trainer.precision_plugin, DoublePrecision)
    task = kind.open(spec, data, dtype=torch.float64 if double else torch.float32)
    described = session.stored_spec() if session.resumes else _surrogate(spec, data, task, progress=progress)
    samples = task.batches(described.model)
    torch.manual_seed(spec.seed)
    surrogate = described.build()
    return session.fit(task.module(surrogate), samples, surrogate, data)


def _task_of(data: DataSpec[Any]) -> type[Task]:
    if type(data) not in TASKS:
        raise ValueError(f"data={data} must be one of {', '.join(known.__name__ for known in TASKS)}")
    return TASKS[type(data)]


def _surrogate(spec: TrainingSpec, data: DataSpec[Any], task: Task, *, progress: bool) -> ScaledSpec:
    """The model of a new run in physical units, with scales fitted to the training part."""
    model = task.fitted(spec.model)
    check_channels(model, task)
    scales = fit_scales(task.train, method=spec.scaling.method, log=spec.scaling.log, progress=progress)
    return data.surrogate(model, task.train, *scales)
