r"""The pointwise networks around an operator on the whole domain: $f(u) = F_2 \operatorname{gelu}(F_0 u + F_1 A u)$."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.decomposition import Decomposition


class PointwiseUpdate(nn.Module):
    r"""$f(u)(x) = F_2 \operatorname{gelu}\bigl(F_0 u(x) + F_1 (A u)(x) + b\bigr) + b_2$ with an operator $A$ on fields.

    Maps `(batch, channel, *space)` to the same shape. `expansion` is the hidden width in channels of the model.
    """

    def __init__(self, operator: nn.Module, channels: int, *, expansion: int) -> None:
        super().__init__()
        hidden = expansion * channels
        self.operator = operator
        self.here = nn.Linear(channels, hidden)
        self.there = nn.Linear(channels, hidden, bias=False)
        self.out = nn.Linear(hidden, channels)

    def forward(
        self, u: Float[Tensor, "batch channel *space"], domain: Decomposition
    ) -> Float[Tensor, "batch channel *space"]:
        moved: Tensor = self.operator(u, domain)
        hidden = pointwise(self.here, u) + pointwise(self.there, moved)
        return pointwise(self.out, F.gelu(hidden))


def pointwise(
    linear: nn.Linear, u: Float[Tensor, "batch channel_in *space"]
) -> Float[Tensor, "batch channel_out *space"]:
    """A linear layer over the channels at each point."""
    product = linear.weight @ u.flatten(2)
    if linear.bias is not None:
        product = product + linear.bias[:, None]
    return product.unflatten(2, u.shape[2:])
