"""Ending a trial whose validation loss is behind that of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning.pytorch import Callback, LightningModule, Trainer

if TYPE_CHECKING:
    from optuna.trial import Trial


class Pruned(Exception):
    """The study has given a trial up."""


class ReportLoss(Callback):
    """Reports each validation loss to the study, and ends training where its pruner says so."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self._reported = set(trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values)

    def on_validation_end(self, trainer: Trainer, module: LightningModule) -> None:
        step, loss = trainer.global_step, float(trainer.callback_metrics["valid_loss"])
        if step not in self._reported:  # by a worker that had this trial before
            self._reported.add(step)
            self.trial.report(loss, step)
        if step < trainer.max_steps and self.trial.should_prune():
            raise Pruned(f"pruned at step {step} of {trainer.max_steps}, validation loss {loss:.4g}")
