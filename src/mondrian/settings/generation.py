"""What `mondrian generate` is told, in types: overrides such as `data=navier_stokes scale=smoke path=data/ns`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from omegaconf import DictConfig

from mondrian.data.generate import SimulatedGrids
from mondrian.data.meshes.poisson import SimulatedMeshes
from mondrian.data.problems import Problem
from mondrian.data.restriction import BlockAverage, FourierTruncation, Linear, Restriction
from mondrian.settings.compose import choices, composed, plain, scaled, scales, split_choices
from mondrian.settings.data import simulated_grids, simulated_meshes
from mondrian.settings.values import Config, flag, integer, select, spec_of, string
from mondrian.support.process import cores, rank

RESTRICTIONS: Mapping[str, type[Restriction]] = {
    "average": BlockAverage,
    "linear": Linear,
    "fourier": FourierTruncation,
}
OF_GRIDS = ("workers", "restrict", "native", "repair", "preview")


@dataclass(frozen=True)
class GenerationSpec:
    """A data set to simulate in `folder`, or the share (i, n) of it that this process makes."""

    folder: Path
    data: SimulatedGrids | SimulatedMeshes
    share: tuple[int, int]
    preview: bool


def generation_spec(overrides: Sequence[str]) -> GenerationSpec:
    """The data set that overrides describe."""
    config = plain(configure(overrides))
    if select(config, "path") is None:
        raise ValueError("path is missing; needed the folder to write, for example path=data/allen_cahn")
    shard = select(config, "shard")
    share = rank(os.environ) if shard is None else _share(str(shard))
    data = _meshes(config) if select(config, "data.meshes") else _grids(config, share)
    return GenerationSpec(Path(string(config, "path")), data, share, flag(config, "preview"))


def configure(overrides: Sequence[str]) -> DictConfig:
    """The configuration with overrides; `scale=...` goes with `data=...`."""
    chosen, rest = split_choices(overrides, {"data": "allen_cahn", "scale": "cpu"})
    data = chosen["data"]
    if not scales("generate_scale", data):
        names = sorted({name.rpartition("_")[0] for name in choices("generate_scale")})
        raise ValueError(f"data={data} cannot be generated; needed one of {', '.join(names)}")
    file = scaled("generate_scale", data, chosen["scale"])
    return composed("generate", [f"data={data}", f"generate_scale={file}", *rest])


def problem(config: Config) -> Problem:
    """The problem of a configuration, restricted from a fine grid or native to each grid."""
    described = spec_of(config, "data.problem", Problem)  # type: ignore[type-abstract]
    name = select(config, "restrict")
    if name is not None and str(name) not in RESTRICTIONS:
        raise ValueError(f"restrict={name} is not known; needed one of {', '.join(RESTRICTIONS)}")
    chosen = {} if name is None else {"restriction": RESTRICTIONS[str(name)]()}
    return replace(described, native=flag(config, "native"), **chosen)  # type: ignore[arg-type]


def _grids(config: Config, share: tuple[int, int]) -> SimulatedGrids:
    described = simulated_grids(config, problem(config), seed=integer(config, "seed", least=0))
    workers = 1 if share[1] > 1 else cores()
    if select(config, "workers") is not None:
        workers = integer(config, "workers")
    return replace(described, workers=workers, repair=flag(config, "repair"))


def _meshes(config: Config) -> SimulatedMeshes:
    """Problems on meshes, a file each: what concerns shards and grids says nothing there."""
    for key in OF_GRIDS:
        if select(config, key):
            name = select(config, "data.problem.spec")
            raise ValueError(f"{key}={select(config, key)} is for fields on grids; data={name} is on meshes")
    return simulated_meshes(config, seed=integer(config, "seed", least=0))


def _share(text: str) -> tuple[int, int]:
    number, slash, total = text.partition("/")
    if not (slash and number.isdecimal() and total.isdecimal() and int(number) < int(total)):
        raise ValueError(f"shard={text} must be i/n with i from 0 to n - 1, for example shard=0/4")
    return int(number), int(total)
