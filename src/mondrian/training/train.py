"""A whole training run, from a configuration to a folder with the best model."""

from __future__ import annotations

import logging
import os
import platform
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import Logger, TensorBoardLogger
from omegaconf import DictConfig, OmegaConf

from mondrian.artefact import ModelSpec
from mondrian.grid import Grid
from mondrian.losses import Loss
from mondrian.spec import Spec
from mondrian.surrogate import Surrogate, SurrogateSpec
from mondrian.training.checkpoints import AtomicCheckpoints, Checkpoints, newest
from mondrian.training.data import OperatorData
from mondrian.training.guards import FiniteLoss, GracefulStop
from mondrian.training.history import HistoryFile, Recorder
from mondrian.training.module import OperatorTraining
from mondrian.training.normalisation import fit_scales
from mondrian.training.optimiser import AdamW
from mondrian.training.run import Run
from mondrian.training.settings import configure, spec_of, splits_of, whole, words_of
from mondrian.training.unroll import Unroll

# What a resumed run may have other than the run that it goes on with: none of these changes what a step does.
FREE = ("resume", "run", "trainer", "max_steps", "checkpoint_every", "validate_every", "log_every", "workers", "wandb")


def train(experiment: str, *words: str, progress: bool = False) -> Run:
    """Train a recipe, with the same words as on the command line.

    run = train("allen_cahn/vit_sepmo", "scale=smoke", "run=runs/first")
    """
    return train_config([f"experiment={experiment}", *words], progress=progress)


def train_config(words: Sequence[str], *, progress: bool = False) -> Run:
    """Train what some overrides describe. With `resume=true` those that the run began with need not be said again."""
    config = configure(words)
    run = Run(Path(str(config.run)))
    if config.resume and run.record.exists():
        config = configure(_joined(run.facts["words"], words))
    elif run.record.exists():
        raise ValueError(f"{run.folder} holds a run already; resume=true goes on with it, run=... starts another")
    splits = splits_of(config, progress=progress)
    unroll = Unroll(whole(config, "unroll"), config.pushforward, whole(config, "grow_every", least=0), config.noise)
    max_steps = whole(config, "max_steps")
    data = OperatorData(
        splits,
        batch_size=whole(config, "batch_size"),
        max_steps=max_steps,
        applications=unroll.applications,
        augment=words_of(config, "augment"),
        symmetries=words_of(config, "data.symmetries"),
        parity=config.data.parity,
        workers=whole(config, "workers", least=0),
        seed=whole(config, "seed", least=0),
    )
    resumed = config.resume and run.record.exists()
    if resumed:
        spec = Spec.from_json(run.facts["surrogate"])
        _refuse_changes(run, config)
    else:
        spec = _surrogate_spec(config, data, progress=progress)
    assert isinstance(spec, SurrogateSpec)
    torch.manual_seed(whole(config, "seed", least=0))
    surrogate = spec.build()
    loss, optimiser = spec_of(config, "loss", Loss), spec_of(config, "optimizer", AdamW)
    module = OperatorTraining(surrogate, loss=loss, optimiser=optimiser, unroll=unroll, seed=config.seed)
    if not resumed:
        run.write(_facts(config, words, splits, surrogate))
    if config.trainer.compile:
        surrogate.model.compile()
    checkpoint = newest(run.checkpoints) if config.resume else None
    if config.resume and checkpoint is None:
        print(f"{run.folder} has no checkpoint yet: training starts from the beginning", file=sys.stderr)
    with _quiet():
        trainer = _trainer(config, run, progress=progress)
        trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
        if max_steps % _validate_every(config):  # the last step was not one that validation follows
            trainer.validate(module, data, verbose=False)
    return run


def _surrogate_spec(config: DictConfig, data: OperatorData, *, progress: bool) -> SurrogateSpec:
    model = model_spec(config, data)
    in_scales, out_scales = fit_scales(
        data.train, method=str(config.normalise), log=words_of(config, "data.log"), progress=progress
    )
    return SurrogateSpec(
        model=model,
        in_names=data.in_names,
        out_names=data.out_names,
        in_scales=in_scales,
        out_scales=out_scales[: len(data.out_names)],
        window=data.train_window,
    )


