"""Small operations on tensors that geometry, operators and attention share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Shaped
from torch import Tensor


def product_points(axes: Sequence[Shaped[Tensor, " _"]]) -> Shaped[Tensor, "point axis"]:
    """All points whose coordinates are one entry of each axis, the last axis fastest.

    >>> product_points([torch.tensor([0, 1]), torch.tensor([5, 6])]).tolist()
    [[0, 5], [0, 6], [1, 5], [1, 6]]
    """
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(axes))
