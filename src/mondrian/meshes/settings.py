"""From the configuration of a run on meshes to its data and its model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mondrian.data.meshes.files import Meshes, MeshFiles, MeshSplits
from mondrian.data.meshes.poisson import PerforatedPoisson, mesh_files, write_poisson
from mondrian.grid import Grid
from mondrian.models.points import PointSpec
from mondrian.settings.recipes import spec_from
from mondrian.settings.values import counts, number, spec_of, whole, words_of
from mondrian.support.process import is_first
from mondrian.support.spec import Spec
from mondrian.surrogate import MeshSurrogateSpec
from mondrian.training.fitting import check_channels, with_channels
from mondrian.training.normalisation import fit_scales
from mondrian.training.settings import wait_for_files


def mesh_splits(config: DictConfig) -> MeshSplits:
    """The meshes of a configuration."""
    data = config.data
    for key in ("input", "target"):
        if OmegaConf.is_missing(data, key):
            raise ValueError(f"data.{key} is missing; needed names of fields, for example data.{key}=[u]")
    if data.path is None:
        raise ValueError("data.path is missing; needed a folder of meshes")
    box = None if data.box is None else Spec.from_json(OmegaConf.to_container(data.box, resolve=True))
    if box is not None and not isinstance(box, Grid):
        raise ValueError(f"data.box={box} is no Grid")
    return MeshSplits(
        files=MeshFiles(path=str(Path(data.path).resolve())).pinned(),
        input=words_of(config, "data.input"),
        target=words_of(config, "data.target"),
        box=box,
        simulations=None if data.simulations is None else whole(config, "data.simulations"),
        fractions=tuple(data.get("fractions", (0.7, 0.15, 0.15))),
        seed=whole(config, "data.seed", least=0) if "seed" in data else 0,
    )


def open_meshes(config: DictConfig, *, progress: bool) -> MeshSplits:
    """The meshes of a configuration, solved first where they are ours and their folder was not given."""
    if not config.data.get("make"):
        return mesh_splits(config)
    made = make_meshes(config, Path(config.data.path), progress=progress)
    splits = mesh_splits(config)
    return splits if splits.simulations else replace(splits, simulations=made["train"])


def make_meshes(config: DictConfig, folder: Path, *, progress: bool) -> dict[str, int]:
    """Solve, or complete, the problems of a run; of several processes the first does it. How many there are a part."""
    wanted = counts(config, "simulations")
    if is_first(os.environ):
        write_poisson(folder, spec_of(config.data, "problem", PerforatedPoisson), wanted, progress=progress)
    wait_for_files(mesh_files(folder, wanted), number(config, "trainer.timeout"), folder)
    return wanted


def fitted_spec(
    config: DictConfig, splits: MeshSplits, model: PointSpec | None = None, *, progress: bool
) -> MeshSurrogateSpec:
    """A model, by default that of the configuration, with scales fitted to the training meshes."""
    train = splits.meshes("train", memory=0)
    spec: Any = model or _configured_model(config, train)
    if not isinstance(spec, PointSpec):
        raise ValueError(
            f"model={type(spec).__name__.removesuffix('Spec')} is for grids; on meshes needed model=points"
        )
    if spec.dim != train.dim:
        raise ValueError(f"model.reference={list(spec.reference)} has {spec.dim} axes; the meshes have {train.dim}")
    check_channels(spec, in_names=train.in_channels, out_names=train.out_channels)
    in_scales, out_scales = fit_scales(
        train, method=str(config.normalise), log=words_of(config, "data.log"), progress=progress
    )
    return splits.surrogate(spec, train, in_scales, out_scales)


def _configured_model(config: DictConfig, train: Meshes) -> Any:
    """The model of a configuration with the channels of the data where it leaves them open."""
    return spec_from(with_channels(config.model, in_names=train.in_channels, out_names=train.out_channels))
