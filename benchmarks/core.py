"""Speed and memory of operators and models, each against its plain definition in the same run.

python -m benchmarks.core            everything (about half an hour), stored in benchmarks/results/core.md
python -m benchmarks.core models     one section: operators, choice, models, attention, tiles, windows, table

On a busy machine set OMP_NUM_THREADS=1: a single thread is measured in processor time, which neighbours hardly change.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

import mondrian
from benchmarks.attention import models_on_many_subdomains, tiling, windowing
from benchmarks.sections import keep_large_allocations, run_sections
from benchmarks.timed_steps import forward_run, training_step
from mondrian import Integral, Mixture, SeparableMixture
from mondrian.benchmark.measure import flops, interleaved, peak_memory
from mondrian.operators import KernelMethod, OperatorSpec, use_definitions
from mondrian.quadrature import Cell, Midpoint
from mondrian.support.text import markdown_table, memory_text

RESULTS = Path(__file__).parent / "results" / "core.md"
OPERATORS = ("integral", "low_rank", "attention", "spectral", "interpolating", "mo", "sepmo")


def operator_run(spec: OperatorSpec, points: int, plain: bool) -> Callable[[], torch.Tensor]:
    """One application of a 64 to 192 operator to 64 cells."""
    torch.manual_seed(0)
    built = use_definitions(spec.build(64, 192, bias=False), plain)
    cell = Cell.build((points, points), Midpoint())
    v = torch.randn(1, 64, 64, cell.size)

    def run() -> torch.Tensor:
        with torch.no_grad():
            return built(v, cell)

    return run


def model_run(name: str, points: int, plain: bool) -> Callable[[], torch.Tensor]:
    """One forward pass of a recipe's model."""
    torch.manual_seed(0)
    model = use_definitions(mondrian.build(name), plain).eval()
    x = torch.randn(1, 2, points, points)

    def run() -> torch.Tensor:
        with torch.no_grad():
            return model(x)

    return run


def matrix_peak() -> float:
    """The machine's float32 matrix-product rate in FLOP/s, as measured now."""
    a = torch.randn(2048, 2048)
    best = interleaved({"product": lambda: a @ a}, rounds=15)["product"]
    return 2 * 2048**3 / best


def operators() -> str:
    """The mixture at 16 x 16 points a cell against the direct definition; growth with the points."""
    spec = Mixture()
    # memory first, because the process keeps what the definition allocates
    memory = {plain: peak_memory(operator_run, spec, 16, plain) for plain in (True, False)}
    time = interleaved({"plain": operator_run(spec, 16, True), "fast": operator_run(spec, 16, False)}, rounds=3)
    growth = interleaved({str(n): operator_run(spec, n, False) for n in (32, 64, 128, 256)}, rounds=5)
    ratio = growth["256"] / growth["32"] / 64
    rows = [
        [
            "time, definition / fast",
            f"{time['plain']:.2f} s / {time['fast'] * 1e3:.1f} ms",
            f"{time['plain'] / time['fast']:.0f}x",
        ],
        [
            "peak memory, definition / fast",
            f"{memory_text(memory[True])} / {memory_text(memory[False])}",
            f"{memory[True] / max(memory[False], 1):.0f}x",
        ],
        [
            "time from 32^2 to 256^2 points, per point",
            " ".join(f"{n}: {t * 1e3:.0f} ms" for n, t in growth.items()),
            f"{ratio:.2f}x",
        ],
    ]
    return "Mixture 64 -> 192, 64 cells, batch 1, 16 x 16 points a cell:\n\n" + markdown_table(
        ["", "measured", "ratio"], rows
    )


def choice() -> str:
    """At training size, the method that the library chooses against the best of the three."""
    cell = Cell.build((4, 4), Midpoint())
    rows = []
    specs = {"Integral": Integral(), "Mixture": Mixture(), "SeparableMixture": SeparableMixture(skip=True)}
    for name, spec in specs.items():
        width = 128 if name == "SeparableMixture" else 64
        for channels in ((width, 3 * width), (width, width), (2, width), (width, 1)):
            torch.manual_seed(0)
            v = torch.randn(32, 64, channels[0], 16, requires_grad=True)
            first = spec.build(*channels)
            chosen = first.choose(2048, cell)
            cases: dict[str, Callable[[], Any]] = {}
            for way in KernelMethod:
                built = copy.deepcopy(first)
                built.method = None if way is chosen else way

                def run(built: torch.nn.Module = built, v: torch.Tensor = v) -> None:
                    built.zero_grad(set_to_none=True)
                    built(v, cell).square().mean().backward()

                cases[way.value] = run
            time = interleaved(cases, rounds=5, seconds=25)
            rows.append(
                [
                    f"{name} {channels[0]} -> {channels[1]}",
                    chosen.value,
                    *(f"{time[way.value] * 1e3:.0f}" for way in KernelMethod),
                    f"{time[chosen.value] / min(time.values()):.2f}",
                ]
            )
    return "Forward and backward at 4 x 4 points, 64 cells, batch 32, in ms:\n\n" + markdown_table(
        ["operator", "chosen", *(way.value for way in KernelMethod), "chosen / best"], rows
    )


