"""Checkpoints that are written atomically, and the best model so far.

A checkpoint's name ends with the first digits of its checksum, `step_00000200_9f86d081884c7d65.ckpt`: damage is
detected before anything is loaded.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.plugins import TorchCheckpointIO
from torch import Tensor

from mondrian.support.files import write_atomically
from mondrian.surrogate import ScaledModel
from mondrian.training.run import Run

_NAME = re.compile(r"step_(\d+)_([0-9a-f]{16})\.ckpt")
KEEP = 2


class AtomicCheckpoints(TorchCheckpointIO):
    """Lightning's files, written atomically, and named by their content."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        content = buffer.getbuffer()
        path = Path(path)
        write_atomically(path.with_name(f"{path.name}_{_digits(content)}.ckpt"), content)


class Checkpoints(Callback):
    """Saves the state of training every so many steps, and the best model by `valid_loss` to `RUN/artefact`.

    Checkpoints hold the best model as well: what came after the one that a run resumes from is dropped.
    """

    def __init__(self, run: Run, *, every: int, validate_every: int) -> None:
        if every < 1:
            raise ValueError(f"checkpoint_every={every} must be at least 1")
        self.run, self.every, self.validate_every = run, every, validate_every
        self.best = float("inf")
        self._weights: dict[str, Tensor] = {}  # of the best model, on the first rank
        self._saved = -1

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.is_global_zero and self._weights:
            self._write_artefact(module)
        elif trainer.is_global_zero and self.best == float("inf"):
            shutil.rmtree(self.run.artefact, ignore_errors=True)  # of steps that the run has to make again

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: Any) -> None:
        step = trainer.global_step
        if (trainer.fit_loop.epoch_loop.batch_idx + 1) % trainer.accumulate_grad_batches:
            return  # in the middle of a step
        if step == trainer.max_steps:
            trainer.should_stop = True  # Lightning validates before it stops
        # Where validation follows, the checkpoint comes after it: a resumed run must not miss it.
        if step % self.every == 0 and not self.validation_follows(trainer):
            self.save(trainer)

    def validation_follows(self, trainer: Trainer) -> bool:
        """Whether this step is one that a validation comes after: every so many, and the last one."""
        return trainer.global_step % self.validate_every == 0 or trainer.global_step == trainer.max_steps

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        loss = float(trainer.callback_metrics["valid_loss"])
        if loss < self.best:
            self.best = loss
            whole = trainer.strategy.lightning_module_state_dict()  # of a sharded model gathered by all ranks
            if trainer.is_global_zero:
                self._weights = {
                    name.removeprefix("surrogate."): weight.detach().to("cpu", copy=True)
                    for name, weight in whole.items()
                }
                self._write_artefact(module)
        if trainer.global_step % self.every == 0:
            self.save(trainer)

    def on_train_end(self, trainer: Trainer, module: LightningModule) -> None:
        if trainer.global_step != self._saved:
            self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        """Write a checkpoint now, and remove all but the newest ones."""
        self._saved = trainer.global_step
        trainer.save_checkpoint(self.run.checkpoints / f"step_{trainer.global_step:08d}")
        if trainer.is_global_zero:
            for old in saved(self.run.checkpoints)[KEEP:]:
                old.unlink(missing_ok=True)

    def _write_artefact(self, module: LightningModule) -> None:
        surrogate = module.surrogate
        assert isinstance(surrogate, ScaledModel)
        surrogate.save_pretrained(self.run.artefact, weights=self._weights)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "weights": self._weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best = state["best"]
        self._weights = state.get("weights", {})  # older checkpoints have none


def saved(folder: Path) -> list[Path]:
    """All checkpoints of a folder, newest first."""
    paths = folder.glob("*.ckpt") if folder.is_dir() else ()
    return sorted((path for path in paths if _NAME.fullmatch(path.name)), reverse=True)


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint was saved at."""
    match = _NAME.fullmatch(checkpoint.name)
    assert match is not None
    return int(match[1])


def newest(folder: Path, *, clean: bool = True) -> Path | None:
    """The newest intact checkpoint. With `clean` names damaged newer ones, and removes them."""
    for leftover in folder.glob(".step_*.partial") if clean else ():
        leftover.unlink(missing_ok=True)
    damaged: list[Path] = []
    for path in saved(folder):
        match = _NAME.fullmatch(path.name)
        assert match is not None
        if _checksum(path) == match[2]:
            for bad in damaged if clean else ():
                print(f"checkpoint {bad} is damaged; resuming from {path.name} instead", file=sys.stderr)
                bad.unlink(missing_ok=True)
            return path
        damaged.append(path)
    if damaged:
        raise ValueError(f"no checkpoint in {folder} is intact: {', '.join(path.name for path in damaged)}")
    return None


def _digits(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _checksum(path: Path) -> str | None:
    """None where the first rank has removed the file meanwhile, because it was damaged or old."""
    try:
        return _digits(path.read_bytes())
    except FileNotFoundError:
        return None
