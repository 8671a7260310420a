"""Functions on meshes as an evaluation takes them: a part for each folder, and weights for the vertices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from tqdm import tqdm

from mondrian.data.meshes.files import Meshes, MeshSample, MeshSplits, components_of
from mondrian.evaluation.parts import Arrays, Samples
from mondrian.grid import Grid
from mondrian.surrogate import MeshSurrogate

PICTURES = 3  # meshes of each part that are kept for pictures


class MeshPart:
    """The first `simulations` meshes of a part, by default all."""

    def __init__(self, name: str, meshes: Meshes, simulations: int | None = None) -> None:
        count = len(meshes) if simulations is None else simulations
        self.source = meshes.splits.files.path
        if not 0 < count <= len(meshes):
            raise ValueError(f"simulations={count} are wanted; {name} of {self.source} has {len(meshes)}")
        self.name, self.meshes = name, meshes
        self.grid: Grid | None = None
        self.simulations: Sequence[int] = range(count)
        self.in_channels, self.out_channels = meshes.in_channels, meshes.out_channels
        self.fields: Mapping[str, list[int]] = components_of(meshes.out_channels, meshes.splits.target)

    def __len__(self) -> int:
        return len(self.simulations)

    def batches(self, batch_size: int, *, label: str, progress: bool) -> Iterator[Samples]:
        """One mesh at a time, whatever the `batch_size`: no two have the same points."""
        bar = tqdm(self.simulations, desc=label, unit="mesh", leave=False, delay=2, disable=None if progress else True)
        for number in bar:
            yield self._samples(self.meshes[number], number)

    def pictures(self, surrogate: MeshSurrogate) -> Arrays:
        arrays: Arrays = {}
        for number in self.simulations[:PICTURES]:
            sample = self.meshes[number]
            samples = self._samples(sample, number)
            cells = surrogate.points_model.spec.partition.cut(sample.points).members
            values = {
                "vertices": sample.mesh.vertices, "simplices": sample.mesh.simplices, "cells": cells,
                "input": sample.x, "truth": sample.y,
                "prediction": surrogate.predict(samples.x, sample.points, name=samples.name)[0].cpu(),
            }  # fmt: skip
            arrays |= {f"{self.name}/{number}/{name}": tensor.numpy() for name, tensor in values.items()}
        return arrays

    def rollout(self, surrogate: MeshSurrogate, horizon: int) -> None:
        """None: files of meshes hold no frames."""

    @staticmethod
    def _samples(sample: MeshSample, number: int) -> Samples:
        points = sample.points
        assert points.weights is not None  # a mesh gives each vertex its part of the domain
        return Samples(sample.x[None], sample.y[None], points, points.weights, torch.tensor([number]), sample.name)


class MeshEvaluationData:
    """The parts of a folder of meshes."""

    on_grids = False
    has_phases = False

    def __init__(self, splits: MeshSplits) -> None:
        self.splits = splits

    def parts(
        self, split: str, points: Sequence[tuple[int, ...]] | None, simulations: int | None
    ) -> Sequence[MeshPart]:
        names = self.splits.parts(split)
        return [MeshPart(name, self.splits.meshes(name, memory=0), simulations) for name in names]

    def training(self) -> MeshPart | None:
        if "train" not in self.splits.names():
            return None
        return MeshPart("train", self.splits.meshes("train", memory=0))
