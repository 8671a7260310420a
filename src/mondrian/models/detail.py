"""A correction for the part of the input that the reference points of the cells cannot represent."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Detail(nn.Module):
    r"""A pointwise map, linear in the detail, with coefficients from the smooth input and output.

    $$\phi(d; s, y) = W \bigl( V d \odot \operatorname{gelu}(G [s; y] + b) \bigr)$$

    $d = u - s$ is the input minus its smooth part $s$, the input resampled to the reference points and back; $y$ is the
    smooth output. Without detail there is no correction: where the reference points are those of the grid, the map is
    zero. $W$ starts at zero, so detail that never occurs in training changes nothing.
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
        output: Float[Tensor, "batch out_channel *space"],
    ) -> Float[Tensor, "batch out_channel *space"]:
        inputs = torch.cat([smooth, output], dim=1)
        d, s = (u.flatten(2).mT for u in (detail, inputs))
        return self.out(self.detail(d) * F.gelu(self.gate(s))).mT.reshape(output.shape)
