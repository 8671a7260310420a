"""Attention maps: the attention weights between the subdomains of a model, block by block."""

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
from mondrian.layers import Attention, Block, BlockStack
from mondrian.quadrature import Cell


@dataclass(frozen=True)
class AttentionMap:
    r"""The attention map of one block.

    `weights[b, h, i, j]` is the weight that query subdomain $i$ gives to key subdomain $j$ in head $h$; over $j$ they
    sum to one. `start` is where the first subdomain begins along each axis, in subdomains: staggered blocks have moved
    subdomains, and one more of them along an axis that is not periodic.
    """

    block: str
    lattice: Lattice
    start: tuple[float, ...]
    weights: Float[Tensor, "batch head query cell"]

    @property
    def across(self) -> tuple[int, ...]:
        """Number of subdomains that fit into the domain along each axis."""
        return tuple(count - (start < 0) for count, start in zip(self.lattice.counts, self.start, strict=True))

    @property
    def boxes(self) -> Float[Tensor, "cell axis 2"]:
        """Both ends of each subdomain as fractions of the domain; those that wrap around reach beyond one."""
        low = self.lattice.positions().double() + torch.tensor(self.start, dtype=torch.float64)
        return torch.stack([low, low + 1], dim=-1) / torch.tensor(self.across, dtype=torch.float64)[:, None]

    def at(self, position: Sequence[float]) -> int:
        """The index of the subdomain that contains a position, given as fractions of the domain."""
        if len(position) != len(self.start) or not all(0 <= part <= 1 for part in position):
            raise ValueError(f"position={tuple(position)} must be from 0 to 1 along each of {len(self.start)} axes")
        number = 0
        axes = zip(position, self.across, self.start, self.lattice.counts, self.lattice.periodic, strict=True)
        for part, across, start, count, ring in axes:
            cell = math.floor(part * across - start)
            number = number * count + (cell % count if ring else min(cell, count - 1))
        return number


def attention_map(
    model: nn.Module,
    x: Shaped[Tensor, "batch channel *space"],
    grid: Grid | None = None,
    *,
    at: Sequence[float] | None = None,
) -> list[AttentionMap]:
    """The attention maps of `model`, or of a surrogate around it, for the input `x`: one per block, in order.

    With `at`, a position in fractions of the domain, only the subdomain there is a query; all weights together grow
    with the square of the number of subdomains. Models without attention between subdomains, such as most baselines,
    have no maps.

    >>> from mondrian import vit_no
    >>> model = vit_no(in_channels=1, out_channels=1, hidden_channels=8, n_layers=2, subdomains=(4,), stagger=True)
    >>> [(each.block, each.start, tuple(each.weights.shape)) for each in attention_map(model, torch.zeros(1, 1, 16))]
    [('blocks.0', (0.0,), (1, 4, 4, 4)), ('blocks.1', (-0.5,), (1, 4, 5, 5))]
    """
    stacks = {name: stack for name, stack in model.named_modules() if isinstance(stack, BlockStack)}
    known = {block for stack in stacks.values() for block in stack}
    if any(isinstance(module, Block) and module not in known for module in model.modules()):
        raise ValueError(f"model={type(model).__name__} has no lattice of subdomains; needed a model on grids")
    maps: list[AttentionMap] = []
    hooks: list[RemovableHandle] = []
    for name, stack in stacks.items():
        for index, block in enumerate(stack):
            assert isinstance(block, Block)
            for number, label in enumerate(label for label, layer in block.layers if isinstance(layer, Attention)):
                entry = f"{name}.{index}.{label}" if number else f"{name}.{index}"
                record = partial(_record, maps, entry, block.stagger, at)
                hooks.append(block.get_submodule(label).register_forward_pre_hook(record))
    try:
        with torch.no_grad():
            model(x, grid)
    finally:
        for hook in hooks:
            hook.remove()
    return maps


def _record(
    maps: list[AttentionMap],
    block: str,
    moved: bool,
    at: Sequence[float] | None,
    attention: FunctionAttention,
    arguments: tuple[Tensor, Cell, Lattice],
) -> None:
    u, cell, lattice = arguments
    start = [0.0] * len(cell.points)
    if moved:  # by whole points: half a subdomain or slightly less
        halves = [points // 2 / points for points in cell.points]
        start = [half if ring else half - 1 for half, ring in zip(halves, lattice.periodic, strict=True)]
    empty = AttentionMap(block, lattice, tuple(start), u.new_empty(0, 0, 0, 0))
    if at is None:
        weights = attention.weights(u, cell, lattice)
    else:
        row, place = divmod(empty.at(at), math.prod(lattice.counts[1:]))
        weights = attention.weights(u, cell, lattice, Rows(lattice, row, row + 1))[:, :, place : place + 1]
    maps.append(replace(empty, weights=weights))
