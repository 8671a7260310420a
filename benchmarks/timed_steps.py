"""Forward passes and training steps of a model, to be timed."""

from __future__ import annotations

from collections.abc import Callable

import torch


def forward_run(model: torch.nn.Module, batch: int, points: int) -> Callable[[], torch.Tensor]:
    """Forward on a batch, without gradients."""
    x = torch.randn(batch, 2, points, points)

    def run() -> torch.Tensor:
        with torch.no_grad():
            return model(x)

    return run


def training_step(model: torch.nn.Module, batch: int, points: int) -> Callable[[], None]:
    """Forward and backward on a batch."""
    x = torch.randn(batch, 2, points, points)

    def run() -> None:
        model.zero_grad(set_to_none=True)
        model(x).square().mean().backward()

    return run
