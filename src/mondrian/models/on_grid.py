"""Any model with its output on another grid than that of its input."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor

from mondrian.artefact import OperatorModel
from mondrian.grid import Grid
from mondrian.models.transformer import TransformerOperator
from mondrian.resampling import resample


def apply_on(
    model: OperatorModel,
    x: Shaped[Tensor, "batch channel *space"],
    grid: Grid | None = None,
    out_grid: Grid | None = None,
) -> Float[Tensor, "batch out_channel *points"]:
    """Apply the model once and return the output at the points of `out_grid`, by default those of the input.

    A transformer operator evaluates there itself; the output of any other model is resampled.
    """
    if out_grid is None:
        return model(x, grid)
    if isinstance(model, TransformerOperator):
        return model(x, grid, out_grid)
    spec: Any = model.spec
    box: Grid = grid or spec.default_grid
    return resample(model(x, grid), box.with_points(tuple(x.shape[2:])), out_grid)
