"""Data: problems and solvers that make it, a file format, and loaders for it and for what others have.

source = WellFiles(path="data/ac", split="train").open()
dataset = WindowDataset(source, Window(input=("u", "gamma"), target=("u",)))
loader = DataLoader(dataset, batch_size=128, shuffle=True, collate_fn=collate)
batch = next(iter(loader))      # a dictionary with x, y and the grid
"""

from mondrian.data.datasets import Batch, WindowDataset, collate, split_simulations
from mondrian.data.manifest import Manifest
from mondrian.data.meshes import MeshFiles, MeshSplits, PerforatedPoisson
from mondrian.data.problems import AllenCahn, KuramotoSivashinsky, NavierStokes, Problem
from mondrian.data.restriction import BlockAverage, FourierTruncation, Linear
from mondrian.data.sources import ArrayFile, Axis, PairFile, PDEBenchFile, Source, WellFiles, same_grid
from mondrian.data.splits import Splits
from mondrian.data.store import Simulations
from mondrian.surrogate import Window

__all__ = [
    "AllenCahn",
    "ArrayFile",
    "Axis",
    "Batch",
    "BlockAverage",
    "FourierTruncation",
    "KuramotoSivashinsky",
    "Linear",
    "Manifest",
    "MeshFiles",
    "MeshSplits",
    "NavierStokes",
    "PDEBenchFile",
    "PairFile",
    "PerforatedPoisson",
    "Problem",
    "Simulations",
    "Source",
    "Splits",
    "WellFiles",
    "Window",
    "WindowDataset",
    "collate",
    "same_grid",
    "split_simulations",
]
