"""Speed and memory of operators and models, each against its plain definition in the same run.

python -m benchmarks.core            everything (about half an hour), stored in benchmarks/results/core.md
python -m benchmarks.core models     one section: operators, choice, models, attention, tiles, table

On a busy machine set OMP_NUM_THREADS=1: a single thread is measured in processor time, which neighbours hardly change.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

import mondrian
from benchmarks.measure import flops, interleaved, keep_large_allocations, matrix_peak, peak_memory, table
from benchmarks.sections import run_sections
from mondrian import Integral, LowRank, Mixture, SeparableMixture, nbr_no, swin_no
from mondrian.attention import AttentionSpec, FunctionAttention
from mondrian.attention.patterns import Bias
from mondrian.attention.tiles import Groups, best_tile, mask_of, tiles
from mondrian.decomposition import Lattice
from mondrian.operators import Evaluation, OperatorSpec, use_definitions
from mondrian.quadrature import Cell, Midpoint
from mondrian.strip import Strip

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


def training_step(model: torch.nn.Module, batch: int, points: int) -> Callable[[], None]:
    """Forward and backward on a batch."""
    x = torch.randn(batch, 2, points, points)

    def run() -> None:
        model.zero_grad(set_to_none=True)
        model(x).square().mean().backward()

    return run


def gib(size: float) -> str:
    return "n/a" if size != size else f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def operators() -> str:
    """The mixture at 16 x 16 points a cell against the direct definition; growth with the points."""
    spec = Mixture()
    # memory first: what the definition took stays with this process
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
            f"{gib(memory[True])} / {gib(memory[False])}",
            f"{memory[True] / max(memory[False], 1):.0f}x",
        ],
        [
            "time from 32^2 to 256^2 points, per point",
            " ".join(f"{n}: {t * 1e3:.0f} ms" for n, t in growth.items()),
            f"{ratio:.2f}x",
        ],
    ]
    return "Mixture 64 -> 192, 64 cells, batch 1, 16 x 16 points a cell:\n\n" + table(["", "measured", "ratio"], rows)


def choice() -> str:
    """At training size, what the library chooses against the best of the three evaluations."""
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
            for way in Evaluation:
                built = copy.deepcopy(first)
                built.evaluation = None if way is chosen else way

                def run(built: torch.nn.Module = built, v: torch.Tensor = v) -> None:
                    built.zero_grad(set_to_none=True)
                    built(v, cell).square().mean().backward()

                cases[way.value] = run
            time = interleaved(cases, rounds=5, seconds=25)
            rows.append(
                [
                    f"{name} {channels[0]} -> {channels[1]}",
                    chosen.value,
                    *(f"{time[way.value] * 1e3:.0f}" for way in Evaluation),
                    f"{time[chosen.value] / min(time.values()):.2f}",
                ]
            )
    return "Forward and backward at 4 x 4 points, 64 cells, batch 32, in ms:\n\n" + table(
        ["operator", "chosen", *(way.value for way in Evaluation), "chosen / best"], rows
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
    rows.append(["allen_cahn/vit_mo, forward at 1024^2", "", f"{time['fast']:.1f} s", "", gib(memory)])
    note = f"Matrix-product peak measured in this run: {peak / 1e9:.0f} GFLOP/s.\n\n"
    return note + table(["", "definitions", "library", "ratio", ""], rows)


@dataclass(frozen=True)
class NoAttention(AttentionSpec):
    """Every cell sees itself only: what a model costs besides attention."""

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        lattice: Lattice | Strip,
        bias: Bias | None = None,
        *,
        scale: float = 1.0,
    ) -> Tensor:
        return v


def attention() -> str:
    """Windowed and neighbourhood models on 32 x 32 subdomains against a full masked score matrix."""
    rows = []
    for width, operator in product((32, 64), (LowRank(), SeparableMixture(terms=64))):
        settings = {"hidden_channels": width, "subdomains": (32, 32), "operator": operator}
        for label, model in {
            "windowed, 4 x 4": swin_no(2, 1, window=(4, 4), shift=(2, 2), **settings),
            "neighbourhood, radius 2": nbr_no(2, 1, radius=2, **settings),
        }.items():
            masked, without = copy.deepcopy(model), copy.deepcopy(model)
            for module in masked.modules():
                if isinstance(module, FunctionAttention):
                    module.plain = True
            for module in without.modules():
                if isinstance(module, FunctionAttention):
                    module.spec = NoAttention(n_heads=model.spec.attention.n_heads)
            for task, make in {"forward": forward_run, "training step": training_step}.items():
                models = {"fast": model, "masked": masked, "without": without}
                time = interleaved({kind: make(each, 1, 128) for kind, each in models.items()}, rounds=8, seconds=25)
                fast, full, none = (time[kind] for kind in models)
                rows.append(
                    [
                        f"{label}, {type(operator).__name__}, {width} channels, {task}",
                        *(f"{part * 1e3:.0f} ms" for part in (full, fast, none)),
                        f"{full / fast:.1f}x",
                        f"{(full - none) / (fast - none):.1f}x" if fast > 1.05 * none else "not told apart",
                    ]
                )
    note = "32 x 32 subdomains of 4 x 4 points, four blocks, batch 1:\n\n"
    return note + table(["", "full masked matrix", "library", "without attention", "ratio", "of attention alone"], rows)


def explicit(q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None) -> Tensor:
    """Attention by products and a softmax of their own, in place of the engine's fused kernel."""
    score = q @ k.mT
    return torch.softmax(score if attn_mask is None else score + attn_mask, dim=-1) @ v


