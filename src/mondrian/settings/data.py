"""Data sets as a configuration describes them: where they are, and how they are simulated if they are ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mondrian.data.generate import SimulatedGrids, plan
from mondrian.data.meshes.files import MeshFiles, MeshSplits
from mondrian.data.meshes.poisson import PerforatedPoisson, SimulatedMeshes
from mondrian.data.problems import Problem
from mondrian.data.protocol import DataSpec, SimulatedData
from mondrian.data.sources import Files, WellFiles
from mondrian.data.splits import Splits
from mondrian.grid import Grid
from mondrian.settings.values import (
    Config,
    counts,
    integer,
    numbers,
    per_split,
    resolution,
    resolutions,
    select,
    spec_of,
    strings,
)
from mondrian.surrogate import Window


def data_spec(config: Config) -> DataSpec[Any]:
    """The data set of a configuration; nothing is opened."""
    for key in ("data.input", "data.target"):
        if select(config, key) is None:
            raise ValueError(f"{key} is missing; needed names of fields, for example {key}=[u]")
    return _meshes(config) if select(config, "data.meshes") else _grids(config)


def simulated_data(config: Config) -> SimulatedData:
    """What the folder of the problem of a configuration is to hold."""
    if select(config, "data.meshes"):
        return simulated_meshes(config)
    problem = spec_of(config, "data.problem", Problem)  # type: ignore[type-abstract]
    return simulated_grids(config, problem)


def simulated_grids(config: Config, problem: Problem, *, seed: int = 0) -> SimulatedGrids:
    """Simulations of a problem, as many and at those resolutions that the configuration names."""
    manifest = plan(
        problem,
        seed=seed,
        simulations=counts(config, "simulations"),
        points=per_split(config, "data.points", resolutions),
        shard_size=integer(config, "shard_size"),
    )
    return SimulatedGrids(manifest)


def simulated_meshes(config: Config, *, seed: int = 0) -> SimulatedMeshes:
    """Problems on meshes, as many as the configuration names."""
    return SimulatedMeshes(spec_of(config, "data.problem", PerforatedPoisson), counts(config, "simulations"), seed=seed)


def _grids(config: Config) -> Splits:
    path, reader = select(config, "data.path"), select(config, "data.reader")
    if (reader is not None) == (path is not None):
        raise ValueError("needed one of data.path, a folder, and data.reader, a description of other people's files")
    points = select(config, "data.train_points")
    return Splits(
        files=_other_files(config) if path is None else WellFiles(path=str(Path(path).resolve())),
        window=Window(
            input=strings(config, "data.input"),
            target=strings(config, "data.target"),
            steps_in=integer(config, "data.steps_in"),
            steps_out=integer(config, "data.steps_out"),
        ),
        points=() if points is None else resolution(config, "data.train_points"),
        simulations=_simulations(config),
        fractions=numbers(config, "data.fractions"),
        seed=integer(config, "data.seed", least=0),
    )


def _other_files(config: Config) -> Files:
    """Other people's files by an absolute path; a reader of one's own may name something else than a file."""
    files = spec_of(config, "data.reader", Files)
    return replace(files, path=str(Path(files.path).resolve())) if Path(files.path).exists() else files


def _meshes(config: Config) -> MeshSplits:
    data: Mapping[str, Any] = config["data"]
    if data["path"] is None:
        raise ValueError("data.path is missing; needed a folder of meshes")
    box = None if data["box"] is None else spec_of(config, "data.box", Grid)
    made = integer(config, "simulations.train") if data.get("make") else None
    return MeshSplits(
        files=MeshFiles(path=str(Path(data["path"]).resolve())),
        input=strings(config, "data.input"),
        target=strings(config, "data.target"),
        box=box,
        simulations=_simulations(config) or made,
        fractions=numbers(config, "data.fractions") if "fractions" in data else (0.7, 0.15, 0.15),
        seed=integer(config, "data.seed", least=0) if "seed" in data else 0,
    )


def _simulations(config: Config) -> int | None:
    return None if select(config, "data.simulations") is None else integer(config, "data.simulations")
