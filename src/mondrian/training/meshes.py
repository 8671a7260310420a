"""Training on meshes: batches of meshes of different sizes, errors weighted by what each vertex stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from mondrian.artefact import ModelSpec
from mondrian.data.meshes.files import Meshes, MeshSample, MeshSplits
from mondrian.losses import Loss, MeanSquare
from mondrian.models.points import PointSpec
from mondrian.points.partition import PartitionSpec
from mondrian.points.placement import Placement
from mondrian.settings.compose import quoted
from mondrian.settings.models import ModelSettings
from mondrian.surrogate import MeshSurrogate
from mondrian.training.data import ResumableData
from mondrian.training.module import SurrogateTraining
from mondrian.training.optimiser import AdamW
from mondrian.training.order import Order
from mondrian.training.settings import TrainingSpec
from mondrian.training.task import Task


class MeshBatch:
    """Some meshes: input and target of each, and all of their points in their cells.

    No dataclass: Lightning would take it apart to cast what is inside.
    """

    def __init__(
        self, x: tuple[Tensor, ...], y: tuple[Tensor, ...], weights: tuple[Tensor, ...], placement: Placement
    ) -> None:
        self.x, self.y, self.weights, self.placement = x, y, weights, placement

    @staticmethod
    def of(samples: Sequence[MeshSample]) -> MeshBatch:
        """The samples together; each has been cut into cells before."""
        partitions = [sample.partition for sample in samples if sample.partition is not None]
        weights = tuple(p.points.weights for p in partitions if p.points.weights is not None)
        return MeshBatch(tuple(s.x for s in samples), tuple(s.y for s in samples), weights, Placement.of(partitions))

    def pin_memory(self) -> MeshBatch:
        """The same in memory from which a GPU copies by itself."""
        x, y, weights = (tuple(values.pin_memory() for values in side) for side in (self.x, self.y, self.weights))
        return MeshBatch(x, y, weights, self.placement)

    def to(self, device: torch.device) -> MeshBatch:
        """The same on another device."""
        x, y, weights = (tuple(values.to(device) for values in side) for side in (self.x, self.y, self.weights))
        return MeshBatch(x, y, weights, self.placement.to(self.placement.centres.dtype, device))


class OrderedMeshes(Dataset[MeshSample]):
    """Meshes in training order."""

    def __init__(self, meshes: Meshes, order: Order) -> None:
        self.meshes, self.order = meshes, order

    def __getitem__(self, place: int) -> MeshSample:
        return self.meshes[self.order[place]]


class MeshData(ResumableData):
    """Meshes in their cells."""

    collate = collate_valid = staticmethod(MeshBatch.of)

    def __init__(
        self,
        splits: MeshSplits,
        partition: PartitionSpec,
        *,
        batch_size: int,
        max_steps: int,
        workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(batch_size=batch_size, max_steps=max_steps, workers=workers, seed=seed)
        self.train = splits.meshes("train", partition=partition)
        self.valid = splits.meshes("valid", partition=partition)
        for side in ("in_channels", "out_channels", "dim"):
            if getattr(self.train, side) != getattr(self.valid, side):
                raise ValueError(
                    f"{side}={getattr(self.valid, side)} of the meshes to validate on; those to train on have "
                    f"{getattr(self.train, side)}"
                )

    def ordered(self, order: Order) -> OrderedMeshes:
        """The training meshes by their places in an order."""
        return OrderedMeshes(self.train, order)


class MeshTraining(SurrogateTraining):
    """Functions on meshes: losses and errors are integrals over the domain of each, averaged over the meshes."""

    surrogate: MeshSurrogate

    def __init__(self, surrogate: MeshSurrogate, *, loss: Loss | None = None, optimiser: AdamW | None = None) -> None:
        super().__init__(surrogate, optimiser)
        self.loss = loss or MeanSquare()

    def training_step(self, batch: MeshBatch, batch_idx: int) -> Tensor:
        loss, _ = self._predicted(batch)
        self.last_loss = loss.detach()
        return loss

    def validation_step(self, batch: MeshBatch, batch_idx: int) -> None:
        loss, answers = self._predicted(batch)
        self.valid_loss.update(loss.expand(len(batch.x)))
        for answer, y, weights in zip(answers, batch.y, batch.weights, strict=True):
            error = (self.surrogate.physical_output(answer[None])[0] - y).abs().mean(dim=0)
            weights = weights.to(error)
            self.valid_mae.update(((error * weights).sum() / weights.sum()).float())

    def _predicted(self, batch: MeshBatch) -> tuple[Tensor, list[Tensor]]:
        """The loss, and the answers on the scaled side."""
        kind = self.surrogate.physical_dtype
        x = [self.surrogate.scaled_input(values[None].to(kind))[0] for values in batch.x]
        y = [self.surrogate.scaled_output(values[None].to(kind))[0] for values in batch.y]
        answers = self.surrogate.points_model(x, batch.placement)
        return self.loss.at_points(answers, y, batch.weights), answers


class MeshTask(Task):
    """Training on functions on meshes: any loss that needs no grid."""

    train: Meshes

    def __init__(self, spec: TrainingSpec, data: MeshSplits) -> None:
        self.spec, self.splits = spec, data
        self.train = data.meshes("train", memory=0)

    @staticmethod
    def check(spec: TrainingSpec) -> None:
        """Refuse what says something about grids, time or slabs of fields."""
        given: dict[str, tuple[Any, Any]] = {
            "augment": (list(spec.augmentation.names), []),
            "unroll": (spec.unroll.applications, 1),
            "pushforward": (spec.unroll.pushforward, False),
            "grow_every": (spec.unroll.grow_every, 0),
            "noise": (spec.unroll.noise, 0.0),
            "parallel.subdomains": (spec.subdomains, 1),
            "trainer.compile": (spec.trainer.compile, False),
        }
        for key, (value, only) in given.items():
            if value != only:
                raise ValueError(f"{key}={value} is for fields on grids; on meshes needed {key}={only}")
        if not spec.loss.on_points:
            raise ValueError(f"loss={spec.loss} needs fields on a grid; on meshes needed loss=mse or loss=relative_l2")

    @classmethod
    def open(cls, spec: TrainingSpec, data: MeshSplits, *, dtype: torch.dtype) -> MeshTask:
        return cls(spec, data)

    def fitted(self, model: ModelSettings) -> PointSpec:
        if model.kind is not None and not issubclass(model.kind, PointSpec):
            raise ValueError(
                f"model.spec={model.kind.__name__} is for grids; on meshes needed a PointSpec, such as model=points"
            )
        channels = model.with_channels(in_channels=self.in_channels, out_channels=self.out_channels)
        spec = channels.spec()
        assert isinstance(spec, PointSpec)
        if spec.dim != self.train.dim:
            raise ValueError(
                f"model.reference={list(spec.reference)} has {spec.dim} axes; the meshes have {self.train.dim}"
            )
        return spec

    def batches(self, model: ModelSpec) -> MeshData:
        assert isinstance(model, PointSpec)
        spec = self.spec
        return MeshData(
            self.splits,
            model.partition,
            batch_size=spec.batch_size,
            max_steps=spec.max_steps,
            workers=spec.workers,
            seed=spec.seed,
        )

    def module(self, surrogate: MeshSurrogate) -> MeshTraining:
        return MeshTraining(surrogate, loss=self.spec.loss, optimiser=self.spec.optimiser)

    @staticmethod
    def overrides(data: MeshSplits) -> list[str]:
        return ["data=meshes", f"data.path={quoted(data.path)}"]

    @staticmethod
    def described(data: MeshSplits) -> dict[str, Any]:
        return {"input": list(data.input), "target": list(data.target)}
