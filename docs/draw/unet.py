"""Draw docs/images/unet.png: the levels of a U-Net over subdomains, and a function on its way down and up.

python docs/draw/unet.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from mondrian import Decomposition, Grid, LargerSubdomains, Midpoint, SmoothTransfer, UNetSpec
from mondrian.models.unet import regrouped
from mondrian.quadrature import Cell

TARGET = Path(__file__).parent.parent / "images" / "unet.png"
INK, FINE, COARSE, SEEN = "0.35", "#1f5fa8", "#c8442c", "#f2b705"
SPEC = UNetSpec(in_channels=1, out_channels=1, hidden_channels=8, subdomains=(8, 8), levels=3)


def field(grid: Grid) -> torch.Tensor:
    """A smooth field with an interface."""
    x, y = grid.coordinates()
    return torch.tanh(6 * (torch.sin(5 * x + 2 * y) * torch.cos(4 * y - x) + 0.3 * y))


def down(u: torch.Tensor, fine: Decomposition) -> tuple[torch.Tensor, Decomposition]:
    """One level down by means."""
    coarse = LargerSubdomains().coarser(fine)
    shared = Decomposition(fine.grid, coarse.subdomains)
    given, wanted = (Cell.build(d.cell_points, Midpoint()) for d in (shared, coarse))
    layer = SmoothTransfer().build(1, 1, dim=fine.grid.dim)
    return layer(regrouped(u, fine, shared), given, wanted), coarse


def levels(axes: list[Axes]) -> None:
    """The same field on three lattices, and what one subdomain of each sees."""
    level = Decomposition(Grid((1.0, 1.0), points=(32, 32)), SPEC.subdomains)
    u = level.cut(field(level.grid)[None, None])
    for number, (ax, attention) in enumerate(zip(axes, SPEC.attentions, strict=True)):
        if number > 0:
            u, level = down(u, level)
        counts = level.subdomains
        ax.imshow(level.join(u)[0, 0].T, origin="lower", extent=(0, 1, 0, 1), cmap="RdBu_r", vmin=-1.6, vmax=1.6)
        for axis, draw in enumerate((ax.axvline, ax.axhline)):
            for cut in range(counts[axis] + 1):
                draw(cut / counts[axis], color="k", lw=0.8)
        size = [1 / n for n in counts]
        looking = (counts[0] // 2 - 1) * counts[1] + counts[1] // 2
        for cell, (i, j) in enumerate(level.lattice.positions().tolist()):
            if attention.sees(level.lattice)[looking, cell]:
                style = {"fc": SEEN, "alpha": 0.8} if cell == looking else {"fill": False, "ec": SEEN, "lw": 3}
                ax.add_patch(Rectangle((i * size[0], j * size[1]), *size, **style))
        kind = type(attention).__name__.removesuffix("Attention").lower()
        ax.set_title(f"level {number}: {counts[0]} x {counts[1]} subdomains, {kind}", fontsize=9)
        ax.set_axis_off()


def line(ax: Axes) -> None:
    """A function with a ripple: means of two points, and the polynomials with these means."""
    fine, coarse = (Cell.build((n,), Midpoint()) for n in (16, 8))
    x, z = (cell.coordinates[:, 0] for cell in (fine, coarse))
    v = (torch.sin(3 * x) + 0.15 * torch.cos(14 * torch.pi * x))[None, None, None]
    layer = SmoothTransfer().build(1, 1, dim=1)
    w = layer(v, fine, coarse)
    ax.plot(x, v[0, 0, 0], "o-", ms=5, lw=0.6, color=FINE, label="16 points of a subdomain")
    ax.step(torch.linspace(-1, 1, 9), torch.cat([w[0, 0, 0], w[0, 0, 0, -1:]]), where="post", color=COARSE, lw=1)
    ax.plot(z, w[0, 0, 0], "x", ms=7, color=COARSE, label="down: 8 means")
    ax.plot(
        x, layer(w, coarse, fine)[0, 0, 0], "s", ms=5, mfc="none", color=INK, label="up: polynomials with these means"
    )
    ax.set_title("SmoothTransfer", fontsize=10, loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    ax.legend(fontsize=8, frameon=False, loc="lower right")


def main() -> None:
    figure = plt.figure(figsize=(9, 5.6), layout="constrained")
    rows = figure.add_gridspec(2, 3, height_ratios=(3, 2.2))
    levels([figure.add_subplot(rows[0, column]) for column in range(3)])
    line(figure.add_subplot(rows[1, :]))
    figure.savefig(TARGET, dpi=110)
    print(TARGET.name)


if __name__ == "__main__":
    main()
