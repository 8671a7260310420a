"""A U-Net of subdomains against one level of them: time and memory as the subdomains become more.

python -m benchmarks.hierarchy          everything (about five minutes), stored in benchmarks/results/hierarchy.md
python -m benchmarks.hierarchy time     one section: time, memory

On a busy machine set OMP_NUM_THREADS=1: a single thread is measured in processor time, which neighbours hardly change.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.sections import keep_large_allocations, run_sections
from mondrian import RelativeBias, SeparableMixture, nbr_no, unet_no, vit_no
from mondrian.benchmark.measure import interleaved, peak_memory
from mondrian.models import TransformerOperator
from mondrian.support.text import markdown_table

RESULTS = Path(__file__).parent / "results" / "hierarchy.md"
KINDS = {"global": "`vit_no`, global", "near": "`nbr_no`, radius 1", "levels": "`unet_no`, radius 1"}
SIZES = (8, 16, 32, 64)
TASKS = ("forward", "training step")
CELL, COARSEST = 4, 4  # points of a cell, subdomains of the coarsest level, along each axis


def model_of(kind: str, subdomains: int) -> TransformerOperator:
    """Four staggered blocks on the finest level; the U-Net has two of them before and two after the coarser ones."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "hidden_channels": 32,
        "subdomains": (subdomains, subdomains),
        "operator": SeparableMixture(terms=64, skip=True),
        "positions": (RelativeBias(),),
        "stagger": True,
    }
    match kind:
        case "global":
            return vit_no(2, 1, n_layers=4, **settings)
        case "near":
            return nbr_no(2, 1, n_layers=4, radius=1, **settings)
        case _:
            return unet_no(2, 1, n_layers=2, radius=1, levels=1 + round(math.log2(subdomains / COARSEST)), **settings)


def work(kind: str, subdomains: int, task: str) -> Callable[[], Any]:
    """A forward pass of one sample, or a training step."""
    model = model_of(kind, subdomains)
    x = torch.randn(1, 2, CELL * subdomains, CELL * subdomains)

    def forward() -> None:
        with torch.no_grad():
            model(x)

    def training_step() -> None:
        model.zero_grad(set_to_none=True)
        model(x).square().mean().backward()

    return forward if task == "forward" else training_step


def page_of(measured: dict[tuple[str, str, int], float], unit: Callable[[float], str]) -> str:
    """One row per model and task, one column per size; the last column is the growth, as a power of the subdomains."""
    rows = []
    for task in TASKS:
        for kind, name in KINDS.items():
            values = [measured[task, kind, n] for n in SIZES]
            power = math.log(values[-1] / values[-2]) / math.log((SIZES[-1] / SIZES[-2]) ** 2)
            rows.append([f"{name}, {task}", *map(unit, values), f"{power:.2f}"])
    header = ["", *(f"{n} x {n}" for n in SIZES), "last power"]
    note = f"One sample, 32 channels, {CELL} x {CELL} points a subdomain; the coarsest level of the U-Net is "
    note += f"{COARSEST} x {COARSEST}. `last power`: p in (number of subdomains)^p between the last two columns.\n\n"
    return note + markdown_table(header, rows)


def time() -> str:
    """Best of a few interleaved rounds."""
    measured = {}
    for n in tqdm(SIZES, desc="time", disable=None):
        cases = {(task, kind): work(kind, n, task) for task in TASKS for kind in KINDS}
        best = interleaved({"/".join(case): run for case, run in cases.items()}, rounds=5, seconds=15)
        measured |= {(task, kind, n): best[f"{task}/{kind}"] for task, kind in cases}
    return page_of(measured, lambda seconds: f"{seconds * 1e3:.0f} ms")


def memory() -> str:
    """Peak memory beyond model and input, each in a separate process."""
    sizes = [(task, kind, n) for task in TASKS for kind in KINDS for n in SIZES]
    measured = {case: peak_memory(work, case[1], case[2], case[0]) for case in tqdm(sizes, desc="memory", disable=None)}
    return page_of(measured, lambda size: f"{size / 2**20:.0f} MiB")


SECTIONS = {"time": time, "memory": memory}


HEADING = """# Levels

`python -m benchmarks.hierarchy`: four blocks on all subdomains, and a U-Net with four blocks on its finest level."""

if __name__ == "__main__":
    keep_large_allocations()
    run_sections(SECTIONS, sys.argv[1:], RESULTS, HEADING)
