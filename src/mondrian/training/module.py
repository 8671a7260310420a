"""What Lightning trains: a surrogate, by the errors of its predictions."""

from __future__ import annotations

from typing import Any

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.plugins import DoublePrecision
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.optim.lr_scheduler import LambdaLR
from torchmetrics import MeanMetric

from mondrian.data.datasets import Batch
from mondrian.grid import Grid
from mondrian.losses import Loss, MeanSquare
from mondrian.metrics import mean_absolute_error
from mondrian.parallel import SpreadModel, sharing_subdomains
from mondrian.surrogate import ScaledModel, Surrogate
from mondrian.training.optimiser import AdamW
from mondrian.training.sharding import count_steps, shard
from mondrian.training.unroll import Unroll, UnrolledLoss


class SurrogateTraining(LightningModule):
    """A surrogate and its optimiser: what every training has, whatever its samples are.

    Subclasses give the steps: `training_step` leaves `last_loss`, `validation_step` feeds `valid_loss` and `valid_mae`.
    """

    def __init__(self, surrogate: ScaledModel, optimiser: AdamW | None = None) -> None:
        super().__init__()
        self.surrogate = surrogate
        self.optimiser = optimiser or AdamW()
        self.valid_loss = MeanMetric(nan_strategy="disable")
        self.valid_mae = MeanMetric(nan_strategy="disable")
        self.last_loss: Tensor | None = None

    def on_train_start(self) -> None:
        optimiser, schedule = self.optimizers(use_pl_optimizer=False), self.lr_schedulers()
        assert isinstance(optimiser, torch.optim.Optimizer)
        assert isinstance(schedule, LambdaLR)
        self.optimiser.impose(optimiser, schedule)

    def on_validation_epoch_end(self) -> None:
        for name, metric in {"valid_loss": self.valid_loss, "valid_mae": self.valid_mae}.items():
            self.log(name, metric.compute())
            metric.reset()

    def configure_model(self) -> None:
        if isinstance(self.trainer.precision_plugin, DoublePrecision):
            self.surrogate.double()  # before a checkpoint is read: Lightning would round its weights to float32 first
        if self.device_mesh is not None and not isinstance(self.surrogate.model, FSDPModule):
            shard(self.surrogate.model, self.device_mesh["data_parallel"])

    def configure_optimizers(self) -> Any:
        steps = int(self.trainer.estimated_stepping_batches)
        optimiser, schedule = self.optimiser.build(self.surrogate.parameters(), steps)
        if self.device_mesh is not None:
            count_steps(self.surrogate.model, optimiser)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class OperatorTraining(SurrogateTraining):
    """Fields on grids: any loss, over any number of applications in a row.

    Validation is over all applications of the final horizon, without noise: `valid_loss` is the training loss there,
    `valid_mae` the mean absolute error of the first application in physical units. Processes that share `subdomains`
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
            processes = sharing_subdomains(self.trainer.strategy.root_device, subdomains=self.subdomains)
            self.objective.apply = SpreadModel(self.surrogate.model, processes)

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
