"""The pointwise network before the encoding resampler and after the decoding one."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class PointNetwork(nn.Module):
    r"""A pointwise network of the value and the position in the cell.

    $$S v(x) + W_2 \operatorname{gelu}(W_1 [v(x); x])$$
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int, dim: int) -> None:
        super().__init__()
        self.skip = nn.Linear(in_channels, out_channels)
        self.first = nn.Linear(in_channels + dim, hidden_channels)
        self.second = nn.Linear(hidden_channels, out_channels, bias=False)

    def forward(
        self, v: Float[Tensor, "batch tile slot channel_in"], x: Float[Tensor, "tile slot axis"]
    ) -> Float[Tensor, "batch tile slot channel_out"]:
        placed = torch.cat([v, x.expand(len(v), -1, -1, -1)], dim=-1)
        return self.skip(v) + self.second(F.gelu(self.first(placed)))
