"""Who looks at whom: the attention of a model between its subdomains, block by block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from mondrian.attention import FunctionAttention
from mondrian.decomposition import Lattice
from mondrian.grid import Grid
from mondrian.lattice import Rows
from mondrian.models.block import Block, BlockStack
from mondrian.quadrature import Cell


@dataclass(frozen=True)
class Shares:
    r"""The attention of one block.

    `weights[b, h, i, j]` is the part of what subdomain $i$ takes up in head $h$ that comes from subdomain $j$; over
    $j$ they sum to one. `start` is where the first subdomain begins along each axis, counted in subdomains: those of a
    staggered block are moved, and on an axis that is no ring there is one more of them.
    """

    block: str
    lattice: Lattice
    start: tuple[float, ...]
    weights: Float[Tensor, "batch head query cell"]

    @property
    def across(self) -> tuple[int, ...]:
        """How many subdomains go into the domain along each axis."""
        return tuple(count - (start < 0) for count, start in zip(self.lattice.counts, self.start, strict=True))

    @property
    def boxes(self) -> Float[Tensor, "cell axis 2"]:
        """Both ends of each subdomain, in parts of the domain; those that a ring cuts apart reach beyond one."""
        low = self.lattice.positions().double() + torch.tensor(self.start, dtype=torch.float64)
        return torch.stack([low, low + 1], dim=-1) / torch.tensor(self.across, dtype=torch.float64)[:, None]

    def at(self, place: Sequence[float]) -> int:
        """The number of the subdomain that holds a place, which is given in parts of the domain."""
        if len(place) != len(self.start) or not all(0 <= part <= 1 for part in place):
            raise ValueError(f"place={tuple(place)} must be from 0 to 1 along each of {len(self.start)} axes")
        number = 0
        axes = zip(place, self.across, self.start, self.lattice.counts, self.lattice.periodic, strict=True)
        for part, across, start, count, ring in axes:
            cell = math.floor(part * across - start)
            number = number * count + (cell % count if ring else min(cell, count - 1))
        return number


def attention_shares(
    model: nn.Module,
    x: Shaped[Tensor, "batch channel *space"],
    grid: Grid | None = None,
    *,
    at: Sequence[float] | None = None,
) -> list[Shares]:
    """Who looks at whom when `model`, or a surrogate around it, answers to `x`: one entry a block, in their order.

    With `at`, a place in parts of the domain, of the subdomain there alone, as the only one that looks: the weights of
    all of them grow with the square of their number. Models of fields without attention between subdomains, such as
    the baselines, have no entries.

    >>> from mondrian import vit_no
    >>> model = vit_no(in_channels=1, out_channels=1, hidden_channels=8, n_layers=2, subdomains=(4,), stagger=True)
    >>> [(each.block, each.start, tuple(each.weights.shape)) for each in attention_shares(model, torch.zeros(1, 1, 16))]
    [('blocks.0', (0.0,), (1, 4, 4, 4)), ('blocks.1', (-0.5,), (1, 4, 5, 5))]
    """
    stacks = {name: stack for name, stack in model.named_modules() if isinstance(stack, BlockStack)}
    known = {block for stack in stacks.values() for block in stack}
    if any(isinstance(module, Block) and module not in known for module in model.modules()):
        raise ValueError(f"{type(model).__name__} attends between parts of other shapes; needed a model on grids")
    found: list[Shares] = []
    hooks: list[RemovableHandle] = []
    for name, stack in stacks.items():
        for place, block in enumerate(stack):
            assert isinstance(block, Block)
            moved = stack.stagger and (stack.first + place) % 2 == 1
            record = partial(_record, found, f"{name}.{place}", moved, at)
            hooks.append(block.attention.register_forward_pre_hook(record))
    try:
        with torch.no_grad():
            model(x, grid)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _record(
    found: list[Shares],
    block: str,
    moved: bool,
    at: Sequence[float] | None,
    attention: FunctionAttention,
    arguments: tuple[Tensor, Cell, Lattice],
) -> None:
    u, cell, lattice = arguments
    start = [0.0] * len(cell.points)
    if moved:  # by whole points: half a subdomain, or a little less
        halves = [points // 2 / points for points in cell.points]
        start = [half if ring else half - 1 for half, ring in zip(halves, lattice.periodic, strict=True)]
    shares = Shares(block, lattice, tuple(start), u.new_empty(0, 0, 0, 0))
    if at is None:
        weights = attention.shares(u, cell, lattice)
    else:
        row, place = divmod(shares.at(at), math.prod(lattice.counts[1:]))
        weights = attention.shares(u, cell, lattice, Rows(lattice, row, row + 1))[:, :, place : place + 1]
    found.append(replace(shares, weights=weights))
