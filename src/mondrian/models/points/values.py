"""Input values of a model on points: checked and concatenated."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.points.placement import Placement


def packed(values: Tensor | Sequence[Tensor], given: Placement, channels: int) -> Float[Tensor, "batch channel point"]:
    """The values at the points of all domains, concatenated."""
    if isinstance(values, Tensor):
        needed = (channels, given.points[0].size)
        if len(given.points) != 1:
            raise ValueError(f"values is one tensor for {len(given.points)} point sets; needed a list of as many")
        if values.ndim != 3 or tuple(values.shape[1:]) != needed or len(values) == 0 or not values.is_floating_point():
            raise ValueError(
                f"values has shape {tuple(values.shape)} and dtype {values.dtype}; needed "
                f"(batch, {needed[0]} channels, {needed[1]} points), floating-point"
            )
        return values
    if len(values) != len(given.points):
        raise ValueError(f"values holds {len(values)} functions; needed {len(given.points)}, one for each point set")
    for number, (function, points) in enumerate(zip(values, given.points, strict=True)):
        if tuple(function.shape) != (channels, points.size) or not function.is_floating_point():
            raise ValueError(
                f"values[{number}] has shape {tuple(function.shape)} and dtype {function.dtype}; needed "
                f"({channels} channels, {points.size} points), floating-point"
            )
    return torch.cat(list(values), dim=1)[None]
