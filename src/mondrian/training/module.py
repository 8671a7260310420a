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

from mondrian.support.former import former_names
from mondrian.surrogate import ScaledModel
from mondrian.training.optimiser import AdamW
from mondrian.training.sharding import count_steps, shard


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


__getattr__ = former_names(__name__)
