"""Samples on their way to a surrogate: read as they are needed, in the precision and on the device of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader
from tqdm import tqdm

from mondrian.data.datasets import Batch, WindowDataset, collate
from mondrian.grid import Grid
from mondrian.surrogate import ScaledModel, Surrogate, evaluating


def batches(
    dataset: WindowDataset, indices: Sequence[int], batch_size: int, *, label: str = "", progress: bool = False
) -> Iterator[Batch]:
    """The samples `indices` in batches; a progress bar on a terminal when it takes more than two seconds."""
    loader = DataLoader(dataset, batch_size=batch_size, sampler=list(indices), collate_fn=collate)
    yield from tqdm(loader, desc=label, unit="batch", leave=False, delay=2, disable=None if progress else True)


@contextmanager
def at_rest(surrogate: ScaledModel) -> Iterator[None]:
    """Evaluation mode, no gradients; afterwards the surrogate is as it was."""
    with evaluating(surrogate), torch.inference_mode():
        yield


def placed(surrogate: Surrogate, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """A tensor where the weights are, in their precision; halved only once it is scaled."""
    weight = next(chain(surrogate.parameters(), surrogate.buffers()))
    return x.to(device=weight.device, dtype=torch.promote_types(weight.dtype, torch.float32))


def predict(
    surrogate: Surrogate, x: Float[Tensor, "batch channel *space"], grid: Grid
) -> Float[Tensor, "batch out_channel *space"]:
    """One application, answered in physical units."""
    return surrogate(placed(surrogate, x), grid)
