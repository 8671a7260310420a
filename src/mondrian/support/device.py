"""The device to compute on."""

from __future__ import annotations

import torch


def chosen_device(name: str | None) -> torch.device:
    """The device of this name, or `ValueError` if it cannot be used; by default CUDA if available, else the CPU."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device={name} cannot be used: {str(error).splitlines()[0]}") from error
    return device
