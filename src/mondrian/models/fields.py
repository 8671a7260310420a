"""Models of fields on grids: their common settings, and checks of their input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mondrian.artefact import ModelSpec
from mondrian.grid import Grid
from mondrian.operators.kernel_cache import autocast_type
from mondrian.support.checks import positive

MOVED = ("_mp_param", "_fsdp_flattened")  # set by DDP and FSDP, which cast and move weights when they use them


@dataclass(frozen=True)
class FieldSpec(ModelSpec):
    """Describes a model that maps `(batch, in_channels, *space)` to `(batch, out_channels, *space)`.

    `hidden_channels` is the width of the model and `n_layers` its depth. `grid` is the default box of inputs; without
    it, a unit box that is not periodic.
    """

    in_channels: int
    out_channels: int
    hidden_channels: int = 64
    n_layers: int = 4
    grid: Grid | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = ("in_channels", "out_channels", "hidden_channels", "n_layers")
        positive(**{name: getattr(self, name) for name in sizes})
        if self.grid is not None and self.grid.dim != self.dim:
            raise ValueError(f"grid has {self.grid.dim} axes; the model has {self.dim}")

    @property
    def dim(self) -> int:
        """Number of axes of the domain: that of the grid, or two without a grid."""
        return 2 if self.grid is None else self.grid.dim

    @property
    def default_grid(self) -> Grid:
        """The box of inputs for which no grid is given."""
        return self.grid or Grid(extent=(1.0,) * self.dim)


def check_input(x: Tensor, channels: int, dim: int, grid: Grid | None) -> None:
    """Raise `ValueError` unless `x` is a batch of functions with these channels on the points of the grid."""
    if not x.is_floating_point():
        raise ValueError(f"x has dtype {x.dtype}; needed a floating-point tensor")
    if x.ndim != dim + 2 or x.shape[1] != channels:
        raise ValueError(f"x has shape {tuple(x.shape)}; needed (batch, {channels} channels, {dim} space axes)")
    if 0 in x.shape:
        raise ValueError(f"x has shape {tuple(x.shape)}; needed at least one sample and one point")
    if grid is not None and grid.points and grid.points != tuple(x.shape[2:]):
        raise ValueError(f"x has {tuple(x.shape[2:])} points; grid has {grid.points}")


def check_match(x: Tensor, model: nn.Module, *, name: str = "x") -> None:
    """Raise `ValueError` if input and model differ in device or precision; autocast accepts all but double."""
    weight = next(model.parameters(), None)
    if type(weight) not in (nn.Parameter, Tensor) or any(hasattr(weight, mark) for mark in MOVED):
        return  # nothing is known of, say, sharded weights before they are used
    assert weight is not None
    if weight.device.type == "meta":
        return
    if x.device != weight.device:
        raise ValueError(
            f"{name} is on {x.device}, the model on {weight.device}; needed both on one device: "
            f"{name}.to({str(weight.device)!r})"
        )
    kind = weight.dtype
    if x.dtype == kind or not weight.is_floating_point():
        return
    if autocast_type(x.device.type) is None or torch.float64 in (x.dtype, kind):
        raise ValueError(
            f"{name} has dtype {x.dtype}, the model {kind}; needed the same: {name}.to({kind}) or model.to({x.dtype})"
        )
