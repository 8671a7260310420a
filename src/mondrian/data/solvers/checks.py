"""What all solvers ask of their arguments."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid


def check_fields(name: str, u: Float[Tensor, "batch ..."], grid: Grid) -> None:
    """Fields on the points of `grid`, in a type that solvers work in."""
    if tuple(u.shape[1:]) != grid.points:
        raise ValueError(f"{name} has points {tuple(u.shape[1:])}; grid.points={grid.points} needs the same")
    if u.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} is {u.dtype}; needed torch.float32 or torch.float64")


def check_steps(dt: float, steps: int, frames: int) -> None:
    """Steps of a length, as many from each frame to the next."""
    if not (math.isfinite(dt) and dt > 0):
        raise ValueError(f"dt={dt} must be positive and finite")
    if frames < 1 or steps < 1 or steps % frames:
        raise ValueError(f"steps={steps} must be a positive multiple of frames={frames}, itself at least 1")


def check_chunk(chunk: int | None) -> None:
    """A number of samples that are worked on at a time, or None."""
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk={chunk} must be at least 1")
