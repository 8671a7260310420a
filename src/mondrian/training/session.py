"""What every training run goes through, whatever it trains: its folder, its trainer, and the way back after a stop."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from mondrian.data.protocol import DataSpec, digest
from mondrian.parallel.peers import check_restarts, naming_lost_peers
from mondrian.settings.former import current_overrides
from mondrian.settings.values import flag, select
from mondrian.support.lock import Lock
from mondrian.support.process import is_first
from mondrian.support.spec import Spec
from mondrian.surrogate import ScaledModel, ScaledSpec
from mondrian.training.checkpoints import newest, step_of
from mondrian.training.data import ResumableData
from mondrian.training.record import (
    facts_of,
    joined,
    refuse_changes,
    refuse_other_data,
    refuse_other_samples,
    renewed,
)
from mondrian.training.run import Run
from mondrian.training.settings import TrainingSpec, resolved_config
from mondrian.training.trainer import quiet, trainer_of


@dataclass(frozen=True)
class Session:
    """A run that begins, or resumes."""

    spec: TrainingSpec
    overrides: Sequence[str]
    run: Run
    resumes: bool
    identity: str
    trainer: Trainer

    @classmethod
    def open(
        cls, spec: TrainingSpec, overrides: Sequence[str], *, progress: bool, callbacks: Sequence[Callback] = ()
    ) -> Session:
        """Check what can be checked before anything is simulated or read."""
        check_restarts(os.environ)
        run = Run(spec.folder)
        resumes = spec.resume and run.record.exists()
        if resumes:
            refuse_changes(run, spec.config)
        identity = run.fact("id") if resumes else uuid.uuid4().hex[:12]
        with quiet():
            trainer = trainer_of(spec, run, identity=identity, progress=progress, callbacks=callbacks)
        return cls(spec, overrides, run, resumes, identity, trainer)

    def check_data(self, data: DataSpec[Any]) -> None:
        """Refuse to resume with other data than the run began with."""
        if self.resumes:
            refuse_other_data(self.run, data)

    def stored_spec(self) -> ScaledSpec:
        """The model that the run began with."""
        spec = Spec.from_json(self.run.fact("surrogate"))
        assert isinstance(spec, ScaledSpec)
        return spec

    def fit(self, module: LightningModule, samples: ResumableData, surrogate: ScaledModel, data: DataSpec[Any]) -> Run:
        """Write down what is trained on which data, and train it. The first rank holds the folder meanwhile."""
        first = is_first(os.environ)
        with Lock.of_file(self.run.record) if first else nullcontext():
            checkpoint = self._start(samples, surrogate, data, first=first)
            patience = f"trainer.timeout={self.spec.trainer.timeout:g} s"
            advice = "Once they can be started again, resume=true resumes from the last checkpoint"
            rank, ranks = self.trainer.global_rank, self.trainer.world_size
            with quiet(), naming_lost_peers(rank, ranks, patience=patience, advice=advice):
                if self.spec.trainer.compile:
                    surrogate.model.compile()
                self.trainer.fit(module, samples, ckpt_path=checkpoint, weights_only=True)
        return self.run

    def _start(
        self, samples: ResumableData, surrogate: ScaledModel, data: DataSpec[Any], *, first: bool
    ) -> Path | None:
        """Write `run.json`; returns the checkpoint to resume from."""
        name = digest(samples.train)
        if self.resumes:
            refuse_other_samples(self.run, name)
        checkpoint = self._checkpoint(first=first) if self.resumes else None
        ended = checkpoint is not None and step_of(checkpoint) >= samples.max_steps
        if first:
            if ended:
                print(f"{self.run.folder}: no step of max_steps={samples.max_steps} is left to train", file=sys.stderr)
            self.run.write(self._facts(data, name, surrogate, ended=ended))
        return checkpoint

    def _facts(self, data: DataSpec[Any], samples: str, surrogate: ScaledModel, *, ended: bool) -> dict[str, Any]:
        """What `run.json` says: of a run that has ended nothing new but where its data are."""
        if not self.resumes:
            return {"id": self.identity, **facts_of(self.spec, self.overrides, data, samples, surrogate)}
        if ended:
            return self.run.facts | {"data": data.to_json()}
        return renewed(self.run.facts, self.spec, self.overrides, data)

    def _checkpoint(self, *, first: bool) -> Path | None:
        checkpoint = newest(self.run.checkpoints, clean=first)
        if checkpoint is None and first:
            print(f"{self.run.folder} has no checkpoint yet: training starts from the beginning", file=sys.stderr)
        return checkpoint


def resumed_config(overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration of some overrides; with `resume=true` those that the run began with need not be repeated."""
    config = resolved_config(overrides)
    run = Run(Path(str(config["run"])))
    resume = flag(config, "resume")
    names_data = any(override.startswith(("experiment=", "data")) for override in overrides)
    if resume and not run.record.exists() and not names_data:
        raise ValueError(f"{run.folder} holds no run to resume")
    if not run.record.exists() or (not resume and not is_first(os.environ)):  # the first rank wrote it just now
        return config
    if not resume:
        raise ValueError(f"{run.folder} holds a run already; resume=true resumes it, run=... starts another")
    former = current_overrides(run.fact("words"), warn=False)
    config = resolved_config(joined(former, current_overrides(overrides, warn=False)), warn=False)
    _find_data(config, run, overrides)
    return config


def _find_data(config: dict[str, Any], run: Run, overrides: Sequence[str]) -> None:
    """Take the data from where the run knows them to be, if they are there and the overrides name no other place."""
    known = run.data().path
    if any(override.startswith(("data.path=", "data.reader")) for override in overrides) or not Path(known).exists():
        return
    for part in (config["data"], config["data"].get("reader")):
        if select(part or {}, "path") is not None:
            part["path"] = known
