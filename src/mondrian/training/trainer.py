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
from omegaconf import DictConfig, OmegaConf

from mondrian.settings.values import spec_of, whole
from mondrian.support.libraries import library
from mondrian.support.processor import ensure_half_precision
from mondrian.training.checkpoints import AtomicCheckpoints, Checkpoints
from mondrian.training.guards import FiniteLoss, GracefulStop
from mondrian.training.history import HistoryFile
from mondrian.training.optimiser import AdamW
from mondrian.training.recorder import Recorder
from mondrian.training.run import Run
from mondrian.training.strategy import placed


class HalfModel(HalfPrecision):
    """A model in half precision, its samples as they are: a surrogate halves what it is given once it is scaled."""

    def convert_input(self, data: Any) -> Any:
        return data


def trainer_of(
    config: DictConfig, run: Run, *, identity: str, progress: bool, callbacks: Sequence[Callback] = ()
) -> Trainer:
    """The trainer of a run: its loggers, checkpoints and guards."""
    settings: dict[str, Any] = OmegaConf.to_container(config.trainer, resolve=True)  # type: ignore[assignment]
    if settings.pop("compile") is True and settings["strategy"] == "fsdp":
        raise ValueError(
            "trainer.compile=true does not know the exchanges of trainer.strategy=fsdp; needed one of the two"
        )
    if settings["precision"] == "16-true":
        raise ValueError(
            "trainer.precision=16-true: squares of gradients, which AdamW keeps, vanish in float16; "
            "needed 16-mixed, bf16-mixed or bf16-true"
        )
    halved = "16" in settings["precision"]
    settings = placed(settings, os.environ)
    batch_size, log_every = whole(config, "batch_size"), whole(config, "log_every")
    accumulate = whole(config, "trainer.accumulate_grad_batches")
    validate_every = validation_interval(config)
    checkpoints = Checkpoints(run, every=whole(config, "checkpoint_every"), validate_every=validate_every)
    clip = spec_of(config, "optimizer", AdamW).clip
    loggers: list[Logger] = [TensorBoardLogger(run.folder, name="tensorboard", version="")]
    if config.wandb is not None:
        loggers.append(_wandb(config, run, identity))
    plugins: list[Any] = [AtomicCheckpoints()]
    if isinstance(settings["strategy"], ModelParallelStrategy) and settings["precision"] == "64-true":
        plugins.append(DoublePrecision())  # Lightning does not let the name through
        settings.pop("precision")
    if settings.get("precision") == "bf16-true":
        plugins.append(HalfModel(settings.pop("precision")))
    arguments: dict[str, Any] = {
        "max_steps": whole(config, "max_steps"),
        "val_check_interval": validate_every * accumulate,
        "check_val_every_n_epoch": None,
        "gradient_clip_val": clip or None,
        "logger": loggers,
        "callbacks": [
            FiniteLoss(checkpoints, every=log_every),
            Recorder(HistoryFile(run.history_file), batch_size=batch_size, every=log_every, progress=progress),
            checkpoints,
            GracefulStop(checkpoints, every=log_every),
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
    if halved and trainer.strategy.root_device.type == "cpu":
        ensure_half_precision()
    return trainer


def validation_interval(config: DictConfig) -> int:
    """Steps between validations."""
    return min(whole(config, "validate_every"), whole(config, "max_steps"))


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


def _wandb(config: DictConfig, run: Run, identity: str) -> Logger:
    from lightning.pytorch.loggers import WandbLogger

    library("wandb", extra="tracking")
    return WandbLogger(project=str(config.wandb), save_dir=str(run.folder), name=str(run.folder), id=identity)
