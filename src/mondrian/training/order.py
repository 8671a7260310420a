"""The order of training samples: a pure function of seed and place, so that no state has to be saved."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from mondrian.data.datasets import Batch, Sample, WindowDataset, collate
from mondrian.training.symmetries import Symmetries


class Order:
    """Shuffled passes over `count` samples, one after the other, as one endless row of places.

    Place `p` lies in pass `p // count`, and holds the sample that the shuffle of that pass has at `p % count`.

    >>> order = Order(5, seed=0)
    >>> sorted(order[p] for p in range(5, 10))
    [0, 1, 2, 3, 4]
    """

    def __init__(self, count: int, *, seed: int) -> None:
        self.count = count
        self.seed = seed
        self._shuffled: tuple[int, list[int]] = (-1, [])

    def __getitem__(self, place: int) -> int:
        number, rest = divmod(place, self.count)
        if self._shuffled[0] != number:
            generator = generator_of(self.seed, "order", number)
            self._shuffled = (number, torch.randperm(self.count, generator=generator).tolist())
        return self._shuffled[1][rest]


class OrderedSamples(Dataset[Sample]):
    """The samples of a data set in training order, each in the symmetric image that belongs to its place."""

    def __init__(self, samples: WindowDataset, order: Order, symmetries: Symmetries | None = None) -> None:
        self.samples = samples
        self.order = order
        self.symmetries = symmetries

    def __getitems__(self, places: list[int]) -> list[Sample]:
        samples = self.samples.__getitems__([self.order[place] for place in places])
        for sample, place in zip(samples, places, strict=True):
            sample["place"] = place
            if self.symmetries is not None:
                generator = generator_of(self.order.seed, "symmetry", place)
                sample["x"], sample["y"] = self.symmetries.image(sample["x"], sample["y"], generator)
        return samples

    def __getitem__(self, place: int) -> Sample:
        return self.__getitems__([place])[0]


class Batches(Sampler[list[int]]):
    """Places of the batches of one rank, from `start` on.

    A step of the optimiser takes `batch_size` places, in `accumulate` portions on `ranks` ranks: however they are
    divided, the same places make the same step.
    """

    def __init__(self, batch_size: int, batches: int, *, accumulate: int = 1, rank: int = 0, ranks: int = 1) -> None:
        if batch_size % (accumulate * ranks):
            raise ValueError(
                f"batch_size={batch_size} cannot be divided among {ranks} ranks in {accumulate} portions; "
                f"needed a multiple of {accumulate * ranks}"
            )
        self.share = batch_size // (accumulate * ranks)
        self.batches, self.rank, self.ranks = batches, rank, ranks
        self.start = 0

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        for number in range(self.start, self.batches):
            first = (number * self.ranks + self.rank) * self.share
            yield list(range(first, first + self.share))


def validation_batches(count: int, batch_size: int, rank: int, ranks: int) -> list[list[int]]:
    """The batches of `count` samples that one rank validates: every sample once, as many batches on each rank.

    Every batch synchronises all ranks. Where the samples cannot be divided equally, some ranks take one more in their
    last batch.

    >>> validation_batches(5, 4, 0, 2), validation_batches(5, 4, 1, 2)
    ([[0, 2, 4]], [[1, 3]])
    """
    if count < ranks:
        raise ValueError(f"{count} samples to validate on cannot be divided among {ranks} ranks")
    own, share = list(range(rank, count, ranks)), max(1, batch_size // ranks)
    batches = math.ceil(count // ranks / share)
    starts = range(0, batches * share, share)
    return [own[start : start + share if start < starts[-1] else None] for start in starts]


class ResumableLoader(DataLoader[Any]):
    """Training batches that resume from a checkpoint: Lightning saves and restores the state of a loader."""

    def __init__(
        self, samples: Dataset[Any], batches: Batches, *, collate: Callable[[list[Any]], Any], **options: Any
    ) -> None:
        super().__init__(samples, batch_sampler=batches, collate_fn=collate, **options)
        self._batches = batches
        self._given = 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        self._given = self._batches.start
        for batch in super().__iter__():
            self._given += 1
            yield batch

    def state_dict(self) -> dict[str, int]:
        return {"batches": self._given}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self._batches.start = state["batches"]


def collate_places(samples: list[Sample]) -> Batch:
    """A batch that also knows the places of its samples (a plain list, which stays where it is)."""
    return Batch(collate_fields(samples), places=[sample["place"] for sample in samples])


def collate_fields(samples: list[Sample]) -> Batch:
    """A batch without its grid: Lightning takes apart what a batch holds, and a frozen grid cannot be."""
    batch = collate(samples)
    del batch["grid"]
    return batch


def generator_of(*names: object) -> torch.Generator:
    """A generator on the host that depends on these names alone."""
    digest = hashlib.blake2b("/".join(map(str, names)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
