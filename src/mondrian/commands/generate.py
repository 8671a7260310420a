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

Stopped, killed or out of disk? The same command resumes. Existing shards are checked first;
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

import sys
import time
from pathlib import Path

from mondrian.data.manifest import Manifest
from mondrian.settings.generation import generation_spec


def run(arguments: list[str]) -> None:
    """Generate what the overrides describe."""
    spec = generation_spec(arguments)
    data, folder, share = spec.data, spec.folder, spec.share
    began = time.perf_counter()
    data.write(folder, share=share, progress=True)
    print(f"{folder}: {data.summary(folder)}, {time.perf_counter() - began:.1f} s")
    missing = sum(not file.exists() for file in data.files(folder))
    if missing:
        print(f"share {share[0]}/{share[1]} is done; {missing} files of other shares are missing")
    if spec.preview:
        _preview(folder, Manifest.load(folder))


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
