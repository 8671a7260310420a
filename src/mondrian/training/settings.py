"""Everything that a training run is told, in types: a configuration is read here, once, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mondrian.data.protocol import DataSpec, SimulatedData
from mondrian.losses import Loss
from mondrian.settings.compose import plain
from mondrian.settings.data import data_spec, simulated_data
from mondrian.settings.former import current_config
from mondrian.settings.models import ModelSettings
from mondrian.settings.training import configure
from mondrian.settings.values import Config, flag, integer, number, select, spec_of, strings
from mondrian.training.normalisation import check_log, check_method
from mondrian.training.optimiser import AdamW
from mondrian.training.symmetries import Parity, check_names, check_parity
from mondrian.training.unroll import Unroll


@dataclass(frozen=True)
class Scaling:
    """How fields are scaled, `standard`, `scale` or `none`, and which enter by their logarithm."""

    method: str
    log: tuple[str, ...]


@dataclass(frozen=True)
class Augmentation:
    """Images of the training samples under symmetries, of those that the equation has."""

    names: tuple[str, ...]
    symmetries: tuple[str, ...]
    parity: Parity


@dataclass(frozen=True)
class Schedule:
    """Steps between validations, between checkpoints, and between rows of the history."""

    validate_every: int
    checkpoint_every: int
    log_every: int


@dataclass(frozen=True)
class TrainerSpec:
    """Lightning's trainer: `arguments` are its own, with `timeout`, in seconds, for its strategy."""

    strategy: str
    precision: str
    accumulate: int
    compile: bool
    timeout: float
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.compile and self.strategy == "fsdp":
            raise ValueError(
                "trainer.compile=true does not know the exchanges of trainer.strategy=fsdp; needed one of the two"
            )
        if self.precision == "16-true":
            raise ValueError(
                "trainer.precision=16-true: squares of gradients, which AdamW keeps, vanish in float16; "
                "needed 16-mixed, bf16-mixed or bf16-true"
            )


@dataclass(frozen=True)
class TrainingSpec:
    """A training run: its folder, what is trained on which data, and how.

    `simulated` makes the data where they are ours. `config` is the configuration that all of this was read from.
    """

    folder: Path
    resume: bool
    data: DataSpec[Any]
    simulated: SimulatedData | None
    model: ModelSettings
    loss: Loss
    optimiser: AdamW
    seed: int
    max_steps: int
    batch_size: int
    workers: int
    schedule: Schedule
    scaling: Scaling
    augmentation: Augmentation
    unroll: Unroll
    trainer: TrainerSpec
    subdomains: int
    wandb: str | None
    config: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.unroll.noise and self.scaling.method == "none":
            raise ValueError(
                f"noise={self.unroll.noise} is in units of the fields' deviations; normalise=none knows none"
            )
        if self.subdomains > 1 and self.trainer.compile:
            raise ValueError(
                f"trainer.compile=true cannot compile what parallel.subdomains={self.subdomains} exchanges; needed one"
            )


def training_spec(overrides: Sequence[str]) -> TrainingSpec:
    """The training run that overrides such as `experiment=allen_cahn/vit_mo scale=cpu` describe."""
    return read_training(resolved_config(overrides))


def resolved_config(overrides: Sequence[str], *, warn: bool = True) -> dict[str, Any]:
    """The plain configuration of a training run, as `run.json` keeps it; `warn` of former names."""
    config: dict[str, Any] = current_config(plain(configure(overrides)), warn=warn)
    return config


def read_training(config: Config, *, data: DataSpec[Any] | None = None) -> TrainingSpec:
    """The training run that a configuration describes; `ValueError` that names the first setting that does not fit.

    With `data` of one's own those that the configuration names are neither opened nor simulated.
    """
    max_steps = integer(config, "max_steps")
    simulated = simulated_data(config) if config["data"].get("make") and data is None else None
    data = data or data_spec(config)
    fields = (*strings(config, "data.input"), *strings(config, "data.target"))
    return TrainingSpec(
        folder=Path(str(config["run"])),
        resume=flag(config, "resume"),
        data=data,
        simulated=simulated,
        model=ModelSettings(config["model"]),
        loss=spec_of(config, "loss", Loss),
        optimiser=spec_of(config, "optimizer", AdamW),
        seed=integer(config, "seed", least=0),
        max_steps=max_steps,
        batch_size=integer(config, "batch_size"),
        workers=integer(config, "workers", least=0),
        schedule=Schedule(
            validate_every=min(integer(config, "validate_every"), max_steps),
            checkpoint_every=integer(config, "checkpoint_every"),
            log_every=integer(config, "log_every"),
        ),
        scaling=_scaling(config, fields),
        augmentation=_augmentation(config, fields),
        unroll=Unroll(
            applications=integer(config, "unroll"),
            pushforward=flag(config, "pushforward"),
            grow_every=integer(config, "grow_every", least=0),
            noise=number(config, "noise"),
        ),
        trainer=_trainer(config),
        subdomains=integer(config, "parallel.subdomains"),
        wandb=None if config["wandb"] is None else str(config["wandb"]),
        config=config,
    )


def _scaling(config: Config, fields: Sequence[str]) -> Scaling:
    """How fields are scaled; a wrong name is refused before data are made."""
    scaling = Scaling(str(config["normalise"]), strings(config, "data.log"))
    check_method(scaling.method)
    if config["data"].get("make"):  # fields of others may have channels with names of their own
        check_log(scaling.log, fields=fields)
    return scaling


def _augmentation(config: Config, fields: Sequence[str]) -> Augmentation:
    """What the equation of the data allows; data on meshes say nothing about symmetries."""
    names = strings(config, "augment")
    if "symmetries" not in config["data"]:
        return Augmentation(names, (), 1)
    symmetries, parity = strings(config, "data.symmetries"), select(config, "data.parity")
    check_names(names, allowed=symmetries)
    check_parity(parity, fields=fields)
    return Augmentation(names, symmetries, parity)


def _trainer(config: Config) -> TrainerSpec:
    arguments = {key: value for key, value in config["trainer"].items() if key != "compile"}
    return TrainerSpec(
        strategy=str(arguments["strategy"]),
        precision=str(arguments["precision"]),
        accumulate=integer(config, "trainer.accumulate_grad_batches"),
        compile=flag(config, "trainer.compile"),
        timeout=number(config, "trainer.timeout"),
        arguments=arguments,
    )
