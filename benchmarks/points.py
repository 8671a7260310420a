"""Learned resamplers: cost against the number of points, and rows of one length against other ways of batching.

    python -m benchmarks.points [--write]

Forward and backward of one encoding and one decoding, one thread, processor time, interleaved. `--write` puts the table
into benchmarks/results/points.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from benchmarks.sections import keep_large_allocations
from mondrian import Grid, Midpoint
from mondrian.benchmark.measure import interleaved
from mondrian.points import Boxes, Placement, PointSet, Tiles
from mondrian.quadrature import Cell
from mondrian.resampling import CrossAttention, CrossIntegral, LearnedResampler
from mondrian.support.text import markdown_table

BOX, BOXES, CHANNELS = Grid(extent=(1.0, 1.0)), Boxes((8, 8)), 32
CELL = Cell.build((4, 4), Midpoint())
SPECS = {"cross attention": CrossAttention(), "cross integral": CrossIntegral()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/points.md")
    arguments = parser.parse_args()
    keep_large_allocations()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text = "\n\n".join(
        [
            "# Points",
            f"Forward and backward of encoding and decoding, {CHANNELS} channels, 8 x 8 boxes of 4 x 4 points,"
            f" one sample; one thread, processor time, best of several interleaved rounds, torch {torch.__version__}.",
            "## Cost against points\nUniformly random points. Nanoseconds a point should not grow.",
            by_points(),
            "## Ragged cells\n20,000 points. *Crowded*: coordinates are cubes of uniform ones, so that boxes at one"
            " corner hold most. Rows as chosen, one row as long as the largest cell for every cell (padding), the"
            " definition cell by cell.",
            by_layout(),
            "`python -m benchmarks.points --write` makes this page.\n",
        ]
    )
    print(text)
    if arguments.write:
        (Path(__file__).parent / "results" / "points.md").write_text(text)


def by_points() -> str:
    counts = [2**k for k in (12, 14, 16)]
    rows = []
    for name, spec in SPECS.items():
        resampler = spec.build(CHANNELS, CHANNELS)
        times = [
            interleaved({"run": step(resampler, tiles_of(n, 1))}, rounds=3)["run"]
            for n in tqdm(counts, desc=f"{name}, points")
        ]
        rows.append([name, *(f"{t * 1e3:.0f} ms, {t / n * 1e9:.0f} ns" for t, n in zip(times, counts, strict=True))])
    return markdown_table(["", *(f"{n:,}" for n in counts)], rows)


def by_layout() -> str:
    rows = []
    for name, spec in SPECS.items():
        for kind, power in (("uniform", 1), ("crowded", 3)):
            resampler, plain = spec.build(CHANNELS, CHANNELS), spec.build(CHANNELS, CHANNELS)
            plain.plain = True
            chosen, counts = tiles_of(20_000, power), counts_of(20_000, power)
            padded = tiles_of(20_000, power, int(counts.max()))
            cases: dict[str, Callable[[], Any]] = {
                "rows": step(resampler, chosen),
                "padding": step(resampler, padded),
                "definition": step(plain, chosen),
            }
            times = interleaved(cases, rounds=3)
            waste = [f"{tiles.filled.numel() / 20_000:.2f}" for tiles in (chosen, padded)]
            rows.append(
                [f"{name}, {kind}", f"{chosen.filled.shape[1]}", *waste, *(f"{t * 1e3:.0f} ms" for t in times.values())]
            )
    header = ["", "row", "slots a point", "padded", "rows", "padding", "definition"]
    return markdown_table(header, rows)


def tiles_of(points: int, power: int, length: int | None = None) -> Tiles:
    x = torch.rand(points, 2, generator=torch.Generator().manual_seed(0)) ** power
    weights = torch.full((points,), 1 / points)
    placed = Placement.build([PointSet(x, weights, BOX)], BOXES, tile=length)
    return placed.tiles.to(torch.float32, torch.device("cpu"))


def counts_of(points: int, power: int) -> torch.Tensor:
    x = torch.rand(points, 2, generator=torch.Generator().manual_seed(0)) ** power
    return BOXES.cut(PointSet(x, box=BOX)).counts


def step(resampler: LearnedResampler, tiles: Tiles) -> Callable[[], None]:
    v = torch.randn(1, *tiles.filled.shape, CHANNELS)

    def run() -> None:
        resampler.decode(resampler.encode(v, tiles, CELL), CELL, tiles).square().mean().backward()

    return run


if __name__ == "__main__":
    main()
