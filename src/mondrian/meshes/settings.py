"""From the configuration of a run on meshes to its data and its model."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from tqdm import tqdm

from mondrian.grid import Grid
from mondrian.meshes.files import Meshes, MeshFiles, MeshSplits
from mondrian.meshes.poisson import PerforatedPoisson, mesh_files, write_poisson
from mondrian.meshes.surrogate import MeshSurrogateSpec
from mondrian.points.model import PointSpec
from mondrian.process import is_first
from mondrian.spec import Spec
from mondrian.surrogate import Scale
from mondrian.training.fitting import check_channels
from mondrian.training.normalisation import Moments, entering, scale_of
from mondrian.training.settings import number, spec_of, whole, words_of


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
        files=MeshFiles(path=str(Path(data.path).resolve())),
        input=words_of(config, "data.input"),
        target=words_of(config, "data.target"),
        box=box,
        simulations=None if data.simulations is None else whole(config, "data.simulations"),
        fractions=tuple(data.fractions),
        seed=whole(config, "data.seed", least=0),
    )


def make_meshes(config: DictConfig, folder: Path, *, seed: int = 0, progress: bool) -> None:
    """Solve, or complete, the problems that a configuration describes. Of several processes the first does it."""
    problem: PerforatedPoisson = spec_of(config.data, "problem", PerforatedPoisson)
    counts = {str(part): int(count) for part, count in config.simulations.items()}
    if is_first(os.environ):
        write_poisson(folder, problem, counts, seed=seed, progress=progress)
    seconds, since, count = number(config, "trainer.timeout") if "trainer" in config else 0.0, time.monotonic(), -1
    while missing := [path for path in mesh_files(folder, counts) if not path.exists()]:
        if len(missing) != count:
            count, since = len(missing), time.monotonic()
        elif time.monotonic() - since > seconds:
            raise TimeoutError(
                f"{folder} lacks {count} meshes and has had no new one for {seconds:g} s (trainer.timeout): the first "
                "process, which makes them, does not answer"
            )
        time.sleep(1)


def fitted_spec(config: DictConfig, splits: MeshSplits, *, progress: bool) -> MeshSurrogateSpec:
    """The model of a configuration with the channels of the data, and scales fitted to the training meshes."""
    train = splits.meshes("train")
    model = config.model.copy()
    OmegaConf.set_struct(model, False)
    for key, names in {"in_channels": train.in_names, "out_channels": train.out_names}.items():
        if OmegaConf.is_missing(model, key):
            model[key] = len(names)
    with torch.device("meta"):
        spec: Any = instantiate(model, _convert_="all").spec
    if not isinstance(spec, PointSpec):
        raise ValueError(
            f"model={type(spec).__name__.removesuffix('Spec')} is for grids; on meshes needed model=points"
        )
    if spec.dim != train.dim:
        raise ValueError(f"model.reference={list(spec.reference)} has {spec.dim} axes; the meshes have {train.dim}")
    check_channels(spec, in_names=train.in_names, out_names=train.out_names)
    in_scales, out_scales = fit_mesh_scales(
        train, method=str(config.normalise), log=words_of(config, "data.log"), progress=progress
    )
    return MeshSurrogateSpec(spec, train.in_names, train.out_names, in_scales, out_scales, splits.box)


def fit_mesh_scales(
    meshes: Meshes, *, method: str, log: tuple[str, ...] = (), progress: bool = False
) -> tuple[tuple[Scale, ...], tuple[Scale, ...]]:
    """The scales of input and output channels, from the values at all vertices."""
    for name in log:
        if name not in (*meshes.in_names, *meshes.out_names):
            raise ValueError(f"log names {name!r}; the channels are {sorted({*meshes.in_names, *meshes.out_names})}")
    found = {(side, name): Moments() for side, names in _sides(meshes) for name in names}
    numbers = range(len(meshes))
    for number_ in tqdm(numbers, desc="reading meshes", unit="mesh", disable=None if progress else True, leave=False):
        sample = meshes[number_]
        for side, names in _sides(meshes):
            for name, values in zip(names, getattr(sample, side), strict=True):
                found[side, name].add(entering(values, name, log))
    x, y = (
        tuple(scale_of(found[side, name], method, log=name in log) for name in names) for side, names in _sides(meshes)
    )
    return x, y


def _sides(meshes: Meshes) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("x", meshes.in_names), ("y", meshes.out_names)