def model_spec(config: DictConfig, data: OperatorData) -> ModelSpec:
    """The model of a configuration, fitted to the data where it leaves something open: channels, box, subdomains."""
    model = config.model.copy()
    OmegaConf.set_struct(model, False)
    for key, names in {"in_channels": data.in_names, "out_channels": data.out_names}.items():
        if OmegaConf.is_missing(model, key):
            model[key] = len(names)
        elif model[key] != len(names):
            raise ValueError(f"model.{key}={model[key]}; the data set has {len(names)}: {', '.join(names)}")
    grid = data.train.grid
    model.grid = {
        "_target_": "mondrian.Grid", "extent": grid.extent, "periodic": grid.periodic, "origin": grid.origin,
    }  # fmt: skip
    if "subdomains" in model and (OmegaConf.is_missing(model, "subdomains") or model.subdomains is None):
        model.subdomains = default_subdomains(grid)
    with torch.device("meta"):
        spec: ModelSpec = instantiate(model, _convert_="all").spec
    return spec


def default_subdomains(grid: Grid) -> list[int]:
    """At most eight along each axis, such that the cuts divide the points and leave four or more in each.

    >>> default_subdomains(Grid(extent=(1.0, 1.0, 1.0), points=(64, 30, 16)))
    [8, 6, 4]
    """
    counts = []
    for points in grid.points:
        fitting = [count for count in range(1, 9) if points % count == 0 and points // count >= min(4, points)]
        counts.append(fitting[-1])
    return counts


def _trainer(config: DictConfig, run: Run, *, progress: bool) -> Trainer:
    settings: dict[str, Any] = OmegaConf.to_container(config.trainer, resolve=True)  # type: ignore[assignment]
    settings.pop("compile")
    batch_size, log_every = whole(config, "batch_size"), whole(config, "log_every")
    validate_every = _validate_every(config)
    checkpoints = Checkpoints(run, every=whole(config, "checkpoint_every"), validate_every=validate_every)
    clip = spec_of(config, "optimizer", AdamW).clip
    loggers: list[Logger] = [TensorBoardLogger(run.folder, name="tensorboard", version="")]
    if config.wandb is not None:
        loggers.append(_wandb(config, run))
    return Trainer(
        max_steps=whole(config, "max_steps"),
        val_check_interval=validate_every * config.trainer.accumulate_grad_batches,
        check_val_every_n_epoch=None,
        gradient_clip_val=clip or None,
        logger=loggers,
        callbacks=[
            FiniteLoss(every=log_every),
            Recorder(HistoryFile(run.history_file), batch_size=batch_size, every=log_every, progress=progress),
            checkpoints,
            GracefulStop(checkpoints),
        ],
        plugins=[AtomicCheckpoints()],
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


def _validate_every(config: DictConfig) -> int:
    return min(whole(config, "validate_every"), whole(config, "max_steps"))


def _wandb(config: DictConfig, run: Run) -> Logger:
    try:
        from lightning.pytorch.loggers import WandbLogger

        return WandbLogger(
            project=str(config.wandb), save_dir=str(run.folder), name=str(run.folder), id=run.folder.name
        )
    except ModuleNotFoundError as error:
        raise ValueError(
            f"wandb={config.wandb} needs the extra `tracking`: pip install 'mondrian[tracking]'"
        ) from error


def _facts(config: DictConfig, words: Sequence[str], splits: Spec, surrogate: Surrogate) -> dict[str, Any]:
    return {
        "name": str(config.run).removeprefix("runs/"),
        "words": [word for word in words if not word.startswith("resume=")],
        "parameters": sum(parameter.numel() for parameter in surrogate.parameters()),
        "versions": {name: version(name) for name in ("mondrian", "torch", "lightning", "numpy")}
        | {"python": platform.python_version()},
        "machine": {"processor": platform.machine(), "cores": len(os.sched_getaffinity(0))},
        "data": splits.to_json(),
        "surrogate": surrogate.spec.to_json(),
        "config": OmegaConf.to_container(config, resolve=True),
    }


def _joined(former: Sequence[str], words: Sequence[str]) -> list[str]:
    """The words of a run, with newer ones in the place of those that set the same."""
    return list({word.partition("=")[0]: word for word in (*former, *words)}.values())


def _refuse_changes(run: Run, config: DictConfig) -> None:
    given: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    for key, stored in run.config.items():
        same = given.get(key) == stored
        if not same and key not in (*FREE, "optimizer"):
            raise ValueError(f"{key} was {stored} when {run.folder} began; a run cannot go on with {given.get(key)}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's advice: what it says about loaders and precision is settled here."""
    logger = logging.getLogger("lightning.pytorch")
    former = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="lightning")
            yield
    finally:
        logger.setLevel(former)
