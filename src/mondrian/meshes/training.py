"""Training on meshes: batches of meshes of different sizes, errors weighted by what each vertex stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from lightning.pytorch import Callback
from omegaconf import DictConfig, OmegaConf
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from mondrian.data.meshes.files import Meshes, MeshSample, MeshSplits
from mondrian.losses import Loss, MeanSquare
from mondrian.meshes.settings import fitted_spec, open_meshes
from mondrian.models.points import PointSpec
from mondrian.points.partition import PartitionSpec
from mondrian.points.placement import Placement
from mondrian.settings.values import spec_of, whole
from mondrian.surrogate import MeshSurrogate, MeshSurrogateSpec
from mondrian.training.data import ResumableData
from mondrian.training.module import SurrogateTraining
from mondrian.training.optimiser import AdamW
from mondrian.training.order import Batches, Order, ResumableLoader
from mondrian.training.run import Run
from mondrian.training.session import Session
from mondrian.training.settings import check_scaling

# Settings that say something about grids, time or slabs of fields, and the only value that meshes know.
FIXED: dict[str, Any] = {
    "augment": [], "unroll": 1, "pushforward": False, "grow_every": 0, "noise": 0.0,
    "parallel.subdomains": 1, "trainer.compile": False,
}  # fmt: skip


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

    @property
    def count(self) -> int:
        return len(self.train)

    def tensors(self, place: int) -> tuple[Tensor, Tensor]:
        sample = self.train[place]
        return sample.x, sample.y

    def train_dataloader(self) -> ResumableLoader:
        meshes = OrderedMeshes(self.train, Order(len(self.train), seed=self.seed))
        return self.training_loader(meshes, MeshBatch.of)

    def val_dataloader(self) -> DataLoader[MeshSample]:
        return self.validation_loader(self.valid, len(self.valid), MeshBatch.of)


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


def train_meshes(
    config: DictConfig,
    words: Sequence[str],
    *,
    model: PointSpec | None = None,
    splits: MeshSplits | None = None,
    progress: bool,
    callbacks: Sequence[Callback] = (),
) -> Run:
    """Train what a configuration with `data.meshes` describes, or a model and meshes of one's own."""
    for key, only in FIXED.items():
        value = OmegaConf.select(config, key)
        if value != only:
            raise ValueError(f"{key}={value} is for fields on grids; on meshes needed {key}={only}")
    loss, optimiser = spec_of(config, "loss", Loss), spec_of(config, "optimizer", AdamW)
    if not loss.on_points:
        raise ValueError(f"loss={loss} needs fields on a grid; on meshes needed loss=mse or loss=relative_l2")
    check_scaling(config)
    seed, batch_size = whole(config, "seed", least=0), whole(config, "batch_size")
    session = Session.open(config, words, progress=progress, callbacks=callbacks)
    Batches(batch_size, 1, accumulate=session.trainer.accumulate_grad_batches, ranks=session.trainer.world_size)
    splits = splits or open_meshes(config, progress=progress)
    session.check_data(splits)
    spec = (
        session.stored_spec(MeshSurrogateSpec)
        if session.goes_on
        else fitted_spec(config, splits, model, progress=progress)
    )
    inner = spec.model
    assert isinstance(inner, PointSpec)
    data = MeshData(
        splits,
        inner.partition,
        batch_size=batch_size,
        max_steps=whole(config, "max_steps"),
        workers=whole(config, "workers", least=0),
        seed=seed,
    )
    torch.manual_seed(seed)
    surrogate = spec.build()
    return session.fit(MeshTraining(surrogate, loss=loss, optimiser=optimiser), data, surrogate, splits)
