"""Checks of arguments that all solvers share."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid


def check_fields(name: str, u: Float[Tensor, "batch ..."], grid: Grid) -> None:
    """Raise `ValueError` unless `u` holds fields on the points of `grid`, in single or double precision."""
    if tuple(u.shape[1:]) != grid.points:
        raise ValueError(f"{name} has points {tuple(u.shape[1:])}; needed grid.points={grid.points}")
    if u.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"{name} has dtype {u.dtype}; needed torch.float32 or torch.float64")


def check_steps(dt: float, steps: int, frames: int) -> None:
    """Raise `ValueError` unless `dt` is positive and `frames` divides `steps`."""
    if not (math.isfinite(dt) and dt > 0):
        raise ValueError(f"dt={dt} must be positive and finite")
    if frames < 1 or steps < 1 or steps % frames:
        raise ValueError(f"steps={steps} must be a positive multiple of frames={frames}, itself at least 1")


def check_chunk(chunk: int | None) -> None:
    """Raise `ValueError` unless `chunk` is None or at least 1."""
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk={chunk} must be at least 1")
