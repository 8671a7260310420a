"""Windows of simulations in batches, read as they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch.utils.data import DataLoader
from tqdm import tqdm

from mondrian.data.datasets import Batch, WindowDataset, collate


def batches(
    dataset: WindowDataset, indices: Sequence[int], batch_size: int, *, label: str = "", progress: bool = False
) -> Iterator[Batch]:
    """The samples `indices` in batches, with a progress bar on a terminal if that takes more than two seconds."""
    loader = DataLoader(dataset, batch_size=batch_size, sampler=list(indices), collate_fn=collate)
    yield from tqdm(loader, desc=label, unit="batch", leave=False, delay=2, disable=None if progress else True)
