"""A whole training run, from a configuration to a folder with the best model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
from lightning.pytorch import Callback
from lightning.pytorch.plugins import DoublePrecision
from omegaconf import DictConfig, OmegaConf

from mondrian.artefact import ModelSpec
from mondrian.data.meshes.files import MeshSplits
from mondrian.data.splits import Splits
from mondrian.losses import Loss
from mondrian.models.points import PointSpec
from mondrian.parallel.mesh import check_shares
from mondrian.parallel.model import check_spread
from mondrian.settings.compose import quoted
from mondrian.settings.values import flag, number, spec_of, whole, words_of
from mondrian.surrogate import SurrogateSpec
from mondrian.training.data import OperatorData
from mondrian.training.fitting import check_channels, model_spec, surrogate_spec
from mondrian.training.module import OperatorTraining
from mondrian.training.optimiser import AdamW
from mondrian.training.order import Batches
from mondrian.training.run import Run
from mondrian.training.session import Session, configured
from mondrian.training.settings import check_scaling, splits_of, window_of
from mondrian.training.symmetries import Parity, check_names, check_parity
from mondrian.training.unroll import Unroll


def train(experiment: str, *words: str, progress: bool = False) -> Run:
    """Train a recipe, with the same words as on the command line.

    run = train("allen_cahn/vit_sepmo", "scale=smoke", "run=runs/first")
    """
    return train_config([f"experiment={experiment}", *words], progress=progress)


def train_model(model: ModelSpec, splits: Splits | MeshSplits, *words: str, progress: bool = False) -> Run:
    """Train a model of your own on data of your own; words say the rest, `run=FOLDER` at least.

    run = train_model(model.spec, Splits(files=..., window=...), "run=runs/mine", "max_steps=1000")
    """
    if isinstance(splits, MeshSplits):
        return _train_on_meshes(model, splits, words, progress=progress)
    config, window = configured(words), splits.window
    OmegaConf.set_struct(config, False)
    config.model = model.to_json()
    config.data.merge_with({"input": list(window.input), "target": list(window.target)})
    config.data.merge_with({"steps_in": window.steps_in, "steps_out": window.steps_out})
    return _train(config, words, lambda _: splits, lambda *_: model, progress=progress)


def _train_on_meshes(model: ModelSpec, splits: MeshSplits, words: Sequence[str], *, progress: bool) -> Run:
    from mondrian.meshes.training import train_meshes  # which needs what is here

    if not isinstance(model, PointSpec):
        raise ValueError(f"model={model} is for grids; on meshes needed a PointSpec, such as point_no(...).spec")
    words = ["data=meshes", f"data.path={quoted(splits.files.path)}", *words]
    config = configured(words)
    OmegaConf.set_struct(config, False)
    config.model = model.to_json()
    config.data.merge_with({"input": list(splits.input), "target": list(splits.target)})
    pinned = replace(splits, files=splits.files.pinned())
    return train_meshes(config, words, model=model, splits=pinned, progress=progress)


def train_config(words: Sequence[str], *, progress: bool = False, callbacks: Sequence[Callback] = ()) -> Run:
    """Train what some overrides describe. With `resume=true` those that the run began with need not be said again.

    `callbacks` of the caller run after our own: after a validation its loss is logged and the best model kept.
    """
    config = configured(words)
    if config.data.get("meshes"):
        from mondrian.meshes.training import train_meshes  # which needs what is here

        return train_meshes(config, words, progress=progress, callbacks=callbacks)
    open_splits = partial(splits_of, progress=progress)
    return _train(config, words, open_splits, model_spec, progress=progress, callbacks=callbacks)


def make_data(config: DictConfig, *, progress: bool) -> None:
    """Make or open the data of a run, so that what is wrong with them is said."""
    check_scaling(config)
    if config.data.get("meshes"):
        from mondrian.meshes.settings import open_meshes

        open_meshes(config, progress=progress)
    else:
        splits_of(config, progress=progress)


def _train(
    config: DictConfig,
    words: Sequence[str],
    open_splits: Callable[[DictConfig], Splits],
    make_model: Callable[[DictConfig, OperatorData], ModelSpec],
    *,
    progress: bool,
    callbacks: Sequence[Callback] = (),
) -> Run:
    loss, optimiser = spec_of(config, "loss", Loss), spec_of(config, "optimizer", AdamW)
    seed = whole(config, "seed", least=0)
    unroll = Unroll(
        whole(config, "unroll"),
        flag(config, "pushforward"),
        whole(config, "grow_every", least=0),
        number(config, "noise"),
    )
    if unroll.noise and config.normalise == "none":
        raise ValueError(f"noise={unroll.noise} is in units of the fields' deviations; normalise=none knows none")
    session = Session.open(config, words, progress=progress, callbacks=callbacks)
    trainer = session.trainer
    augment, symmetries = words_of(config, "augment"), words_of(config, "data.symmetries")
    check_names(augment, allowed=symmetries)
    window, found = window_of(config), config.data.parity
    parity: Parity = dict(found) if OmegaConf.is_dict(found) else found
    check_parity(parity, fields=(*window.input, *window.target))
    check_scaling(config)
    batch_size, workers = whole(config, "batch_size"), whole(config, "workers", least=0)
    subdomains = whole(config, "parallel.subdomains")
    check_shares(trainer.world_size, subdomains)
    Batches(batch_size, 1, accumulate=trainer.accumulate_grad_batches, ranks=trainer.world_size // subdomains)
    if subdomains > 1 and flag(config, "trainer.compile"):
        raise ValueError(
            f"trainer.compile=true cannot compile what parallel.subdomains={subdomains} exchanges; needed one"
        )
    splits = open_splits(config)
    session.check_data(splits)
    data = OperatorData(
        splits,
        batch_size=batch_size,
        max_steps=whole(config, "max_steps"),
        applications=unroll.applications,
        augment=augment,
        symmetries=symmetries,
        parity=parity,
        workers=workers,
        dtype=torch.float64 if isinstance(trainer.precision_plugin, DoublePrecision) else torch.float32,
        seed=seed,
        subdomains=subdomains,
    )
    if session.goes_on:
        spec = session.stored_spec(SurrogateSpec)
    else:
        model = make_model(config, data)
        check_channels(model, in_names=data.in_names, out_names=data.out_names)
        spec = surrogate_spec(config, model, data, progress=progress)
    torch.manual_seed(seed)
    surrogate = spec.build()
    if subdomains > 1:
        for samples in (data.train, data.valid):
            check_spread(surrogate.model, samples.grid, subdomains)
    module = OperatorTraining(
        surrogate, loss=loss, optimiser=optimiser, unroll=unroll, seed=seed, subdomains=subdomains
    )
    return session.fit(module, data, surrogate, splits)
