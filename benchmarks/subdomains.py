"""Subdomains spread over processes: strong scaling, memory and traffic, beside what the cost model says.

python -m benchmarks.subdomains            everything (about five minutes), stored in benchmarks/results/subdomains.md
python -m benchmarks.subdomains scaling    one section: scaling, sizes, predictions

One thread a process. Times need free cores: each round waits for them, for two minutes in all.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tqdm import tqdm

from benchmarks.measure import flops, highest_mark, reset_highest_mark, table, wait_for_quiet
from benchmarks.sections import run_sections
from mondrian import Grid, RelativeBias, SeparableMixture, nbr_no, swin_no, vit_no
from mondrian.models import TransformerOperator
from mondrian.parallel import Processes, SpreadModel
from mondrian.parallel.cost import CostModel, Machine, keys_seen

RESULTS = Path(__file__).parent / "results" / "subdomains.md"
KINDS = ("windowed", "neighbourhood", "global")
POINTS, SUBDOMAINS = (256, 256), (32, 32)
A100 = Machine(flops=60e12, bandwidth=25e9, memory=80e9, latency=20e-6)


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
    """Forward and backward of one field, or of this process' slab of it."""
    grid = model.spec.default_grid.with_points(POINTS)
    if processes is None:
        x = torch.randn(1, 1, *POINTS)
        return lambda: model(x, grid).sum().backward()
    spread = SpreadModel(model, processes)
    start, stop = spread.points(grid).owned(processes.rank)
    x = torch.randn(1, 1, stop - start, *POINTS[1:])
    return lambda: spread.on_slab(x, grid).sum().backward()


def started(number: int, work: Callable[..., Any], *arguments: Any) -> Any:
    """What `work(groups, *arguments)` returns on the first of `number` processes; `groups[n]` are the first `n`."""
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(_start, (number, folder, work, arguments), nprocs=number, start_method="spawn")
        return torch.load(Path(folder) / "found", weights_only=False)


def _start(rank: int, number: int, folder: str, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=number)
    groups: dict[int, Processes | None] = {1: None}
    for size in (2, 4):
        if size <= number:
            group = dist.new_group(list(range(size)))
            groups[size] = Processes(group) if rank < size else None
    found = work(groups, *arguments)
    if rank == 0:
        torch.save(found, Path(folder) / "found")
    dist.barrier()
    dist.destroy_process_group()


def measured_times(groups: dict[int, Processes | None], kind: str, rounds: int) -> dict[str, float]:
    """Best seconds of a step by one process and by two, and the processor seconds of all that take part."""
    rank, patience = dist.get_rank(), 60.0
    steps = {1: training_step(model_of(kind), None), 2: training_step(model_of(kind), groups[2])}
    best = {"wall 1": float("inf"), "wall 2": float("inf"), "work 1": float("inf"), "work 2": float("inf")}
    for number in range(rounds + 1):
        if rank == 0:
            patience -= wait_for_quiet(patience)
        for size, step in steps.items():
            dist.barrier()
            wall, work = time.perf_counter(), time.process_time()
            if rank < size:
                step()
            mine = torch.tensor([time.process_time() - work if rank < size else 0.0])
            dist.all_reduce(mine)
            if number:  # the first round warms up
                best[f"wall {size}"] = min(best[f"wall {size}"], time.perf_counter() - wall)
                best[f"work {size}"] = min(best[f"work {size}"], mine.item())
    return best


def scaling() -> str:
    """Strong scaling of a training step from one process to two."""
    rows = []
    for kind in tqdm(KINDS, desc="scaling", disable=None):
        best = started(2, measured_times, kind, 7)
        rows.append(
            [
                kind,
                f"{best['wall 1']:.2f} s",
                f"{best['wall 2']:.2f} s",
                f"{best['wall 1'] / (2 * best['wall 2']):.0%}",
                f"{best['work 1'] / best['work 2']:.0%}",
            ]
        )
    return (
        "Forward and backward of one field of 256 x 256, 32 x 32 subdomains, 32 channels, four blocks. Efficiency is "
        "the time of one process over twice that of two; by work, the processor time of one over that of both, which "
        "leaves out waiting and which neighbours on the machine hardly change. "
        f"{os.getloadavg()[2]:.1f} processes were running on {os.cpu_count()} cores, these among them.\n\n"
        + table(["attention", "one process", "two", "efficiency", "efficiency by work"], rows)
    )


def measured_sizes(groups: dict[int, Processes | None]) -> dict[tuple[str, int], dict[str, float]]:
    """Of steps by one, two and four processes: the largest peak of memory, and the most bytes received."""
    found = {}
    for kind, (size, processes) in product(KINDS, groups.items()):
        dist.barrier()
        peak = received = 0.0
        if dist.get_rank() < size:
            step = training_step(model_of(kind), processes)
            step()
            gc.collect()
            before = reset_highest_mark()
            if processes is not None:
                processes.traffic.forward = processes.traffic.backward = 0
            step()
            peak = highest_mark() - before
            received = 0 if processes is None else processes.traffic.forward + processes.traffic.backward
        most = torch.tensor([peak, received], dtype=torch.float64)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        found[kind, size] = {"memory": most[0].item(), "received": most[1].item()}
    return found


