"""Lightning's trainer as our runs use it."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.plugins import DoublePrecision, HalfPrecision
from lightning.pytorch.strategies import ModelParallelStrategy

from mondrian.support.libraries import library
from mondrian.support.processor import ensure_half_precision
from mondrian.training.checkpoints import AtomicCheckpoints, Checkpoints
from mondrian.training.guards import FiniteLoss, GracefulStop
from mondrian.training.history import HistoryFile
from mondrian.training.recorder import Recorder
from mondrian.training.run import Run
from mondrian.training.settings import TrainingSpec
from mondrian.training.strategy import placed


class HalfModel(HalfPrecision):
    """A model in half precision, its samples as they are: a surrogate halves what it is given once it is scaled."""

    def convert_input(self, data: Any) -> Any:
        return data


def trainer_of(
    spec: TrainingSpec, run: Run, *, identity: str, progress: bool, callbacks: Sequence[Callback] = ()
) -> Trainer:
    """The trainer of a run: its loggers, checkpoints and guards."""
    settings = placed(spec.trainer.arguments, os.environ)
    schedule = spec.schedule
    checkpoints = Checkpoints(run, every=schedule.checkpoint_every, validate_every=schedule.validate_every)
    history = HistoryFile(run.history_file)
    loggers: list[Logger] = [TensorBoardLogger(run.folder, name="tensorboard", version="")]
    if spec.wandb is not None:
        loggers.append(_wandb(spec.wandb, run, identity))
    plugins: list[Any] = [AtomicCheckpoints()]
    if isinstance(settings["strategy"], ModelParallelStrategy) and settings["precision"] == "64-true":
        plugins.append(DoublePrecision())  # Lightning does not let the name through
        settings.pop("precision")
    if settings.get("precision") == "bf16-true":
        plugins.append(HalfModel(settings.pop("precision")))
    arguments: dict[str, Any] = {
        "max_steps": spec.max_steps,
        "val_check_interval": schedule.validate_every * spec.trainer.accumulate,
        "check_val_every_n_epoch": None,
        "gradient_clip_val": spec.optimiser.clip or None,
        "logger": loggers,
        "callbacks": [
            FiniteLoss(checkpoints, every=schedule.log_every),
            Recorder(history, batch_size=spec.batch_size, every=schedule.log_every, progress=progress),
            checkpoints,
            GracefulStop(checkpoints, every=schedule.log_every),
            *callbacks,
        ],
        "plugins": plugins,
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    try:
        trainer = Trainer(**arguments, **settings)
    except (TypeError, MisconfigurationException) as error:
        raise ValueError(f"trainer={settings}: {error}") from error
    if "16" in spec.trainer.precision and trainer.strategy.root_device.type == "cpu":
        ensure_half_precision()
    return trainer


@contextmanager
def quiet() -> Iterator[None]:
    """Without the advice of Lightning and DDP: what they say about loaders, precision and strides is settled here."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    former = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
            yield
    finally:
        for logger, level in zip(loggers, former, strict=True):
            logger.setLevel(level)


def _wandb(project: str, run: Run, identity: str) -> Logger:
    from lightning.pytorch.loggers import WandbLogger

    library("wandb", extra="tracking")
    return WandbLogger(project=project, save_dir=str(run.folder), name=str(run.folder), id=identity)
