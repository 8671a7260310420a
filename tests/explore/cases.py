"""Models that know nothing yet, and data to ask them about."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mondrian import Grid, SeparableMixture, Surrogate
from mondrian.data.generate import generate, plan
from mondrian.data.problems import AllenCahn, KuramotoSivashinsky, NavierStokes, Problem
from mondrian.data.sources import WellFiles
from mondrian.data.splits import Splits
from mondrian.explore import Explorer
from mondrian.models.transformer import TransformerSpec
from mondrian.surrogate import Scale, SurrogateSpec, Window

PROBLEMS: dict[str, Problem] = {
    "allen_cahn": AllenCahn(grid=Grid(extent=(2.0, 1.0), points=(16, 16))),
    "allen_cahn3d": AllenCahn(grid=Grid(extent=(2.0, 2.0, 2.0), points=(8, 8, 8))),
    "navier_stokes": NavierStokes(
        grid=Grid(extent=(math.tau, math.tau), points=(32, 32), periodic=(True, True)), steps=60, frames=6
    ),
    "kuramoto_sivashinsky": KuramotoSivashinsky(
        grid=Grid(extent=(32.0,), points=(32,), periodic=(True,)), steps=60, frames=6, spin_up=20
    ),
}
WINDOWS = {
    "allen_cahn": Window(input=("u", "gamma"), target=("u",)),
    "allen_cahn3d": Window(input=("u", "gamma"), target=("u",)),
    "navier_stokes": Window(input=("vorticity",), target=("vorticity",), steps_in=2, steps_out=2),
    "kuramoto_sivashinsky": Window(input=("u",), target=("u",)),
}


def data(name: str, folder: Path) -> Splits:
    """A few simulations at two resolutions, simulated where they are not there."""
    problem, counts = PROBLEMS[name], {"train": 1, "valid": 1, "test": 3}
    fine = problem.grid.points
    points = {split: [tuple(n // 2 for n in fine), fine] for split in counts}
    generate(folder / name, plan(problem, seed=0, simulations=counts, points=points, shard_size=4))
    return Splits(files=WellFiles(path=str(folder / name)), window=WINDOWS[name])


def surrogate(splits: Splits, **settings: Any) -> Surrogate:
    """A model for the samples, with other settings than these few."""
    dataset = splits.dataset("test", memory=0)
    ins, outs = dataset.in_channels, dataset.out_channels
    torch.manual_seed(0)
    defaults = {
        "hidden_channels": 8,
        "n_layers": 2,
        "subdomains": (2,) * dataset.grid.dim,
        "operator": SeparableMixture(terms=4, skip=True),
        "grid": Grid(extent=dataset.grid.extent, periodic=dataset.grid.periodic),
        "stagger": True,
    }
    model = TransformerSpec(in_channels=len(ins), out_channels=len(outs), **(defaults | settings))
    scales = tuple(Scale(shift=-3.0, log=True) if name == "gamma" else Scale() for name in ins)
    return SurrogateSpec(model, ins, outs, scales, (Scale(),) * len(outs), window=splits.window).build()


def explorer(name: str, folder: Path, window: Window | None = None) -> Explorer:
    splits = data(name, folder)
    splits = splits if window is None else replace(splits, window=window)
    return Explorer(surrogate(splits), splits, name=name, trained_points=splits.resolutions("train")[0])