def sizes() -> str:
    """Memory and traffic of a training step, beside the cost model."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)  # what is freed goes back at once, so that peaks can be seen
    found = started(4, measured_sizes)
    del os.environ["MALLOC_MMAP_THRESHOLD_"]
    rows = []
    for (kind, size), numbers in found.items():
        costs = calibrated(kind, found[kind, 1]["memory"])
        whole = costs.spec.decompose(costs.spec.default_grid.with_points(POINTS))
        cost = costs.of(whole, size, batch=1, training=True)
        counted = [mib(numbers["memory"]), mib(cost.kept), mib(numbers["received"]), mib(cost.received)]
        rows.append([kind, str(size), *counted, f"{costs.functions_a_block:.1f}"])
    return (
        "The same step; the largest of all processes. The functions that a block keeps are fitted to the memory of one "
        "process, and make that of the others; bytes are counted, and those of the model follow from sizes alone.\n\n"
        + table(["attention", "processes", "memory", "by the model", "received", "by the model", "functions"], rows)
    )


def calibrated(kind: str, memory: float, **more: Any) -> CostModel:
    """A cost model whose operations a cell are counted, and whose functions a block explain a measured memory."""
    model = model_of(kind, **more)
    grid = model.spec.default_grid.with_points(POINTS)
    whole = model.spec.decompose(grid)
    field = model.spec.hidden_channels * grid.points[0] * grid.points[1]
    kept = memory / (4 * model.spec.n_layers * field) - 2
    return CostModel(model.spec, operations_a_cell(model, whole.cell_points), kept)


def operations_a_cell(model: TransformerOperator, cell_points: tuple[int, ...]) -> float:
    """Floating-point operations of one cell outside attention, counted on a small lattice of them."""
    counts = (8,) * len(cell_points)
    spec = replace(model.spec, subdomains=counts)
    small = spec.build().eval()
    x = torch.randn(1, spec.in_channels, *(n * count for n, count in zip(cell_points, counts, strict=True)))
    with torch.no_grad():
        total = flops(lambda: small(x))
    whole = spec.decompose(spec.default_grid.with_points(tuple(x.shape[2:])))
    field = spec.hidden_channels * torch.Size(cell_points).numel()
    attention = 4 * spec.n_layers * field * keys_seen(spec.attention, whole.lattice)
    return total / whole.lattice.size - attention


def predictions() -> str:
    """What the model says of domains and numbers of processes that are not here."""
    parts = []
    for name, dim, points, channels in (("4096 x 4096", 2, 4096, 128), ("512 x 512 x 512", 3, 512, 64)):
        rows = []
        for kind in tqdm(KINDS, desc=name, disable=None):
            model = model_of(kind, dim, hidden_channels=channels, subdomains=(points // 4,) * dim)
            costs = CostModel(model.spec, operations_a_cell(model, (4,) * dim), FUNCTIONS)
            whole = model.spec.decompose(model.spec.default_grid.with_points((points,) * dim))
            for size in (8, 32, 128, 512):
                if size > whole.subdomains[0]:
                    continue
                cost = costs.of(whole, size, batch=1, training=True)
                alone = cost.flops / A100.flops
                rows.append(
                    [
                        kind,
                        str(size),
                        f"{cost.flops / 1e12:,.1f}",
                        f"{cost.kept / 1e9:,.1f}{'' if cost.kept < A100.memory else ' (too much)'}",
                        f"{cost.received / 1e9:,.2f}",
                        f"{cost.seconds(A100):,.2f} s",
                        f"{alone / cost.seconds(A100):.0%}",
                    ]
                )
        header = ["attention", "processes", "TFLOP", "GB kept", "GB received", "step", "of it work"]
        parts.append(f"{name}, {channels} channels, subdomains of 4 points an axis:\n\n{table(header, rows)}")
    return (
        f"A training step, one field, float32, of each process. Reckoned for {A100.flops / 1e12:.0f} TFLOP/s, "
        f"{A100.bandwidth / 1e9:.0f} GB/s from others and {A100.memory / 1e9:.0f} GB a process, with {FUNCTIONS} "
        "functions a block kept for the gradient, and nothing of the exchange hidden behind the work.\n\n"
        + "\n\n".join(parts)
    )


FUNCTIONS = 15  # of field size that a block keeps: what `sizes` fits, rounded


def mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"


SECTIONS = {"scaling": scaling, "sizes": sizes, "predictions": predictions}
HEADING = """# Subdomains spread over processes

`python -m benchmarks.subdomains`, one thread a process, on two cores shared with others."""

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    run_sections(SECTIONS, sys.argv[1:], RESULTS, HEADING)
