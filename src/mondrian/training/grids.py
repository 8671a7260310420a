"""Training on fields on grids: windows of simulations, losses over several applications in a row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mondrian.artefact import ModelSpec
from mondrian.data.datasets import Batch, WindowDataset
from mondrian.data.sources import same_grid
from mondrian.data.splits import Splits
from mondrian.grid import Grid
from mondrian.losses import Loss, MeanSquare
from mondrian.metrics import mean_absolute_error
from mondrian.parallel import SpreadModel, sharing_subdomains
from mondrian.parallel.model import check_spread
from mondrian.settings.models import ModelSettings
from mondrian.surrogate import Surrogate
from mondrian.training.data import ResumableData
from mondrian.training.module import SurrogateTraining
from mondrian.training.optimiser import AdamW
from mondrian.training.order import Order, OrderedSamples, collate_fields, collate_places
from mondrian.training.settings import TrainingSpec
from mondrian.training.symmetries import Parity, symmetries_of
from mondrian.training.task import Task
from mondrian.training.unroll import Unroll, UnrolledLoss


class GridData(ResumableData):
    """Windows of simulations on grids."""

    collate, collate_valid = staticmethod(collate_places), staticmethod(collate_fields)

    def __init__(
        self,
        splits: Splits,
        *,
        batch_size: int,
        max_steps: int,
        applications: int = 1,
        augment: tuple[str, ...] = (),
        symmetries: tuple[str, ...] = (),
        parity: Parity = 1,
        workers: int = 0,
        memory: int = 2**32,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        subdomains: int = 1,
    ) -> None:
        super().__init__(batch_size=batch_size, max_steps=max_steps, workers=workers, seed=seed, subdomains=subdomains)
        if applications > 1:
            source = splits.source("train")
            fixed = [name for name in splits.window.target if not source.field(name).changes]
            if fixed:
                raise ValueError(
                    f"unroll={applications} needs targets that change in time; of {splits.window.target} "
                    f"{', '.join(fixed)} do not"
                )
        window = replace(splits.window, steps_out=splits.window.steps_out * applications)
        try:
            self.train = splits.dataset("train", window=window, memory=memory).with_dtype(dtype)
            self.valid = splits.dataset("valid", window=window, memory=memory).with_dtype(dtype)
        except ValueError as error:
            if applications == 1:
                raise
            raise ValueError(f"unroll={applications}: {error}") from error
        same_grid({"train": self.train.source, "valid": self.valid.source}, points=False)
        self.symmetries = symmetries_of(self.train, augment, allowed=symmetries, parity=parity)
        out = len(self.train.out_channels) // applications
        self.splits = splits
        self.in_channels, self.out_channels = self.train.in_channels, self.train.out_channels[:out]

    def ordered(self, order: Order) -> OrderedSamples:
        """Each in the symmetric image that belongs to its place."""
        return OrderedSamples(self.train, order, self.symmetries)


class GridTraining(SurrogateTraining):
    """Fields on grids: any loss, over any number of applications in a row.

    Validation is over all applications of the final horizon, without noise: `valid_loss` is the training loss there,
    `valid_mae` the mean absolute error of the first application in physical units. Ranks that share `subdomains`
    have the same samples, and each of them computes a slab of every prediction.
    """

    surrogate: Surrogate

    def __init__(
        self,
        surrogate: Surrogate,
        *,
        loss: Loss | None = None,
        optimiser: AdamW | None = None,
        unroll: Unroll | None = None,
        seed: int = 0,
        subdomains: int = 1,
    ) -> None:
        super().__init__(surrogate, optimiser)
        self.unroll = unroll or Unroll()
        self.seed = seed
        self.subdomains = subdomains
        self.objective = UnrolledLoss(surrogate, loss or MeanSquare(), self.unroll)

    def setup(self, stage: str) -> None:
        if self.subdomains > 1:
            ranks = sharing_subdomains(self.trainer.strategy.root_device, subdomains=self.subdomains)
            self.objective.apply = SpreadModel(self.surrogate.model, ranks)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        x = self.objective.with_noise(batch["x"], batch["places"], self.seed)
        loss, _ = self.objective(
            x,
            batch["y"],
            self._grid(batch),
            horizon=self.unroll.horizon(self.global_step),
            pushforward=self.unroll.pushforward,
        )
        self.last_loss = loss.detach()
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        loss, first = self.objective(batch["x"], batch["y"], self._grid(batch), horizon=self.unroll.applications)
        error = mean_absolute_error(first, batch["y"][:, : first.shape[1]])
        self.valid_loss.update(loss.expand(len(first)))  # once a sample: weights are ignored where NaN is let through
        self.valid_mae.update(error.float())

    def _grid(self, batch: Batch) -> Grid:
        return self.surrogate.spec.default_grid.with_points(tuple(batch["x"].shape[2:]))


class GridTask(Task):
    """Training on fields on grids: any loss, symmetries, several applications in a row, subdomains over ranks."""

    train: WindowDataset

    def __init__(self, spec: TrainingSpec, samples: GridData) -> None:
        self.spec, self.samples = spec, samples
        self.train = samples.train

    @staticmethod
    def check(spec: TrainingSpec) -> None:
        """All settings say something about fields on grids."""

    @classmethod
    def open(cls, spec: TrainingSpec, data: Splits, *, dtype: torch.dtype) -> GridTask:
        samples = GridData(
            data,
            batch_size=spec.batch_size,
            max_steps=spec.max_steps,
            applications=spec.unroll.applications,
            augment=spec.augmentation.names,
            symmetries=spec.augmentation.symmetries,
            parity=spec.augmentation.parity,
            workers=spec.workers,
            dtype=dtype,
            seed=spec.seed,
            subdomains=spec.subdomains,
        )
        return cls(spec, samples)

    @property
    def out_channels(self) -> tuple[str, ...]:
        return self.samples.out_channels

    def fitted(self, model: ModelSettings) -> ModelSpec:
        return fitted_model(model, self.samples)

    def batches(self, model: ModelSpec) -> GridData:
        return self.samples

    def module(self, surrogate: Surrogate) -> GridTraining:
        spec = self.spec
        if spec.subdomains > 1:
            for part in (self.samples.train, self.samples.valid):
                check_spread(surrogate.model, part.grid, spec.subdomains)
        return GridTraining(
            surrogate,
            loss=spec.loss,
            optimiser=spec.optimiser,
            unroll=spec.unroll,
            seed=spec.seed,
            subdomains=spec.subdomains,
        )

    @staticmethod
    def overrides(data: Splits) -> list[str]:
        return []

    @staticmethod
    def described(data: Splits) -> dict[str, Any]:
        window = data.window
        return {
            "input": list(window.input),
            "target": list(window.target),
            "steps_in": window.steps_in,
            "steps_out": window.steps_out,
        }


def fitted_model(model: ModelSettings, samples: GridData) -> ModelSpec:
    """A model with the channels of the samples, on their box."""
    channels = model.with_channels(in_channels=samples.in_channels, out_channels=samples.out_channels)
    return channels.on_grid(samples.train.grid)
