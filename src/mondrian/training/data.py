"""The data of a training run, as Lightning takes them: a resumable order of samples, in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader, Dataset

from mondrian.parallel.ranks import check_shares
from mondrian.support.former import former_names
from mondrian.training.order import Batches, Order, ResumableLoader, validation_batches


class ResumableData(LightningDataModule):
    """Training samples in an endless shuffled row, validation samples in their order.

    `batch_size` is what one step of the optimiser sees, on all ranks and over all accumulated portions together.
    `max_steps` such steps are one epoch to Lightning: passes over the data are a matter of `Order`. So many consecutive
    ranks as share `subdomains` are given the same samples.
    """

    train: Any
    valid: Any
    collate: Callable[[list[Any]], Any]
    collate_valid: Callable[[list[Any]], Any]

    def __init__(self, *, batch_size: int, max_steps: int, workers: int, seed: int, subdomains: int = 1) -> None:
        super().__init__()
        for name, value in {"batch_size": batch_size, "max_steps": max_steps, "subdomains": subdomains}.items():
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        self.batch_size, self.max_steps, self.workers, self.seed = batch_size, max_steps, workers, seed
        self.subdomains = subdomains

    def ordered(self, order: Order) -> Dataset[Any]:
        """The training samples by their places in an order."""
        raise NotImplementedError

    def train_dataloader(self) -> ResumableLoader:
        samples = self.ordered(Order(len(self.train), seed=self.seed))
        accumulate = 1 if self.trainer is None else self.trainer.accumulate_grad_batches
        rank, ranks = self._share()
        batches = Batches(self.batch_size, self.max_steps * accumulate, accumulate=accumulate, rank=rank, ranks=ranks)
        return ResumableLoader(samples, batches, collate=self.collate, **self._options())

    def val_dataloader(self) -> DataLoader[Any]:
        shares = validation_batches(len(self.valid), self.batch_size, *self._share())
        return DataLoader(self.valid, batch_sampler=shares, collate_fn=self.collate_valid, **self._options())

    def _share(self) -> tuple[int, int]:
        """Which share of the samples this rank has, and of how many."""
        if self.trainer is None:
            return 0, 1
        check_shares(self.trainer.world_size, self.subdomains)
        return self.trainer.global_rank // self.subdomains, self.trainer.world_size // self.subdomains

    def _options(self) -> dict[str, Any]:
        on_gpu = self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
        return {"num_workers": self.workers, "persistent_workers": self.workers > 0, "pin_memory": on_gpu}


__getattr__ = former_names(__name__)
