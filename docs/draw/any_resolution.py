"""Draw docs/images/any_resolution.png: a function on its way to the reference points of four subdomains and back.

python docs/draw/any_resolution.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from mondrian import Grid
from mondrian.resampling import resample

CELLS, TARGET = 4, Path(__file__).parent.parent / "images" / "any_resolution.png"
INK, POINT, REFERENCE, DETAIL = "0.35", "#1f5fa8", "#c8442c", "#3d8a4e"


def function(x: torch.Tensor) -> torch.Tensor:
    """Waves that become shorter from left to right."""
    return torch.sin(9 * x**2) + 0.6 * x


def fine_waves(x: torch.Tensor) -> torch.Tensor:
    """The same with a ripple that four points a cell cannot hold."""
    return function(x) + 0.25 * torch.sin(75 * x)


def prepare(ax: Axes, title: str) -> None:
    """The cuts, and no more ink than needed."""
    for cut in range(CELLS + 1):
        ax.axvline(cut / CELLS, color="0.8", lw=1, zorder=0)
    ax.set_title(title, fontsize=10, loc="left")
    ax.set_xlim(-0.01, 1.01)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)


def on(grid: Grid) -> tuple[torch.Tensor, torch.Tensor]:
    x = grid.axis(0)
    return x, function(x)


def there(ax: Axes) -> None:
    """Points that the cuts do not divide, interpolated to the reference points."""
    grid = Grid((1.0,), points=(21,))
    inner = grid.with_points((CELLS * 6,))
    x, u = on(grid)
    dense = torch.linspace(0, 1, 400)
    ax.plot(dense, function(dense), color=INK, lw=0.8)
    ax.plot(x, u, "o", ms=5, color=POINT, label="21 points of the grid")
    ax.plot(inner.axis(0), resample(u[None, None], grid, inner)[0, 0], "x", ms=6, color=REFERENCE, label="6 a cell")
    prepare(ax, "In: interpolated to reference points, none further apart than the grid's")


def back(ax: Axes) -> None:
    """What the cells answer, which may jump a little from one to the next, at points that were asked for."""
    inner = Grid((1.0,), points=(CELLS * 6,))
    x, u = on(inner)
    answer = u + 0.1 * torch.tensor([0.0, 1.0, -0.6, 0.4]).repeat_interleave(6)
    dense = Grid((1.0,), points=(401,), ends=(2,))
    ax.plot(dense.axis(0), resample(answer[None, None], inner, dense)[0, 0], color=INK, lw=0.8)
    vertices = Grid((1.0,), points=(21,), ends=(2,))
    ax.plot(x, answer, "x", ms=6, color=REFERENCE, label="6 a cell")
    values = resample(answer[None, None], inner, vertices)[0, 0]
    ax.plot(vertices.axis(0), values, "o", ms=5, mfc="none", color=POINT, label="21 vertices, asked for")
    prepare(ax, "Out: interpolated to the points of the grid, or to others")


def fixed(ax: Axes) -> None:
    """Four points a cell whatever the grid: means, their image, and what is left."""
    grid = Grid((1.0,), points=(128,))
    inner = grid.with_points((CELLS * 4,))
    u = fine_waves(grid.axis(0))[None, None]
    smooth = resample(u, grid, inner)
    image = resample(smooth, inner, grid)
    ax.plot(grid.axis(0), u[0, 0], color=POINT, lw=1, label="128 points")
    ax.plot(grid.axis(0), image[0, 0], color=INK, lw=0.8)
    ax.plot(inner.axis(0), smooth[0, 0], "x", ms=6, color=REFERENCE, label="means, 4 a cell: to the blocks")
    ax.plot(grid.axis(0), (u - image)[0, 0] - 1.6, color=DETAIL, lw=1, label="detail (lowered): round the blocks")
    ax.set_ylim(bottom=-2.7)
    prepare(ax, "cell_points=(4,)")


def main() -> None:
    figure, axes = plt.subplots(3, 1, figsize=(8, 8.4), layout="constrained")
    for draw, ax in zip((there, back, fixed), axes, strict=True):
        draw(ax)
        ax.legend(fontsize=8, frameon=False, ncols=3, loc="lower left")
    figure.savefig(TARGET, dpi=110)
    print(TARGET.name)


if __name__ == "__main__":
    main()