def tiled_run(groups: Groups, attend: Callable[..., Tensor], width: int, training: bool) -> Callable[[], None]:
    """Attention of one layer with four heads, in these tiles."""
    # as a layer has them: the features of all heads of a cell together in memory
    shape = (1, len(groups.back), 4, 4 * width)
    q, k, v = (torch.randn(shape, requires_grad=training).transpose(1, 2) for _ in range(3))

    def run() -> None:
        parts = ((q, groups.queries), (k, groups.keys), (v, groups.keys))
        mask = mask_of(groups.hidden, None, q)
        y = groups.join(attend(*(groups.split(*part) for part in parts), attn_mask=mask))
        if training:
            torch.autograd.grad(y.sum(), (q, k, v))

    return run


def tiling() -> str:
    """Attention to neighbours alone, in tiles of several sizes, by the fused kernel and by explicit products."""
    lattice, radius = Lattice((32, 32), (False, False)), 2
    sizes, rows = ((2, 4), (4, 4), (4, 8), (8, 8), (4, 16), (16, 16)), []
    kinds = {"fused kernel": F.scaled_dot_product_attention, "explicit products": explicit}
    for width, training in product((32, 64), (False, True)):
        cases: dict[str, Callable[[], Any]] = {}
        for tile, kind in product(sizes, kinds):
            groups = tiles(lattice, radius, torch.device("cpu"), tile)
            assert groups is not None
            cases[f"{tile} {kind}"] = tiled_run(groups, kinds[kind], width, training)
        time = interleaved(cases, rounds=9, seconds=20)
        for kind in kinds:
            task = "forward and backward" if training else "forward"
            measured = (f"{time[f'{tile} {kind}'] * 1e3:.1f}" for tile in sizes)
            rows.append([f"{width} channels, {task}, {kind}", *measured])
    chosen = "x".join(map(str, best_tile(lattice, radius) or ()))
    note = f"One layer on 32 x 32 subdomains of 4 x 4 points, radius 2, in ms; the library takes {chosen}, fused:\n\n"
    return note + table(["tiles of", *("x".join(map(str, tile)) for tile in sizes)], rows)


def fno_like(parameters: int) -> torch.nn.Module:
    """neuraloperator's FNO with about as many parameters."""
    from neuralop.models import FNO

    def make(width: int) -> torch.nn.Module:
        return FNO(n_modes=(16, 16), in_channels=2, out_channels=1, hidden_channels=width)

    return min((make(width) for width in range(8, 96, 4)), key=lambda model: abs(count(model) - parameters))


def count(model: torch.nn.Module) -> int:
    """Real numbers in the weights: a complex one has two."""
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in model.parameters())


def forward_run(model: torch.nn.Module, batch: int, points: int) -> Callable[[], torch.Tensor]:
    x = torch.randn(batch, 2, points, points)

    def run() -> torch.Tensor:
        with torch.no_grad():
            return model(x)

    return run


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
                    gib(memory),
                    f"{rate / 1e9:.0f}",
                    f"{rate / peak:.0%}",
                    f"{count(fno):,}",
                    f"{batch / time['fno']:.1f}",
                    gib(peak_memory(fno_forward, count(model), batch, points)),
                ]
            )
    note = (
        f"Forward passes, batches of {', '.join(f'{batch} at {points}^2' for points, batch in batches.items())}. Peak "
        f"{peak / 1e9:.0f} GFLOP/s in this run. An FNO has no GFLOP/s here: Fourier transforms are not counted.\n\n"
    )
    return note + table(
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
    "attention": attention,
    "tiles": tiling,
    "table": comparison,
}


HEADING = """# Speed and memory of the core

`make bench`, on two cores shared with others: of times in one row only the ratio means much."""

if __name__ == "__main__":
    keep_large_allocations()
    run_sections(SECTIONS, sys.argv[1:], RESULTS, HEADING)
