"""Attention between subdomains as a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from mondrian.attention import AttentionSpec, FunctionAttention
from mondrian.lattice import Rows
from mondrian.layers.base import LayerContext, LayerSpec


@dataclass(frozen=True)
class Attention(LayerSpec):
    """`FunctionAttention` between the subdomains, with a `pattern` of its own or that of the model."""

    pattern: AttentionSpec | None = None

    on_slabs: ClassVar[bool] = True

    def build(self, context: LayerContext) -> nn.Module:
        pattern = self.pattern or context.attention
        return FunctionAttention(
            context.channels, pattern, context.operator, dim=context.dim, positions=context.positions
        )

    def seen_by(self, rows: Rows, context: LayerContext) -> Rows:
        return (self.pattern or context.attention).seen_by(rows)
