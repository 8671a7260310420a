"""Predictions of fields larger than memory: each rank, or each step of a stream, reads and writes its slab only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from jaxtyping import Bool, Float
from torch import Tensor
from tqdm import tqdm

from mondrian.artefact import OperatorModel
from mondrian.grid import Grid
from mondrian.parallel import Processes, SpreadModel, stream
from mondrian.prediction.fields import check_files, opened, simulated
from mondrian.prediction.inputs import HDF5, Samples
from mondrian.prediction.outputs import Prediction
from mondrian.prediction.predictor import Predictor, answer_dtype, as_numpy, as_tensor
from mondrian.prediction.shared_files import Write, create_array, create_simulations, open_shared
from mondrian.rollout import Advance, predictions
from mondrian.surrogate import Surrogate, evaluating

KINDS = (".npy", *HDF5)
Slabs = Iterator[tuple[int, Float[Tensor, "batch channel *space"]]]  # the first row of points of each, and its values


def predict_slabs(
    model: OperatorModel,
    input: str | Path,
    output: str | Path,
    *,
    processes: Processes | None = None,
    rows: int = 0,
    grid: Grid | None = None,
    steps: int = 1,
    batch_size: int = 32,
    split: str | None = None,
    points: tuple[int, ...] = (),
    progress: bool = False,
) -> Prediction:
    """`predict_file` for fields that do not fit into memory, in one of two ways.

    With `processes` each of them holds its slab of every sample, and all of them must call this. With `rows` one
    process goes through each field, so many rows of subdomains at a time.
    """
    if (processes is None) == (rows == 0):
        raise ValueError(f"rows={rows} at a time, and {'no' if processes is None else 'several'} processes: needed one")
    if rows and steps > 1:
        raise ValueError(f"steps={steps} need the whole field after each; with rows={rows} at a time needed steps=1")
    source, target = Path(input), Path(output)
    check_files(source, target, KINDS, batch_size=batch_size)
    samples, predictor = opened(model, source, grid=grid, steps=steps, split=split, points=points)
    dtype = answer_dtype(samples.dtype, predictor.dtype)
    finite = torch.ones(len(samples), dtype=torch.bool)
    speaks = progress and (processes is None or processes.rank == 0)
    bar = tqdm(total=len(samples), desc="predict", unit="sample", delay=1, leave=False, disable=not speaks or None)
    with evaluating(model), torch.no_grad(), bar, _open(target, samples, predictor, dtype, processes) as write:
        for start in range(0, len(samples), batch_size):
            stop = min(start + batch_size, len(samples))
            part = _Part(samples, predictor, start, stop)
            for row, y in part.streamed(rows) if processes is None else part.spread(processes):
                finite[start:stop] &= torch.isfinite(y.flatten(1)).all(dim=1).cpu()
                write(start, row, as_numpy(y, dtype))
            bar.update(stop - start)
    bad = int((~_everywhere(finite, predictor.device, processes)).sum())
    return Prediction(len(samples), predictor.out_names, samples.shape[2:], bad)


class _Part:
    """Some of the samples, whose rows of points are read as they are needed."""

    def __init__(self, samples: Samples, predictor: Predictor, start: int, stop: int) -> None:
        self.samples, self.predictor, self.start, self.stop = samples, predictor, start, stop
        self.grid = predictor.box.with_points(samples.shape[2:])
        model = predictor.model
        self.model: OperatorModel = model
        self.scaled: Callable[[Tensor], Tensor] = lambda x: x
        self.physical: Callable[[Tensor], Tensor] = lambda y: y
        if isinstance(model, Surrogate):  # its scales act point by point
            self.model, self.scaled, self.physical = model.model, model.scaled_input, model.physical_output

    def read(self, first: int, last: int) -> Float[Tensor, "batch channel *space"]:
        """These rows of points, in physical units."""
        values = self.samples.read(self.start, self.stop, slice(first, last))
        return self.predictor.prepared(as_tensor(values), first=self.start)

    def streamed(self, rows: int) -> Slabs:
        """The predictions slab by slab."""
        for row, y in stream(self.model, lambda *ends: self.scaled(self.read(*ends)), self.grid, rows=rows):
            yield row, self.physical(y)

    def spread(self, processes: Processes) -> Slabs:
        """The predictions on this process' slab."""
        spread = SpreadModel(self.model, processes)
        first, last = spread.points(self.grid).owned(processes.rank)

        def apply(x: Tensor) -> Tensor:
            return self.physical(spread.on_slab(self.scaled(x), self.grid))

        x, applications = self.read(first, last), self.predictor.applications
        if applications == 1:
            yield first, apply(x)
            return
        assert isinstance(self.predictor.model, Surrogate)
        spec = self.predictor.model.spec
        advance = Advance(spec.in_names, spec.out_names)
        yield first, torch.cat(list(predictions(apply, advance, x, applications)), dim=1)


def _open(
    target: Path, samples: Samples, predictor: Predictor, dtype: np.dtype[np.floating], processes: Processes | None
) -> AbstractContextManager[Write]:
    if target.suffix in HDF5:
        content = simulated(target, samples, predictor, dtype)
        return open_shared(target, lambda partial: create_simulations(partial, target, content), processes)
    shape = predictor.out_shape(samples.shape)
    return open_shared(target, lambda partial: create_array(partial, shape, dtype, single=samples.single), processes)


def _everywhere(
    finite: Bool[Tensor, " sample"], device: torch.device, processes: Processes | None
) -> Bool[Tensor, " sample"]:
    """Which samples are finite on the slabs of all ranks."""
    if processes is None:
        return finite
    least = finite.to(device, torch.int32)
    dist.all_reduce(least, dist.ReduceOp.MIN, group=processes.group)
    return least.bool()
