"""Guards that end a training run early without losing it: on a loss that is not finite, and on a signal."""

from __future__ import annotations

import math
import signal
import threading
from types import FrameType
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback

from mondrian.training.checkpoints import Checkpoints, saved
from mondrian.training.sharding import own_part

KEPT = "the last good checkpoint is kept: resume=true with a smaller optimizer.lr resumes from there"
NONE_KEPT = "no checkpoint has been saved yet: resume=true with a smaller optimizer.lr starts from the beginning"


class Diverged(ValueError):
    """The loss or the weights are not finite."""


class Stopped(Exception):
    """Training was asked to stop, and has saved its state."""


class FiniteLoss(Callback):
    """Stops at a loss that is NaN or infinite, in training or validation, and before such weights could be saved.

    On a CPU it checks every step, elsewhere every `every` steps, so that training need not wait for the device. It must
    come before the callbacks that save models.
    """

    def __init__(self, checkpoints: Checkpoints, *, every: int = 10) -> None:
        self.checkpoints, self.every = checkpoints, every
        self._losses: list[tuple[int, torch.Tensor]] = []

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        assert isinstance(module.last_loss, torch.Tensor)
        self._losses.append((trainer.global_step, module.last_loss))
        if module.device.type == "cpu" or trainer.global_step % self.every == 0:
            self._check(trainer)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._check(trainer)
        loss = float(trainer.callback_metrics["valid_loss"])
        if not trainer.strategy.reduce_boolean_decision(math.isfinite(loss)):
            raise Diverged(f"validation loss is {loss} at step {trainer.global_step}; {self._advice}")

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        self._check(trainer)
        finite = torch.stack([own_part(parameter.detach()).isfinite().all() for parameter in module.parameters()])
        if not trainer.strategy.reduce_boolean_decision(bool(finite.all())):
            raise Diverged(f"weights are not finite at step {trainer.global_step}; {self._advice}")

    @property
    def _advice(self) -> str:
        return KEPT if saved(self.checkpoints.run.checkpoints) else NONE_KEPT

    def _check(self, trainer: Trainer) -> None:
        finite = torch.stack([loss.isfinite() for _, loss in self._losses]).tolist() if self._losses else []
        bad = [(step, loss) for (step, loss), good in zip(self._losses, finite, strict=True) if not good]
        self._losses = []
        if not trainer.strategy.reduce_boolean_decision(not bad):
            where = f"loss is {float(bad[0][1])} at step {bad[0][0]}" if bad else "loss of another rank is not finite"
            raise Diverged(f"{where}; {self._advice}")


class GracefulStop(Callback):
    """At Ctrl-C or SIGTERM finishes the step, saves a checkpoint and stops. A second Ctrl-C stops at once."""

    def __init__(self, checkpoints: Checkpoints, *, every: int = 10) -> None:
        self.checkpoints, self.every = checkpoints, every
        self.signal: str | None = None
        self._former: dict[int, Any] = {}

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._former[number] = signal.signal(number, self._notice)

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        if (trainer.fit_loop.epoch_loop.batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        if not self.checkpoints.validation_follows(trainer):
            self._stop_on_signal(trainer)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._stop_on_signal(trainer)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._restore()

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self._restore()

    def _stop_on_signal(self, trainer: Trainer) -> None:
        stop = self.signal is not None
        if trainer.world_size > 1:  # all ranks agree, but not at every step, which would synchronise them
            stop = trainer.global_step % self.every == 0 and trainer.strategy.reduce_boolean_decision(stop, all=False)
        if stop and trainer.global_step < trainer.max_steps:
            self.checkpoints.save(trainer)
            raise Stopped(f"{self.signal or 'a signal'} at step {trainer.global_step} of {trainer.max_steps}")

    def _restore(self) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        self._former = {}

    def _notice(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number).name
        if number == signal.SIGINT:
            signal.signal(number, self._former[number])
