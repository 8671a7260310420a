"""Subdomains spread over ranks: strong scaling, memory and traffic, against the cost model.

python -m benchmarks.subdomains            everything (about ten minutes), stored in benchmarks/results/subdomains.md
python -m benchmarks.subdomains scaling    one section: scaling, work, sizes, predictions

One thread per rank. Wall-clock scaling needs free cores: each round waits for them, for two minutes in total.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from tqdm import tqdm

from benchmarks.sections import run_sections
from benchmarks.spread import FUNCTIONS, KINDS, POINTS, costs_of, model_of, started, training_step
from mondrian.benchmark.measure import flops, highest_mark, reset_highest_mark, wait_for_quiet
from mondrian.parallel import Processes
from mondrian.parallel.cost import Machine
from mondrian.support.text import markdown_table

RESULTS = Path(__file__).parent / "results" / "subdomains.md"
A100 = Machine(flops=60e12, bandwidth=25e9, memory=80e9, latency=20e-6)


def measured_times(groups: dict[int, Processes | None], kind: str, rounds: int) -> dict[str, float]:
    """Best seconds of a step on one rank and on two, and the processor seconds of all ranks that take part."""
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
    """Strong scaling of a training step from one rank to two."""
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
        + markdown_table(["attention", "one process", "two", "efficiency", "efficiency by work"], rows)
    )


def measured_work(groups: dict[int, Processes | None], kind: str, rounds: int) -> dict[int, dict[str, float]]:
    """The maximum over ranks of operations and processor seconds, for steps on one, two and four ranks.

    `exchanged` are the seconds in exchanges, `exchange alone` those of the same exchanges of zeros without computation,
    `whole` those of a step on the whole field by each of as many ranks at once, which shows how they slow each other.
    """
    rank, names = dist.get_rank(), ("operations", "step", "exchanged", "exchange alone", "whole")
    steps = {size: training_step(model_of(kind), group) for size, group in groups.items() if rank < size}
    whole = training_step(model_of(kind), None)
    best = {size: dict.fromkeys(names, 0.0 if size not in steps else float("inf")) for size in groups}
    for number, size in product(range(rounds + 1), groups):
        dist.barrier()
        if size not in steps:
            continue
        numbers = best[size]
        if number == 0:  # warms up
            numbers["operations"] = flops(steps[size])
            whole()
            continue
        with exchanges_timed() as exchanges:
            seconds = processor_seconds(steps[size])
        if seconds < numbers["step"]:
            numbers |= {"step": seconds, "exchanged": sum(spent for _, spent in exchanges)}
        alone = sum(processor_seconds(call) for call, _ in exchanges)
        numbers["exchange alone"] = min(numbers["exchange alone"], alone)
        numbers["whole"] = min(numbers["whole"], processor_seconds(whole))
    most = torch.tensor([[best[size][name] for name in names] for size in groups], dtype=torch.float64)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return {size: dict(zip(names, row, strict=True)) for size, row in zip(groups, most.tolist(), strict=True)}


def processor_seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


@contextmanager
def exchanges_timed() -> Iterator[list[tuple[Callable[[], Any], float]]]:
    """The exchanges inside the block: a call that repeats each, and its processor seconds."""
    original, calls = dist.all_to_all_single, []

    def timed(received: torch.Tensor, sent: torch.Tensor, *sizes: list[int], group: dist.ProcessGroup) -> Any:
        begin = time.process_time()
        work = original(received, sent, *sizes, group=group)
        seconds = time.process_time() - begin
        shapes = (received.shape, sent.shape)
        calls.append((lambda: original(*map(torch.zeros, shapes), *sizes, group=group), seconds))
        return work

    dist.all_to_all_single = timed
    try:
        yield calls
    finally:
        dist.all_to_all_single = original


def work() -> str:
    """Operations and processor time of a training step, against the cost model."""
    rows, bandwidths = [], []
    for kind in tqdm(KINDS, desc="work", disable=None):
        measured, costs = started(4, measured_work, kind, 5), costs_of(kind, POINTS)
        whole = costs.spec.decompose(costs.spec.default_grid.with_points(POINTS))
        of = {size: costs.of(whole, size, batch=1, training=True) for size in measured}
        bandwidth = of[4].received / measured[4]["exchange alone"]
        bandwidths.append(f"{kind} {bandwidth / 1e9:.1f}")
        for size, numbers in measured.items():
            rates = [of[1].flops / measured[number]["whole"] for number in (1, size)]
            times = [of[size].seconds(Machine(rate, bandwidth, memory=float("inf"))) for rate in rates]
            rows.append(
                [
                    kind,
                    str(size),
                    f"{numbers['operations'] / 1e9:.2f}",
                    f"{of[size].flops / 1e9:.2f}",
                    f"{numbers['step']:.3f} s",
                    f"{numbers['exchanged']:.3f} s",
                    *(f"{seconds:.3f} s ({numbers['step'] / seconds - 1:+.0%})" for seconds in times),
                ]
            )
    header = ["attention", "processes", "GFLOP", "by the model", "processor", "of it exchange"]
    return (
        "The same step; the largest of all processes, processor time the best of five. Operations are counted by "
        "torch; those of the model follow from sizes and from what a cell costs on two small lattices. Its time is its "
        "operations at the rate at which a process does the whole field, by itself or while as many do that at once, "
        "and its bytes at the rate of the same exchanges by themselves on four, per second of processor time "
        f"({', '.join(bandwidths)} GB/s). In brackets by how much the measured time is longer.\n\n"
        + markdown_table([*header, "by the model, alone", "at once"], rows)
    )


def measured_sizes(groups: dict[int, Processes | None]) -> dict[tuple[str, int], dict[str, float]]:
    """Of steps by one, two and four processes: the largest peak of memory, and the most bytes received."""
    measured = {}
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
        measured[kind, size] = {"memory": most[0].item(), "received": most[1].item()}
    return measured


def sizes() -> str:
    """Memory and traffic of a training step, against the cost model."""
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**16)  # freed memory goes back at once, so that peaks show
    measured = started(4, measured_sizes)
    del os.environ["MALLOC_MMAP_THRESHOLD_"]
    models = {kind: costs_of(kind, POINTS, memory=measured[kind, 1]["memory"]) for kind in KINDS}
    rows = []
    for (kind, size), numbers in measured.items():
        costs = models[kind]
        whole = costs.spec.decompose(costs.spec.default_grid.with_points(POINTS))
        cost = costs.of(whole, size, batch=1, training=True)
        counted = [mib(numbers["memory"]), mib(cost.kept), mib(numbers["received"]), mib(cost.received)]
        rows.append([kind, str(size), *counted, f"{costs.functions_a_block:.1f}"])
    return (
        "The same step; the largest of all processes. The functions that a block keeps are fitted to the memory of one "
        "process, and make that of the others; bytes are counted, and those of the model follow from sizes alone.\n\n"
        + markdown_table(
            ["attention", "processes", "memory", "by the model", "received", "by the model", "functions"], rows
        )
    )


def predictions() -> str:
    """Predictions of the cost model for larger domains and more ranks."""
    parts = []
    for name, dim, points, channels in (("4096 x 4096", 2, 4096, 128), ("512 x 512 x 512", 3, 512, 64)):
        rows = []
        for kind in tqdm(KINDS, desc=name, disable=None):
            sizes = (points,) * dim
            costs = costs_of(kind, sizes, hidden_channels=channels, subdomains=(points // 4,) * dim)
            whole = costs.spec.decompose(costs.spec.default_grid.with_points(sizes))
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
        parts.append(f"{name}, {channels} channels, subdomains of 4 points an axis:\n\n{markdown_table(header, rows)}")
    return (
        f"A training step, one field, float32, of each process. Reckoned for {A100.flops / 1e12:.0f} TFLOP/s, "
        f"{A100.bandwidth / 1e9:.0f} GB/s from others and {A100.memory / 1e9:.0f} GB a process, with {FUNCTIONS} "
        "functions a block kept for the gradient, and nothing of the exchange hidden behind the work. Global attention "
        "is reckoned with a kernel that keeps no scores: a relative bias of all pairs would not fit.\n\n"
        + "\n\n".join(parts)
    )


def mib(size: float) -> str:
    return f"{size / 2**20:,.1f} MiB"


SECTIONS = {"scaling": scaling, "work": work, "sizes": sizes, "predictions": predictions}
HEADING = """# Subdomains spread over processes

`python -m benchmarks.subdomains`, one thread a process, on two cores shared with others."""

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    run_sections(SECTIONS, sys.argv[1:], RESULTS, HEADING)
