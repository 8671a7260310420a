"""Resolutions: the cost of resampling, and a fixed number of points per cell against all points of the grid.

python -m benchmarks.resolution         everything (about fifteen minutes), stored in benchmarks/results/resolution.md
python -m benchmarks.resolution cost    one section: resampling, cost, error

On a busy machine set OMP_NUM_THREADS=1: a single thread is measured in processor time, which neighbours hardly change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks.sections import keep_large_allocations, run_sections
from mondrian import Grid, RelativeBias, SeparableMixture, vit_no
from mondrian.benchmark.measure import interleaved
from mondrian.data.problems import AllenCahn
from mondrian.data.restriction import block_average
from mondrian.models import TransformerOperator
from mondrian.resampling import resample
from mondrian.support.text import markdown_table

RESULTS = Path(__file__).parent / "results" / "resolution.md"
BOX = Grid(extent=(2.0, 2.0))
RESOLUTIONS = (32, 64, 85, 128, 256)


def model(cell_points: tuple[int, ...] = (), *, hidden_channels: int = 32) -> TransformerOperator:
    """A staggered ViT over 8 x 8 subdomains, the same weights whatever the points."""
    torch.manual_seed(0)
    return vit_no(
        in_channels=2,
        out_channels=1,
        hidden_channels=hidden_channels,
        n_layers=4,
        subdomains=(8, 8),
        operator=SeparableMixture(terms=64, skip=True),
        positions=(RelativeBias(),),
        grid=BOX,
        stagger=True,
        cell_points=cell_points,
    )


def forward(net: torch.nn.Module, points: int) -> Callable[[], Tensor]:
    x = torch.randn(4, 2, points, points)

    def run() -> Tensor:
        with torch.no_grad():
            return net(x)

    return run


def resampling() -> str:
    """Resampling to the reference points and back as a fraction of a forward pass; stretches against whole matrices."""
    rows = []
    for points in (33, 85, 421):
        net = model().eval()
        outer = BOX.with_points((points, points))
        decomposition = net.spec.decompose(outer)
        inner = decomposition.grid
        x, y = torch.randn(4, 2, points, points), torch.randn(4, 1, *inner.points)
        cases: dict[str, Callable[[], Any]] = {
            "model": forward(net, points),
            "direct": forward(net, inner.points[0]),
            "both ways": lambda x=x, y=y, outer=outer, inner=inner: (
                resample(x, outer, inner),
                resample(y, inner, outer),
            ),
        }
        time = interleaved(cases, rounds=5, seconds=30)
        share = time["both ways"] / time["model"]
        rows.append(
            [
                f"{points}^2",
                f"{inner.points[0]}^2",
                *(f"{time[name] * 1e3:.1f} ms" for name in cases),
                f"{share:.1%}",
                f"{time['model'] / time['direct']:.2f}x",
            ]
        )
    text = "Batch 4, 32 channels, 8 x 8 subdomains. `direct`: given the reference points, nothing is resampled.\n\n"
    text += markdown_table(
        ["grid", "reference points", "model", "direct", "both ways", "share", "model / direct"], rows
    )
    rows = []
    for points in (256, 1024, 16384):
        here, there = (Grid(extent=(1.0,), points=(n,)) for n in (points, points * 5 // 4))
        v = torch.randn(max(2**18 // points, 1), 1, points)
        time = interleaved(
            {
                "whole": lambda v=v, here=here, there=there: resample(v, here, there, plain=True),
                "chosen": lambda v=v, here=here, there=there: resample(v, here, there),
            },
            rounds=5,
            seconds=20,
        )
        both = [f"{time[name] * 1e3:.2f} ms" for name in ("whole", "chosen")]
        rows.append([f"{points} to {there.points[0]}", str(len(v)), *both, f"{time['whole'] / time['chosen']:.1f}x"])
    return text + "\n\nOne axis:\n\n" + markdown_table(["points", "rows", "one matrix", "as chosen", "ratio"], rows)


def cost() -> str:
    """A forward pass at all points of the grid, and at 4 x 4 reference points a cell."""
    direct, fixed = model().eval(), model((4, 4)).eval()
    rows = []
    for points in RESOLUTIONS:
        time = interleaved({"direct": forward(direct, points), "fixed": forward(fixed, points)}, rounds=5, seconds=40)
        sizes = [net.spec.decompose(BOX.with_points((points, points))).cell_points[0] for net in (direct, fixed)]
        heads = [str(n * n * direct.spec.hidden_channels // direct.spec.attention.n_heads) for n in sizes]
        times = [f"{time[name] * 1e3:.0f} ms" for name in ("direct", "fixed")]
        rows.append([f"{points}^2", *times, f"{time['direct'] / time['fixed']:.2f}x", *heads])
    header = ["grid", "direct", "4 x 4 a cell", "ratio", "head size, direct", "head size, 4 x 4"]
    return "Forward, batch 4, 32 channels, 8 x 8 subdomains, staggered:\n\n" + markdown_table(header, rows)


def simulate(seeds: range, fine: int) -> tuple[Tensor, Tensor]:
    """Inputs (u at 0, the logarithm of gamma, scaled) and u at 6, on `fine` x `fine` points."""
    problem = AllenCahn(grid=BOX.with_points((fine, fine)))
    parts = [
        problem.solve(range(start, min(start + 16, seeds.stop)), problem.grid)
        for start in tqdm(range(seeds.start, seeds.stop, 16), desc=f"simulate {fine}^2", disable=None)
    ]
    u = torch.cat([fields["u"] for fields, _ in parts])
    gamma = torch.cat([torch.from_numpy(scalars["gamma"]) for _, scalars in parts])
    constant = ((gamma.log10() + 3) / 0.5)[:, None, None].expand_as(u[:, 0])
    return torch.stack([u[:, 0], constant], dim=1), u[:, 1:]


def train(net: TransformerOperator, x: Tensor, y: Tensor, *, steps: int, label: str) -> TransformerOperator:
    """AdamW and one cycle, batches of 8, mirrored and turned at random."""
    optimiser = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    generator = torch.Generator().manual_seed(0)
    for _ in tqdm(range(steps), desc=label, disable=None):
        index = torch.randint(len(x), (8,), generator=generator)
        turns, mirror = torch.randint(4, (2,), generator=generator).tolist()
        a, b = (torch.rot90(u[index], turns, (2, 3)) for u in (x, y))
        if mirror % 2:
            a, b = a.flip(2), b.flip(2)
        optimiser.zero_grad()
        (net(a) - b).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimiser.step()
        schedule.step()
    return net.eval()


def error(simulations: int = 384, tests: int = 24, steps: int = 200) -> str:
    """Three models trained at 64 x 64 on the same batches; mean absolute errors against resolution."""
    x, y = simulate(range(simulations), 128)
    x, y = block_average(x, (64, 64)), block_average(y, (64, 64))
    finest, truth = simulate(range(10**6, 10**6 + tests), 256)
    grid = BOX.with_points((256, 256))
    bare, narrow = model((4, 4), hidden_channels=16), {"hidden_channels": 16}
    bare.detail = None
    nets = {
        "direct": train(model(**narrow), x, y, steps=steps, label="direct"),
        "4 x 4 a cell": train(model((4, 4), **narrow), x, y, steps=steps, label="fixed"),
        "without detail": train(bare, x, y, steps=steps, label="without detail"),
    }
    rows = []
    for points in RESOLUTIONS:
        a, b = (resample(u, grid, BOX.with_points((points, points))) for u in (finest, truth))
        rows.append([f"{points}^2", *(f"{mean_error(net, a, b):.4f}" for net in nets.values())])
    text = (
        f"Allen-Cahn, 16 channels, {simulations} simulations, {steps} steps of 8 at 64^2, mean absolute error on "
        f"{tests} new ones (solved at 256^2, means over coarser cells):\n\n"
    )
    return text + markdown_table(["grid", *nets], rows)


def mean_error(net: TransformerOperator, x: Tensor, y: Tensor) -> float:
    """Mean absolute error, in batches of 8."""
    with torch.no_grad():
        parts = [(net(a) - b).abs().mean(dim=(1, 2, 3)) for a, b in zip(x.split(8), y.split(8), strict=True)]
    return torch.cat(parts).mean().item()


SECTIONS = {"resampling": resampling, "cost": cost, "error": error}


HEADING = """# Resolutions

`python -m benchmarks.resolution`, on cores shared with others: of times in one row only the ratio means much."""

if __name__ == "__main__":
    keep_large_allocations()
    run_sections(SECTIONS, sys.argv[1:], RESULTS, HEADING)
