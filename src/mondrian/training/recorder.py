"""Records of each training step: in the history, in the loggers, and on the screen."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from torch.optim import Optimizer
from tqdm import tqdm

from mondrian.training.history import HistoryFile


class Recorder(Callback):
    """Writes the history, feeds the loggers, and shows a progress bar with loss, learning rate and samples a second."""

    def __init__(self, file: HistoryFile, *, batch_size: int, every: int = 10, progress: bool = True) -> None:
        self.file, self.batch_size, self.every, self.progress = file, batch_size, every, progress
        self.seconds = 0.0  # of training and validation, over all sessions of the run
        self._sum: Any = 0.0  # of the losses on this rank since the last row
        self._sums = [0.0]  # those of all ranks, as in a checkpoint
        self._count = 0
        self._rate = math.nan
        self._clock = 0.0
        self._training_seconds = 0.0  # since the last row, without validation
        self._bar: tqdm[Any] | None = None
        self._shown: dict[str, str] = {}

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        same = len(self._sums) == trainer.world_size
        self._sum = self._sums[trainer.global_rank] if same else sum(self._sums) / len(self._sums)
        self._clock = time.perf_counter()
        if trainer.is_global_zero:
            self.file.keep(trainer.global_step)
            self._bar = tqdm(
                total=trainer.max_steps, initial=trainer.global_step, desc="training", unit="step",
                disable=None if self.progress else True,
            )  # fmt: skip

    def on_before_optimizer_step(self, trainer: Trainer, module: LightningModule, optimizer: Optimizer) -> None:
        self._rate = optimizer.param_groups[0]["lr"]  # later the schedule has set that of the next step

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        self._sum = self._sum + module.last_loss
        self._count += 1
        if (trainer.fit_loop.epoch_loop.batch_idx + 1) % trainer.accumulate_grad_batches:
            return
        if self._bar is not None:
            self._bar.update(1)
        step = trainer.global_step
        if step % self.every == 0 or step == trainer.max_steps:
            self._write_training(trainer)

    def on_validation_start(self, trainer: Trainer, module: LightningModule) -> None:
        self._training_seconds += self._lap()

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._lap()
        losses = {name: float(trainer.callback_metrics[name]) for name in ("valid_loss", "valid_mae")}
        self._shown["valid"] = f"{losses['valid_loss']:.3g}"
        self._write(trainer, losses)
        if self._bar is not None and self._bar.disable and self.progress:  # a log file instead of a terminal
            assert isinstance(module.last_loss, torch.Tensor)
            self._shown["loss"] = f"{module.last_loss.item():.3g}"
            shown = "  ".join(f"{name} {text}" for name, text in self._shown.items())
            print(f"step {trainer.global_step}/{trainer.max_steps}  {shown}", flush=True)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        self._close()

    def on_exception(self, trainer: Trainer, module: LightningModule, exception: BaseException) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def state_dict(self) -> dict[str, Any]:
        self._training_seconds += self._lap()
        return {
            "seconds": self.seconds,
            "sum": [float(self._sum)],
            "count": self._count,
            "training_seconds": self._training_seconds,
        }

    def on_save_checkpoint(self, trainer: Trainer, module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """The losses since the last row on all ranks, of which the first one writes the checkpoint."""
        own = torch.as_tensor(self._sum, device=trainer.strategy.root_device)
        sums = trainer.strategy.all_gather(own).reshape(-1).tolist()
        checkpoint["callbacks"][self.state_key]["sum"] = sums

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.seconds, self._count = state["seconds"], state["count"]
        self._sums = state["sum"] if isinstance(state["sum"], list) else [state["sum"]]  # a number in older ones
        self._training_seconds = state["training_seconds"]

    def _write_training(self, trainer: Trainer) -> None:
        self._training_seconds += self._lap()
        steps = self._count / trainer.accumulate_grad_batches
        rate = steps * self.batch_size / max(self._training_seconds, 1e-9)
        mean = torch.as_tensor(self._sum, device=trainer.strategy.root_device) / max(self._count, 1)
        loss = float(trainer.strategy.reduce(mean, reduce_op="mean"))
        row = {
            "train_loss": loss,
            "learning_rate": self._rate,
            "samples_per_second": rate,
        }
        self._sum, self._count, self._training_seconds = 0.0, 0, 0.0
        self._shown = {"loss": f"{loss:.3g}", "lr": f"{row['learning_rate']:.2g}", "samples/s": f"{rate:.0f}"} | {
            name: text for name, text in self._shown.items() if name == "valid"
        }
        self._write(trainer, row)

    def _write(self, trainer: Trainer, row: dict[str, float]) -> None:
        if not trainer.is_global_zero:
            return
        if self._bar is not None:
            self._bar.set_postfix(self._shown, refresh=False)
        step = trainer.global_step
        self.file.append({"step": step, "samples": step * self.batch_size, "seconds": self.seconds, **row})
        for logger in trainer.loggers:
            logger.log_metrics({name: value for name, value in row.items() if math.isfinite(value)}, step)

    def _lap(self) -> float:
        now = time.perf_counter()
        passed = now - self._clock if self._clock else 0.0
        self.seconds += passed
        self._clock = now
        return passed
