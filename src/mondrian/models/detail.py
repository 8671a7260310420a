"""What the reference points of the cells cannot hold, carried round the blocks."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Detail(nn.Module):
    r"""A pointwise map that is linear in the detail, with coefficients from what the blocks know at the point.

    $$\phi(d; s, y) = W \bigl( V d \odot \operatorname{gelu}(G [s; y] + b) \bigr)$$

    $d = u - s$ is the input less its smooth part $s$, its image through the reference points; $y$ is the smooth answer.
    No detail, no correction: where the reference points are the grid's own the model is the one without this map. $W$
    begins as zero, so that a detail never seen in training changes nothing.
    """

    def __init__(self, in_channels: int, hidden_channels: int, out_channels: int) -> None:
        super().__init__()
        self.detail = nn.Linear(in_channels, hidden_channels, bias=False)
        self.gate = nn.Linear(in_channels + out_channels, hidden_channels)
        self.out = nn.Linear(hidden_channels, out_channels, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(
        self,
        detail: Float[Tensor, "batch in_channel *space"],
        smooth: Float[Tensor, "batch in_channel *space"],
        answer: Float[Tensor, "batch out_channel *space"],
    ) -> Float[Tensor, "batch out_channel *space"]:
        known = torch.cat([smooth, answer], dim=1)
        d, s = (u.flatten(2).mT for u in (detail, known))
        return self.out(self.detail(d) * F.gelu(self.gate(s))).mT.reshape(answer.shape)
