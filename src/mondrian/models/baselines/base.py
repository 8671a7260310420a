"""Common parts of the baselines: sizes, the box, and coordinates on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.grid import Grid
from mondrian.models.fields import FieldSpec, check_input, check_match
from mondrian.support.checks import positive


class BaselineSettings(TypedDict, total=False):
    """The fields of `BaselineSpec` that every factory accepts."""

    hidden_channels: int
    n_layers: int
    grid: Grid | None


@dataclass(frozen=True)
class BaselineSpec(FieldSpec):
    """Describes a baseline."""

    def box(self, x: Tensor, grid: Grid | None, model: nn.Module) -> Grid:
        """The grid of `x`; raises `ValueError` if `x` is not a valid input of this model."""
        check_input(x, self.in_channels, self.dim, grid)
        check_match(x, model)
        box = grid or self.default_grid
        if box.dim != self.dim:
            raise ValueError(f"grid has {box.dim} axes; the model has {self.dim}")
        if not box.is_cell_centred:
            raise ValueError(f"grid has ends={box.ends}; baselines take cell-centred points, see mondrian.resampling")
        return box.with_points(tuple(x.shape[2:]))


def check_heads(hidden_channels: int, n_heads: int) -> None:
    """Raise `ValueError` if the heads do not divide the channels."""
    positive(n_heads=n_heads)
    if hidden_channels % n_heads:
        raise ValueError(f"n_heads={n_heads} does not divide hidden_channels={hidden_channels}")


def fractions(points: int, *, device: torch.device) -> Float[Tensor, " point"]:
    """The cell-centred points of an axis as fractions of its length, in float64."""
    return (torch.arange(points, dtype=torch.float64, device=device) + 0.5) / points


def unit_coordinates(x: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch axis *space"]:
    """The coordinates of the points of `x`, from 0 to 1 along each axis, repeated for every sample.

    >>> unit_coordinates(torch.zeros(1, 3, 2))
    tensor([[[0.2500, 0.7500]]])
    """
    axes = [fractions(n, device=x.device) for n in x.shape[2:]]
    coordinates = torch.stack(torch.meshgrid(*axes, indexing="ij")).to(x.dtype)
    return coordinates.expand(x.shape[0], *coordinates.shape)


def mlp(in_channels: int, hidden_channels: int, out_channels: int) -> nn.Sequential:
    """Two linear layers with a GELU in between, along the last axis."""
    return nn.Sequential(nn.Linear(in_channels, hidden_channels), nn.GELU(), nn.Linear(hidden_channels, out_channels))
