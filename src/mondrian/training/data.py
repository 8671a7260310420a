"""The data of a training run, as Lightning takes it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from mondrian.data.datasets import Sample
from mondrian.data.sources import same_grid
from mondrian.data.splits import Splits
from mondrian.parallel.mesh import check_shares
from mondrian.training.order import (
    Batches,
    Order,
    OrderedSamples,
    ResumableLoader,
    collate_fields,
    collate_places,
    validation_batches,
)
from mondrian.training.symmetries import Parity, symmetries_of


class ResumableData(LightningDataModule):
    """Training samples in an endless shuffled row, validation samples in their order.

    `batch_size` is what one step of the optimiser sees, on all processes and over all accumulated portions
    together. `max_steps` such steps are one epoch to Lightning: passes over the data are a matter of `Order`. Of the
    processes so many consecutive ones as share `subdomains` are given the same samples.
    """

    def __init__(self, *, batch_size: int, max_steps: int, workers: int, seed: int, subdomains: int = 1) -> None:
        super().__init__()
        for name, value in {"batch_size": batch_size, "max_steps": max_steps, "subdomains": subdomains}.items():
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        self.batch_size, self.max_steps, self.workers, self.seed = batch_size, max_steps, workers, seed
        self.subdomains = subdomains

    def digest(self) -> str:
        """A short name for the training samples: of their number, the first and the last of them."""
        ends = [self.tensors(place) for place in (0, self.count - 1)]
        content = b"".join(tensor.contiguous().numpy().tobytes() for tensors in ends for tensor in tensors)
        return hashlib.sha256(f"{self.count} ".encode() + content).hexdigest()[:12]

    @property
    def count(self) -> int:
        """Number of training samples."""
        raise NotImplementedError

    def tensors(self, place: int) -> tuple[Tensor, Tensor]:
        """Input and target of a training sample."""
        raise NotImplementedError

    def training_loader(self, samples: Dataset[Any], collate: Callable[[list[Any]], Any]) -> ResumableLoader:
        """Batches of samples that are in training order."""
        accumulate = 1 if self.trainer is None else self.trainer.accumulate_grad_batches
        rank, ranks = self._share()
        batches = Batches(self.batch_size, self.max_steps * accumulate, accumulate=accumulate, rank=rank, ranks=ranks)
        return ResumableLoader(samples, batches, collate=collate, **self._options())

    def validation_loader(
        self, samples: Dataset[Any], count: int, collate: Callable[[list[Any]], Any]
    ) -> DataLoader[Any]:
        """Batches of all `count` samples, each of them once."""
        shares = validation_batches(count, self.batch_size, *self._share())
        return DataLoader(samples, batch_sampler=shares, collate_fn=collate, **self._options())

    def _share(self) -> tuple[int, int]:
        """Which share of the samples is this process', and of how many."""
        if self.trainer is None:
            return 0, 1
        check_shares(self.trainer.world_size, self.subdomains)
        return self.trainer.global_rank // self.subdomains, self.trainer.world_size // self.subdomains

    def _options(self) -> dict[str, Any]:
        on_gpu = self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
        return {"num_workers": self.workers, "persistent_workers": self.workers > 0, "pin_memory": on_gpu}


class OperatorData(ResumableData):
    """Windows of simulations on grids."""

    def __init__(
        self,
        splits: Splits,
        *,
        batch_size: int,
        max_steps: int,
        applications: int = 1,
        augment: tuple[str, ...] = (),
        symmetries: tuple[str, ...] = (),
        parity: Parity = 1,
        workers: int = 0,
        memory: int = 2**32,
        dtype: torch.dtype = torch.float32,
        seed: int = 0,
        subdomains: int = 1,
    ) -> None:
        super().__init__(batch_size=batch_size, max_steps=max_steps, workers=workers, seed=seed, subdomains=subdomains)
        if applications > 1:
            source = splits.source("train")
            fixed = [name for name in splits.window.target if not source.field(name).changes]
            if fixed:
                raise ValueError(
                    f"unroll={applications} needs targets that change in time; of {splits.window.target} "
                    f"{', '.join(fixed)} do not"
                )
        window = replace(splits.window, steps_out=splits.window.steps_out * applications)
        try:
            self.train = splits.dataset("train", window=window, memory=memory).with_dtype(dtype)
            self.valid = splits.dataset("valid", window=window, memory=memory).with_dtype(dtype)
        except ValueError as error:
            if applications == 1:
                raise
            raise ValueError(f"unroll={applications}: {error}") from error
        same_grid({"train": self.train.source, "valid": self.valid.source}, points=False)
        self.symmetries = symmetries_of(self.train, augment, allowed=symmetries, parity=parity)
        out = len(self.train.out_channels) // applications
        self.splits = splits
        self.in_names, self.out_names = self.train.in_channels, self.train.out_channels[:out]

    @property
    def count(self) -> int:
        return len(self.train)

    def tensors(self, place: int) -> tuple[Tensor, Tensor]:
        sample = self.train[place]
        return sample["x"].float(), sample["y"].float()  # a digest that all precisions have in common

    def train_dataloader(self) -> ResumableLoader:
        samples = OrderedSamples(self.train, Order(len(self.train), seed=self.seed), self.symmetries)
        return self.training_loader(samples, collate_places)

    def val_dataloader(self) -> DataLoader[Sample]:
        return self.validation_loader(self.valid, len(self.valid), collate_fields)
