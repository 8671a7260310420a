"""Draw docs/images/cross_attention.png: points that lie anywhere in a cell, on their way to its reference points.

python docs/draw/cross_attention.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from mondrian import Grid, Midpoint
from mondrian.points import Boxes, Placement, PointSet
from mondrian.quadrature import Cell
from mondrian.resampling import CrossAttention
from mondrian.resampling.cross_attention import CrossAttentionResampler

TARGET = Path(__file__).parent.parent / "images" / "cross_attention.png"
WANTED = 5  # of the 4 x 4 reference points


def function(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(2.5 * x[..., 0] + 0.5) * torch.cos(2 * x[..., 1])


def shares(
    resampler: CrossAttentionResampler, v: torch.Tensor, y: torch.Tensor, weights: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    """How much each given point counts for each wanted one, `(head, wanted, given)`; they sum to one."""
    score = torch.einsum("xhf,yhf->hxy", resampler.queries(x), resampler.keys(v, y)) + resampler.nearness(x, y)
    return torch.softmax(score + weights.log(), dim=-1)


def prepare(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.set_aspect("equal")
    ax.set_xlim(-1.05, 1.05)
    ax.set_ylim(-1.05, 1.05)
    ax.set_xticks([-1, 0, 1])
    ax.set_yticks([-1, 0, 1])
    ax.tick_params(labelsize=8)


def main() -> None:
    torch.manual_seed(0)
    points = PointSet.estimated(2 * torch.rand(120, 2) - 1, Grid((2.0, 2.0), origin=(-1.0, -1.0)))
    tiles = Placement.build([points], Boxes((1, 1))).to(torch.float32, torch.device("cpu")).tiles
    y, weights = tiles.coordinates[tiles.filled], tiles.weights[tiles.filled]
    cell = Cell.build((4, 4), Midpoint())
    resampler = CrossAttention(n_heads=2).build(2, 2)
    assert isinstance(resampler, CrossAttentionResampler)
    with torch.no_grad():
        resampler.value.weight.copy_(torch.eye(2))  # each head carries one channel through, as it is
        resampler.out.weight.copy_(torch.eye(2))
        resampler.out.bias.zero_()
        values = function(tiles.coordinates)[None, ..., None].expand(-1, -1, -1, 2)
        encoded = resampler.encode(values, tiles, cell)[0, 0]
        share = shares(resampler, function(y)[:, None].expand(-1, 2), y, weights, cell.coordinates)[:, WANTED]
    reach = resampler.log_reach.exp().tolist()

    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained")
    for head, ax in enumerate(axes[:2]):
        ax.scatter(*y.T, s=8, color="0.75", label="given points")
        ax.scatter(*y.T, s=2500 * share[head], color="#1f5fa8", alpha=0.6, label="their share (area)")
        ax.plot(*cell.coordinates.T, "s", ms=4, mfc="none", color="0.4", label="reference points")
        ax.plot(*cell.coordinates[WANTED], "x", ms=11, mew=2.5, color="#c8442c", label="the one that is asked for")
        prepare(ax, f"head {head + 1}, reach {reach[head]:.2f} half sides: what counts")
    axes[0].legend(fontsize=7, loc="upper right")
    ax = axes[2]
    colours = {"cmap": "RdBu_r", "vmin": -1, "vmax": 1, "edgecolors": "0.4", "linewidths": 0.5}
    ax.scatter(*y.T, s=16, c=function(y), **colours)
    shown = ax.scatter(*cell.coordinates.T, s=260, marker="s", c=encoded[0], **colours)
    figure.colorbar(shown, ax=ax, shrink=0.8)
    prepare(ax, "head 1: from 120 points (dots) to 4 x 4 (squares)")
    figure.savefig(TARGET, dpi=100)
    print(TARGET.name)


if __name__ == "__main__":
    main()
