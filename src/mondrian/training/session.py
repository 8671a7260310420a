"""What every training run goes through, whatever it trains: the folder, the trainer, and the way back after a stop."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from lightning.pytorch import Callback, LightningModule, Trainer
from omegaconf import DictConfig, OmegaConf

from mondrian.parallel.peers import check_restarts, naming_lost_peers
from mondrian.settings.values import flag, number
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
from mondrian.training.settings import configure
from mondrian.training.trainer import quiet, trainer_of

S = TypeVar("S", bound=ScaledSpec)


@dataclass(frozen=True)
class Session:
    """A run that begins, or goes on."""

    config: DictConfig
    words: Sequence[str]
    run: Run
    goes_on: bool
    identity: str
    trainer: Trainer

    @classmethod
    def open(
        cls, config: DictConfig, words: Sequence[str], *, progress: bool, callbacks: Sequence[Callback] = ()
    ) -> Session:
        """Check what can be checked before anything is simulated or read."""
        check_restarts(os.environ)
        run = Run(Path(str(config.run)))
        goes_on = flag(config, "resume") and run.record.exists()
        if goes_on:
            refuse_changes(run, config)
        identity = run.fact("id") if goes_on else uuid.uuid4().hex[:12]
        with quiet():
            trainer = trainer_of(config, run, identity=identity, progress=progress, callbacks=callbacks)
        return cls(config, words, run, goes_on, identity, trainer)

    def check_data(self, data: Spec) -> None:
        """Refuse to go on with other data than the run began with."""
        if self.goes_on:
            refuse_other_data(self.run, data)

    def stored_spec(self, kind: type[S]) -> S:
        """The model that the run began with."""
        spec = Spec.from_json(self.run.fact("surrogate"))
        assert isinstance(spec, kind)
        return spec

    def fit(self, module: LightningModule, data: ResumableData, surrogate: ScaledModel, source: Spec) -> Run:
        """Write down what is trained on which data, and train it."""
        samples = data.digest()
        if self.goes_on:
            refuse_other_samples(self.run, samples)
        checkpoint = self._checkpoint() if self.goes_on else None
        ended = checkpoint is not None and step_of(checkpoint) >= data.max_steps
        if is_first(os.environ):
            if ended:
                print(f"{self.run.folder}: no step of max_steps={data.max_steps} is left to train", file=sys.stderr)
            self.run.write(self._facts(source, samples, surrogate, ended=ended))
        patience = f"trainer.timeout={number(self.config, 'trainer.timeout'):g} s"
        advice = "Once they can be started again, resume=true goes on from the last checkpoint"
        rank, ranks = self.trainer.global_rank, self.trainer.world_size
        with quiet(), naming_lost_peers(rank, ranks, patience=patience, advice=advice):
            if flag(self.config, "trainer.compile"):
                surrogate.model.compile()
            self.trainer.fit(module, data, ckpt_path=checkpoint, weights_only=True)
        return self.run

    def _facts(self, source: Spec, samples: str, surrogate: ScaledModel, *, ended: bool) -> dict[str, Any]:
        """What `run.json` says: of a run that has ended nothing new but where its data are."""
        if not self.goes_on:
            return {"id": self.identity, **facts_of(self.config, self.words, source, samples, surrogate)}
        if ended:
            return self.run.facts | {"data": source.to_json()}
        return renewed(self.run.facts, self.config, self.words, source)

    def _checkpoint(self) -> Path | None:
        found = newest(self.run.checkpoints, clean=is_first(os.environ))
        if found is None and is_first(os.environ):
            print(f"{self.run.folder} has no checkpoint yet: training starts from the beginning", file=sys.stderr)
        return found


def configured(words: Sequence[str]) -> DictConfig:
    """The configuration of some overrides; with `resume=true` those that the run began with need not be said again."""
    config = configure(words)
    run = Run(Path(str(config.run)))
    resume = flag(config, "resume")
    if resume and not run.record.exists() and not any(word.startswith(("experiment=", "data")) for word in words):
        raise ValueError(f"{run.folder} holds no run to go on with")
    if not run.record.exists() or (not resume and not is_first(os.environ)):  # the first process wrote it just now
        return config
    if not resume:
        raise ValueError(f"{run.folder} holds a run already; resume=true goes on with it, run=... starts another")
    config = configure(joined(run.fact("words"), words))
    _find_data(config, run, words)
    return config


def _find_data(config: DictConfig, run: Run, words: Sequence[str]) -> None:
    """Take the data from where the run knows them to be, if they are there and nobody says otherwise."""
    known = run.source().files.path
    if any(word.startswith(("data.path=", "data.reader")) for word in words) or not Path(known).exists():
        return
    for key in ("data.path", "data.reader.path"):
        if OmegaConf.select(config, key) is not None:
            OmegaConf.update(config, key, known)
