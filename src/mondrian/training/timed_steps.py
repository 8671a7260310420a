"""One step of a model, to be timed: a prediction, or forward, backward and optimiser."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.grid import Grid


def prediction(model: nn.Module, x: Float[Tensor, "batch channel *space"], grid: Grid) -> Callable[[], None]:
    """Forward, without gradients."""

    def run() -> None:
        with torch.no_grad():
            model(x, grid=grid)
        finish(x.device)

    return run


def training_step(
    model: nn.Module,
    x: Float[Tensor, "batch channel *space"],
    y: Float[Tensor, "batch out_channel *space"],
    grid: Grid,
) -> Callable[[], None]:
    """Forward, backward and a step of the optimiser."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def run() -> None:
        optimiser.zero_grad()
        nn.functional.mse_loss(model(x, grid=grid), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        finish(x.device)

    return run


def finish(device: torch.device) -> None:
    """Wait until a GPU has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
