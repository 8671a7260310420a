"""Simulate a data set: reproducible from one seed, in shards, on all cores, and again after a crash.

  mondrian generate path=data/ac scale=smoke             Allen-Cahn, 40 simulations, seconds
  mondrian generate path=data/ac                         scale=cpu: a minute or two on two cores
  mondrian generate path=data/ac scale=paper seed=3      the paper's data set
  mondrian generate data=navier_stokes path=data/ns      decaying turbulence, 50 frames a simulation
  mondrian generate data=kuramoto_sivashinsky path=data/ks
                                                         chaos on a ring, in one dimension
  mondrian generate data=allen_cahn3d path=data/cube     Allen-Cahn in three dimensions
  mondrian generate data=poisson path=data/poisson       Poisson's equation on perforated squares: a file a mesh
  mondrian generate path=data/ac scale=smoke preview=true
                                                         and pictures of a few, in data/ac/preview

Stopped, killed or out of disk? The same command goes on where it was. Shards that exist are checked first;
a damaged one is named, and made again by the same command with `repair=true`:

  mondrian generate path=data/ac scale=smoke repair=true

On several machines with a common folder, no coordination needed (0/4, 1/4, 2/4, 3/4):

  mondrian generate path=/shared/ac scale=paper shard=2/4
  srun -n 4 mondrian generate path=/shared/ac scale=paper
  torchrun --nproc-per-node 4 -m mondrian.cli generate path=/shared/ac scale=paper

Each simulation depends on (seed, split, index) alone, not on shards, workers or machines. It is simulated on
a fine grid and restricted, because solutions of the equation on coarse grids are other solutions:

  restrict=average|linear|fourier     how (average for Allen-Cahn, fourier for Navier-Stokes)
  native=true                         solve on each of the grids instead

Sizes and physics are settings as well:

  simulations.train=5000 shard_size=100 workers=8
  data.points.test=[[16,16],[128,128]]
  data.problem.gamma=[1e-5,5e-3] data.problem.grid.points=[256,256]

The files are HDF5 in the layout of The Well: the package the_well opens them with
`WellDataset(path="data/ac/32x32", well_split_name="train")`, and this one with
`mondrian.data.WellFiles(path="data/ac", split="train").open()`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mondrian.data.generate import generate, plan
from mondrian.data.manifest import Manifest
from mondrian.data.meshes.poisson import PerforatedPoisson, write_poisson
from mondrian.data.problems import Problem
from mondrian.data.restriction import BlockAverage, FourierTruncation, Linear, Restriction
from mondrian.settings.compose import choices, composed, scaled, scales, taken
from mondrian.settings.values import counts, each, flag, resolutions, spec_of, whole
from mondrian.support.process import cores, rank
from mondrian.support.spec import Spec

RESTRICTIONS: Mapping[str, type[Restriction]] = {
    "average": BlockAverage,
    "linear": Linear,
    "fourier": FourierTruncation,
}


def run(arguments: list[str]) -> None:
    """Generate what the overrides describe."""
    config = configure(arguments)
    if OmegaConf.is_missing(config, "path") or config.path is None:
        raise ValueError("path is missing; needed the folder to write, for example path=data/allen_cahn")
    folder = Path(str(config.path))
    if config.data.get("meshes"):
        _meshes(config, folder)
        return
    wanted = plan(
        problem(config),
        seed=whole(config, "seed", least=0),
        simulations=counts(config, "simulations"),
        points=each(config, "data.points", resolutions),
        shard_size=whole(config, "shard_size"),
    )
    share = _share(config.shard) if config.shard is not None else rank(os.environ)
    workers = 1 if share[1] > 1 else cores()
    if config.workers is not None:
        workers = whole(config, "workers")
    repair, preview = (flag(config, name) for name in ("repair", "preview"))
    began = time.perf_counter()
    made = generate(folder, wanted, workers=workers, share=share, repair=repair, progress=True)
    _report(folder, made, share, time.perf_counter() - began)
    if preview:
        _preview(folder, made)


def _meshes(config: DictConfig, folder: Path) -> None:
    """Solve problems on meshes, a file each: what concerns shards and grids means nothing there."""
    for key in ("workers", "restrict", "native", "repair", "preview"):
        if config[key]:
            raise ValueError(
                f"{key}={config[key]} is for fields on grids; data={config.data.problem.spec} is on meshes"
            )
    wanted = counts(config, "simulations")
    share = _share(config.shard) if config.shard is not None else rank(os.environ)
    problem = spec_of(config.data, "problem", PerforatedPoisson)
    write_poisson(folder, problem, wanted, seed=whole(config, "seed", least=0), share=share, progress=True)
    print(f"{folder}: {', '.join(f'{part} {count}' for part, count in wanted.items())} meshes")


def configure(arguments: list[str]) -> DictConfig:
    """The configuration with overrides; `scale=...` goes with `data=...`."""
    chosen, rest = taken(arguments, {"data": "allen_cahn", "scale": "cpu"})
    data = chosen["data"]
    if not scales("generate_scale", data):
        names = sorted({name.rpartition("_")[0] for name in choices("generate_scale")})
        raise ValueError(f"data={data} cannot be generated; needed one of {', '.join(names)}")
    file = scaled("generate_scale", data, chosen["scale"])
    return composed("generate", [f"data={data}", f"generate_scale={file}", *rest])


def problem(config: DictConfig) -> Problem:
    """The problem that the configuration describes."""
    described: Any = OmegaConf.to_container(config.data.problem, resolve=True)
    described["native"] = flag(config, "native")
    if config.restrict is not None:
        if str(config.restrict) not in RESTRICTIONS:
            raise ValueError(f"restrict={config.restrict} is not known; needed one of {', '.join(RESTRICTIONS)}")
        described["restriction"] = RESTRICTIONS[config.restrict]().to_json()
    found = Spec.from_json(described)
    if not isinstance(found, Problem):
        raise ValueError(f"data.problem={found} cannot be simulated; needed a Problem")
    return found


def _share(text: str) -> tuple[int, int]:
    number, slash, total = str(text).partition("/")
    if not (slash and number.isdecimal() and total.isdecimal() and int(number) < int(total)):
        raise ValueError(f"shard={text} must be i/n with i from 0 to n - 1, for example shard=0/4")
    return int(number), int(total)


def _report(folder: Path, made: Manifest, share: tuple[int, int], seconds: float) -> None:
    size = sum((folder / file).stat().st_size for file in made.checksums)
    counts = ", ".join(f"{split} {count}" for split, count in made.simulations.items())
    print(f"{folder}: {counts} simulations, {len(made.checksums)} files, {size / 1e6:.1f} MB, {seconds:.1f} s")
    if made.missing:
        print(f"share {share[0]}/{share[1]} is done; {len(made.missing)} files of other shares are missing")


def _preview(folder: Path, made: Manifest) -> None:
    from mondrian.data.preview import write_preview  # matplotlib takes a second to import
    from mondrian.data.sources import WellFiles

    for split, count in reversed(list(made.simulations.items())):
        points = made.points[split][-1]
        if not count or any(f"{'x'.join(map(str, points))}/data/{split}/" in file for file in made.missing):
            continue
        source = WellFiles(path=str(folder), split=split, points=points).open()
        for file in write_preview(source, folder / "preview", name=split):
            print(file)
        return
    print("nothing to draw yet: no split is complete", file=sys.stderr)
