"""The models that `benchmarks.subdomains` measures, and their training steps on several ranks."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from mondrian import Grid, RelativeBias, SeparableMixture, nbr_no, swin_no, vit_no
from mondrian.benchmark.measure import flops
from mondrian.models import TransformerOperator
from mondrian.models.transformer import TransformerSpec
from mondrian.parallel import Partition, Processes, SpreadModel
from mondrian.parallel.cost import CostModel, Work

FUNCTIONS = 15  # fields that a block keeps for its gradient: the fit of section `sizes`, rounded
KINDS = ("windowed", "neighbourhood", "global")
POINTS, SUBDOMAINS = (256, 256), (32, 32)


def model_of(kind: str, dim: int = 2, **more: Any) -> TransformerOperator:
    """The three kinds of attention with the same operators."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "hidden_channels": 32,
        "n_layers": 4,
        "subdomains": SUBDOMAINS,
        "operator": SeparableMixture(terms=64, skip=True),
        "positions": (RelativeBias(),),
        "grid": Grid(extent=(1.0,) * dim, periodic=(True,) * dim),
    } | more
    match kind:
        case "windowed":
            return swin_no(1, 1, window=(4,) * dim, shift=(2,) * dim, **settings)
        case "neighbourhood":
            return nbr_no(1, 1, radius=2 if dim == 2 else 1, **settings)
        case _:
            return vit_no(1, 1, **settings)


def training_step(model: TransformerOperator, processes: Processes | None) -> Callable[[], None]:
    """Forward and backward of one field, or of the slab of this rank."""
    grid = model.spec.default_grid.with_points(POINTS)
    if processes is None:
        x = torch.randn(1, 1, *POINTS)
        return lambda: model(x, grid).sum().backward()
    spread = SpreadModel(model, processes)
    start, stop = spread.points(grid).owned(processes.rank)
    x = torch.randn(1, 1, stop - start, *POINTS[1:])
    return lambda: spread.on_slab(x, grid).sum().backward()


def started(number: int, work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `work(groups, *arguments)` on rank 0 of `number` ranks; `groups[n]` are the first `n` of them."""
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_start, (number, folder, work, arguments), nprocs=number, start_method="spawn")
        return torch.load(Path(folder) / "result", weights_only=False)


def _start(rank: int, number: int, folder: str, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=number)
    groups: dict[int, Processes | None] = {1: None}
    for size in (2, 4):
        if size <= number:
            group = dist.new_group(list(range(size)))
            groups[size] = Processes(group) if rank < size else None
    result = work(groups, *arguments)
    if rank == 0:
        torch.save(result, Path(folder) / "result")
    dist.barrier()
    dist.destroy_process_group()


def costs_of(kind: str, points: tuple[int, ...], *, memory: float | None = None, **more: Any) -> CostModel:
    """A cost model with counted operations; its functions per block are fitted to the memory that one rank measured."""
    spec = model_of(kind, len(points), **more).spec
    whole = spec.decompose(spec.default_grid.with_points(points))
    field = spec.hidden_channels * math.prod(points)
    functions = FUNCTIONS if memory is None else memory / (4 * spec.n_layers * field) - 2
    evaluation, step = (counted(spec, whole.cell_points, training=training) for training in (False, True))
    return CostModel(spec, evaluation, step, functions)


def counted(spec: TransformerSpec, cell_points: tuple[int, ...], *, training: bool) -> Work:
    """The operations outside attention: torch counts them on two lattices, whose difference gives those of a cell.

    The products of attention, which are known, are subtracted.
    """
    totals, cells = [], []
    for rows in (8, 16):
        small = replace(spec, subdomains=(rows, *(8,) * (spec.dim - 1)))
        points = tuple(n * count for n, count in zip(cell_points, small.subdomains, strict=True))
        whole = small.decompose(small.default_grid.with_points(points))
        alone = Partition((0, rows), ring=whole.grid.periodic[0])
        attention = CostModel(small, Work(0), Work(0), 0).flops(whole, alone, 0, batch=1, training=training)
        totals.append(_operations(small, points, training=training) - attention)
        cells.append(whole.lattice.size)
    a_cell = (totals[1] - totals[0]) / (cells[1] - cells[0])
    return Work(a_cell, totals[0] - cells[0] * a_cell)


def _operations(spec: TransformerSpec, points: tuple[int, ...], *, training: bool) -> int:
    x, model = torch.randn(1, spec.in_channels, *points), spec.build()
    with torch.set_grad_enabled(training):
        if training:
            return flops(lambda: model(x).sum().backward())
        model.eval()
        return flops(lambda: model(x))