def models() -> str:
    """Whole models against the same models made of plain definitions."""
    rows = []
    for name in ("allen_cahn/vit_mo", "allen_cahn/vit_sepmo"):
        time = interleaved({"fast": model_run(name, 128, False), "plain": model_run(name, 128, True)}, rounds=2)
        rows.append(
            [
                f"{name}, forward at 128^2",
                f"{time['plain']:.2f} s",
                f"{time['fast'] * 1e3:.0f} ms",
                f"{time['plain'] / time['fast']:.1f}x",
                "",
            ]
        )
    peak = matrix_peak()
    for name in ("allen_cahn/vit_mo", "allen_cahn/vit_sepmo"):
        torch.manual_seed(0)
        model = mondrian.build(name)
        plain = use_definitions(copy.deepcopy(model))
        step = training_step(model, 32, 32)
        time = interleaved({"fast": step, "plain": training_step(plain, 32, 32)}, rounds=15, seconds=120)
        rate = flops(step) / time["fast"]
        rows.append(
            [
                f"{name}, training step at 32^2, batch 32",
                f"{time['plain']:.2f} s",
                f"{time['fast']:.2f} s",
                f"{time['plain'] / time['fast']:.2f}x",
                f"{rate / 1e9:.0f} GFLOP/s, {rate / peak:.0%} of peak",
            ]
        )
    time = interleaved({"fast": model_run("allen_cahn/vit_mo", 1024, False)}, rounds=5)
    memory = peak_memory(model_run, "allen_cahn/vit_mo", 1024, False)
    rows.append(["allen_cahn/vit_mo, forward at 1024^2", "", f"{time['fast']:.1f} s", "", memory_text(memory)])
    note = f"Matrix-product peak measured in this run: {peak / 1e9:.0f} GFLOP/s.\n\n"
    return note + markdown_table(["", "definitions", "library", "ratio", ""], rows)


def fno_like(parameters: int) -> torch.nn.Module:
    """neuraloperator's FNO with about as many parameters."""
    from neuralop.models import FNO

    def make(width: int) -> torch.nn.Module:
        return FNO(n_modes=(16, 16), in_channels=2, out_channels=1, hidden_channels=width)

    return min((make(width) for width in range(8, 96, 4)), key=lambda model: abs(count(model) - parameters))


def count(model: torch.nn.Module) -> int:
    """The number of real weights; a complex one counts twice."""
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters())


def recipe_forward(name: str, batch: int, points: int) -> Callable[[], torch.Tensor]:
    return forward_run(mondrian.build(name), batch, points)


def fno_forward(parameters: int, batch: int, points: int) -> Callable[[], torch.Tensor]:
    return forward_run(fno_like(parameters), batch, points)


def comparison() -> str:
    """Every operator under ViT and Swin, with an FNO of the same size, at three resolutions."""
    rows = []
    peak = matrix_peak()
    names = [f"allen_cahn/{kind}_{operator}" for kind in ("vit", "swin") for operator in OPERATORS]
    batches = {32: 8, 64: 4, 128: 2}
    for name in tqdm(names, desc="models", disable=None):
        model = mondrian.build(name).eval()
        fno = fno_like(count(model)).eval()
        for points, batch in batches.items():
            cases = {"model": forward_run(model, batch, points), "fno": forward_run(fno, batch, points)}
            time = interleaved(cases, rounds=3, seconds=10)
            rate = flops(cases["model"]) / time["model"]
            memory = peak_memory(recipe_forward, name, batch, points)
            rows.append(
                [
                    name,
                    f"{points}^2",
                    f"{count(model):,}",
                    f"{batch / time['model']:.1f}",
                    memory_text(memory),
                    f"{rate / 1e9:.0f}",
                    f"{rate / peak:.0%}",
                    f"{count(fno):,}",
                    f"{batch / time['fno']:.1f}",
                    memory_text(peak_memory(fno_forward, count(model), batch, points)),
                ]
            )
    note = (
        f"Forward passes, batches of {', '.join(f'{batch} at {points}^2' for points, batch in batches.items())}. Peak "
        f"{peak / 1e9:.0f} GFLOP/s in this run. An FNO has no GFLOP/s here: Fourier transforms are not counted.\n\n"
    )
    return note + markdown_table(
        [
            "recipe",
            "grid",
            "parameters",
            "samples/s",
            "memory",
            "GFLOP/s",
            "of peak",
            "FNO parameters",
            "FNO samples/s",
            "FNO memory",
        ],
        rows,
    )


SECTIONS = {
    "operators": operators,
    "choice": choice,
    "models": models,
    "attention": models_on_many_subdomains,
    "tiles": tiling,
    "windows": windowing,
    "table": comparison,
}


HEADING = """# Speed and memory of the core

`make bench`, on two cores shared with others: of times in one row only the ratio means much."""

if __name__ == "__main__":
    keep_large_allocations()
    run_sections(SECTIONS, sys.argv[1:], RESULTS, HEADING)
