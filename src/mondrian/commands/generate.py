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
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from mondrian.data.generate import generate, plan
from mondrian.data.manifest import Manifest
from mondrian.data.problems import BlockAverage, FourierTruncation, Linear, Problem, Restriction
from mondrian.meshes.poisson import PerforatedPoisson, write_poisson
from mondrian.process import cores, rank
from mondrian.spec import Spec

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
        seed=_whole("seed", config.seed),
        simulations={
            split: _whole(f"simulations.{split}", count, least=0)
            for split, count in _mapping("simulations", config.simulations).items()
        },
        points={
            split: _points(f"data.points.{split}", stored)
            for split, stored in _mapping("data.points", config.data.points).items()
        },
        shard_size=_whole("shard_size", config.shard_size, least=1),
    )
    share = _share(config.shard) if config.shard is not None else rank(os.environ)
    workers = 1 if share[1] > 1 else cores()
    if config.workers is not None:
        workers = _whole("workers", config.workers, least=1)
    repair, preview = (_flag(name, config[name]) for name in ("repair", "preview"))
    began = time.perf_counter()
    made = generate(folder, wanted, workers=workers, share=share, repair=repair, progress=True)
    _report(folder, made, share, time.perf_counter() - began)
    if preview:
        _preview(folder, made)


def _meshes(config: Any, folder: Path) -> None:
    """Solve problems on meshes, a file each: what concerns shards and grids means nothing there."""
    for key in ("workers", "restrict", "native", "repair", "preview"):
        if config[key]:
            raise ValueError(
                f"{key}={config[key]} is for fields on grids; data={config.data.problem.spec} is on meshes"
            )
    counts = {part: _whole(f"simulations.{part}", count, least=0) for part, count in config.simulations.items()}
    share = _share(config.shard) if config.shard is not None else rank(os.environ)
    described: Any = OmegaConf.to_container(config.data.problem, resolve=True)
    problem = Spec.from_json(described)
    if not isinstance(problem, PerforatedPoisson):
        raise ValueError(f"data.problem={problem} cannot be solved; needed PerforatedPoisson")
    write_poisson(folder, problem, counts, seed=_whole("seed", config.seed), share=share, progress=True)
    print(f"{folder}: {', '.join(f'{part} {count}' for part, count in counts.items())} meshes")


def configure(arguments: list[str]) -> Any:
    """The configuration with overrides, a `DictConfig`; `scale=...` goes with `data=...`."""
    choices = {"data": "allen_cahn", "scale": "cpu"}
    rest = []
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key in choices:
            choices[key] = value
        if key != "scale":
            rest.append(argument)
    folder = Path(str(files("mondrian") / "conf"))
    known = sorted(path.stem for path in (folder / "generate_scale").glob("*.yaml"))
    scales = [name.removeprefix(f"{choices['data']}_") for name in known if name.startswith(choices["data"] + "_")]
    if not scales:
        names = sorted({name.rpartition("_")[0] for name in known})
        raise ValueError(f"data={choices['data']} cannot be generated; needed one of {', '.join(names)}")
    if choices["scale"] not in scales:
        raise ValueError(f"scale={choices['scale']} is not known; needed one of {', '.join(scales)}")
    with initialize_config_dir(str(folder), version_base="1.3"):
        return compose("generate", [*rest, f"generate_scale={choices['data']}_{choices['scale']}"])


def problem(config: Any) -> Problem:
    """The problem that the configuration describes."""
    described: Any = OmegaConf.to_container(config.data.problem, resolve=True)
    described["native"] = _flag("native", config.native)
    if config.restrict is not None:
        if str(config.restrict) not in RESTRICTIONS:
            raise ValueError(f"restrict={config.restrict} is not known; needed one of {', '.join(RESTRICTIONS)}")
        described["restriction"] = RESTRICTIONS[config.restrict]().to_json()
    found = Spec.from_json(described)
    if not isinstance(found, Problem):
        raise ValueError(f"data.problem={found} cannot be simulated; needed a Problem")
    return found


def _whole(name: str, value: Any, *, least: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise ValueError(f"{name}={value} must be a whole number" + ("" if least is None else f" from {least} on"))
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value} must be true or false")
    return value


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if not OmegaConf.is_dict(value):
        raise ValueError(f"{name}={value} must give a value for each split, for example {name}.train=...")
    return {str(split): item for split, item in value.items()}


def _points(name: str, stored: Any) -> list[tuple[int, ...]]:
    if not OmegaConf.is_list(stored) or not all(OmegaConf.is_list(sizes) for sizes in stored):
        raise ValueError(f"{name}={stored} must list resolutions, for example {name}=[[32,32],[64,64]]")
    return [tuple(_whole(name, size, least=1) for size in sizes) for sizes in stored]


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
