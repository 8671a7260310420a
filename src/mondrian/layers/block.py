"""Layers in a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.decomposition import Decomposition, Lattice
from mondrian.lattice import Slab, Subdomains
from mondrian.layers.base import LayerContext, LayerSpec
from mondrian.layers.norm import NORMS
from mondrian.operators.base import is_recorded
from mondrian.quadrature import Cell


@runtime_checkable
class HasLattice(Protocol):
    """Cells whose arrangement is known: enough for layers that work on cells alone."""

    @property
    def lattice(self) -> Lattice | Slab: ...


class Block(nn.Module):
    r"""A sequence of layers, $v \leftarrow v + s \odot f(Nv)$ each.

    With `stagger` the layers on cells work on the decomposition moved by half a subdomain. For a layer with the label
    `attention` the branch, its norm and its scale are the attributes `attention`, `attention_norm` and
    `attention_scale`; a second one has the label `attention_1`.

    Maps `(batch, cell, channel, point)` to the same shape.
    """

    def __init__(self, layers: Iterable[LayerSpec], context: LayerContext, *, stagger: bool = False) -> None:
        super().__init__()
        self.stagger = stagger
        self.layers = tuple(_labelled(layers))
        for label, layer in self.layers:
            self.add_module(f"{label}_norm", NORMS[layer.norm or context.norm](context.channels))
            self.add_module(label, layer.build(context))
            self.register_parameter(f"{label}_scale", _scale(context.branch_scale, context.channels))

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, domain: Subdomains | HasLattice
    ) -> Float[Tensor, "batch cell channel point"]:
        for whole_domain, run in groupby(self.layers, key=lambda pair: pair[1].whole_domain):
            if whole_domain:
                v = self._on_field(v, list(run), cast(Decomposition, domain))
            elif self.stagger:
                moved = cast(Subdomains, domain).staggered()
                v = moved.back(self._on_cells(moved.move(v), cell, list(run), moved.lattice))
            else:
                v = self._on_cells(v, cell, list(run), domain.lattice)
        return v

    def _on_cells(
        self,
        v: Float[Tensor, "batch cell channel point"],
        cell: Cell,
        run: list[tuple[str, LayerSpec]],
        lattice: Lattice | Slab,
    ) -> Float[Tensor, "batch cell channel point"]:
        for label, layer in run:
            u = getattr(self, f"{label}_norm")(v, cell)
            branch = layer.apply_to_cells(getattr(self, label), u, cell, lattice)
            v = _added(v, branch, getattr(self, f"{label}_scale"))
        return v

    def _on_field(
        self, v: Float[Tensor, "batch cell channel point"], run: list[tuple[str, LayerSpec]], domain: Decomposition
    ) -> Float[Tensor, "batch cell channel point"]:
        w = domain.join(v)
        for label, layer in run:
            u = getattr(self, f"{label}_norm").on_field(w)
            branch = layer.apply_to_field(getattr(self, label), u, domain)
            scale = getattr(self, f"{label}_scale")
            w = _added(w, branch, scale if scale is None else scale.view(-1, *(1,) * (w.ndim - 2)))
        return domain.cut(w)


def _labelled(layers: Iterable[LayerSpec]) -> Iterable[tuple[str, LayerSpec]]:
    """Each layer with a label that no other has."""
    used: Counter[str] = Counter()
    for layer in layers:
        number = used[layer.label]
        used[layer.label] += 1
        yield (f"{layer.label}_{number}" if number else layer.label), layer


def _scale(start: float | None, channels: int) -> nn.Parameter | None:
    return None if start is None else nn.Parameter(torch.full((channels, 1), start))


def _added(v: Tensor, branch: Tensor, scale: Tensor | None) -> Tensor:
    """The sum; without gradients it reuses the memory of the branch."""
    if scale is not None:
        return torch.addcmul(v, branch, scale)
    return v + branch if is_recorded() or branch.dtype != v.dtype else branch.add_(v)


class BlockStack(nn.ModuleList):
    """A sequence of blocks."""

    def forward(
        self, v: Float[Tensor, "batch cell channel point"], cell: Cell, domain: Subdomains
    ) -> Float[Tensor, "batch cell channel point"]:
        for block in self:
            v = block(v, cell, domain)
        return v
