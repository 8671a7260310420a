"""Layers: specs that build the branches $f$ of $v + f(Nv)$, and blocks, which are sequences of them."""

from mondrian.layers.attention import Attention
from mondrian.layers.base import LayerContext, LayerSpec
from mondrian.layers.block import Block, BlockStack
from mondrian.layers.coarse import Coarse
from mondrian.layers.feed_forward import FeedForward
from mondrian.layers.transport import Transport

__all__ = ["Attention", "Block", "BlockStack", "Coarse", "FeedForward", "LayerContext", "LayerSpec", "Transport"]
