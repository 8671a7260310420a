"""A whole training run, from a configuration to a folder with the best model."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from mondrian.artefact import ModelSpec
from mondrian.data.splits import Splits
from mondrian.losses import Loss
from mondrian.parallel.mesh import check_shares
from mondrian.parallel.model import check_spread
from mondrian.parallel.peers import check_restarts, naming_lost_peers
from mondrian.process import is_first
from mondrian.run import Run
from mondrian.spec import Spec
from mondrian.surrogate import SurrogateSpec
from mondrian.training.checkpoints import newest
from mondrian.training.data import OperatorData
from mondrian.training.fitting import check_channels, model_spec, surrogate_spec
from mondrian.training.module import OperatorTraining
from mondrian.training.optimiser import AdamW
from mondrian.training.order import Batches
from mondrian.training.record import facts_of, joined, refuse_changes, refuse_other_data
from mondrian.training.settings import configure, flag, number, spec_of, splits_of, whole, words_of
from mondrian.training.symmetries import check_names
from mondrian.training.trainer import quiet, trainer_of
from mondrian.training.unroll import Unroll


def train(experiment: str, *words: str, progress: bool = False) -> Run:
    """Train a recipe, with the same words as on the command line.

    run = train("allen_cahn/vit_sepmo", "scale=smoke", "run=runs/first")
    """
    return train_config([f"experiment={experiment}", *words], progress=progress)


def train_model(model: ModelSpec, splits: Splits, *words: str, progress: bool = False) -> Run:
    """Train a model of your own on data of your own; words say the rest, `run=FOLDER` at least.

    run = train_model(model.spec, Splits(files=..., window=...), "run=runs/mine", "max_steps=1000")
    """
    config, window = _configure(words), splits.window
    OmegaConf.set_struct(config, False)
    config.model = model.to_json()
    config.data.merge_with({"input": list(window.input), "target": list(window.target)})
    config.data.merge_with({"steps_in": window.steps_in, "steps_out": window.steps_out})
    return _train(config, words, lambda _: splits, lambda *_: model, progress=progress)


def train_config(words: Sequence[str], *, progress: bool = False) -> Run:
    """Train what some overrides describe. With `resume=true` those that the run began with need not be said again."""
    return _train(
        _configure(words), words, lambda config: splits_of(config, progress=progress), model_spec, progress=progress
    )


def _configure(words: Sequence[str]) -> DictConfig:
    config = configure(words)
    run = Run(Path(str(config.run)))
    resume = flag(config, "resume")
    if resume and not run.record.exists() and not any(word.startswith(("experiment=", "data")) for word in words):
        raise ValueError(f"{run.folder} holds no run to go on with")
    if not run.record.exists() or (not resume and not is_first(os.environ)):  # the first process wrote it just now
        return config
    if not resume:
        raise ValueError(f"{run.folder} holds a run already; resume=true goes on with it, run=... starts another")
    return configure(joined(run.facts["words"], words))


def _train(
    config: DictConfig,
    words: Sequence[str],
    open_splits: Callable[[DictConfig], Splits],
    make_model: Callable[[DictConfig, OperatorData], ModelSpec],
    *,
    progress: bool,
) -> Run:
    check_restarts(os.environ)
    run, seed = Run(Path(str(config.run))), whole(config, "seed", least=0)
    goes_on = flag(config, "resume") and run.record.exists()
    loss, optimiser = spec_of(config, "loss", Loss), spec_of(config, "optimizer", AdamW)
    unroll = Unroll(
        whole(config, "unroll"),
        flag(config, "pushforward"),
        whole(config, "grow_every", least=0),
        number(config, "noise"),
    )
    if unroll.noise and config.normalise == "none":
        raise ValueError(f"noise={unroll.noise} is in units of the fields' deviations; normalise=none knows none")
    if goes_on:
        refuse_changes(run, config)
    identity = run.facts["id"] if goes_on else uuid.uuid4().hex[:12]
    with quiet():  # what is wrong with the settings is said before anything is simulated or read
        trainer = trainer_of(config, run, identity=identity, progress=progress)
    augment, symmetries = words_of(config, "augment"), words_of(config, "data.symmetries")
    check_names(augment, allowed=symmetries)
    batch_size, workers = whole(config, "batch_size"), whole(config, "workers", least=0)
    subdomains = whole(config, "parallel.subdomains")
    check_shares(trainer.world_size, subdomains)
    Batches(batch_size, 1, accumulate=trainer.accumulate_grad_batches, ranks=trainer.world_size // subdomains)
    if subdomains > 1 and flag(config, "trainer.compile"):
        raise ValueError(
            f"trainer.compile=true cannot compile what parallel.subdomains={subdomains} exchanges; needed one"
        )
    splits = open_splits(config)
    if goes_on:
        refuse_other_data(run, splits)
    data = OperatorData(
        splits,
        batch_size=batch_size,
        max_steps=whole(config, "max_steps"),
        applications=unroll.applications,
        augment=augment,
        symmetries=symmetries,
        parity=config.data.parity,
        workers=workers,
        seed=seed,
        subdomains=subdomains,
    )
    if goes_on:
        spec = Spec.from_json(run.facts["surrogate"])
        assert isinstance(spec, SurrogateSpec)
    else:
        model = make_model(config, data)
        check_channels(model, data)
        spec = surrogate_spec(config, model, data, progress=progress)
    torch.manual_seed(seed)
    surrogate = spec.build()
    if subdomains > 1:
        for samples in (data.train, data.valid):
            check_spread(surrogate.model, samples.grid, subdomains)
    module = OperatorTraining(
        surrogate, loss=loss, optimiser=optimiser, unroll=unroll, seed=seed, subdomains=subdomains
    )
    if not goes_on and is_first(os.environ):
        run.write({"id": identity, **facts_of(config, words, splits, surrogate)})
    patience = f"trainer.timeout={number(config, 'trainer.timeout'):g} s"
    advice = "Once they can be started again, resume=true goes on from the last checkpoint"
    with quiet(), naming_lost_peers(trainer.global_rank, trainer.world_size, patience=patience, advice=advice):
        if flag(config, "trainer.compile"):
            surrogate.model.compile()
        trainer.fit(module, data, ckpt_path=_checkpoint(run) if goes_on else None, weights_only=True)
    return run


def _checkpoint(run: Run) -> Path | None:
    found = newest(run.checkpoints, clean=is_first(os.environ))
    if found is None and is_first(os.environ):
        print(f"{run.folder} has no checkpoint yet: training starts from the beginning", file=sys.stderr)
    return found
