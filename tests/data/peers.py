"""Solutions by py-pde, for tests that compare ours with them."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from mondrian import Grid


class Case(NamedTuple):
    """Samples of initial data, and an equation for each as py-pde writes it."""

    grid: Grid
    u0: torch.Tensor
    equations: Sequence[str]
    time: float


def solve_by_py_pde(cases: Sequence[Case], folder: Path) -> list[torch.Tensor]:
    """All in one process: to import py-pde takes longer than to solve."""
    files = [(folder / f"in{number}.npz", folder / f"out{number}.npz") for number in range(len(cases))]
    for case, (given, _) in zip(cases, files, strict=True):
        grid = case.grid
        np.savez(
            given,
            u0=case.u0.numpy(),
            equations=list(case.equations),
            extent=grid.extent,
            periodic=grid.periodic,
            time=case.time,
        )
    script = Path(__file__).parent / "fixtures" / "solve_py_pde.py"
    subprocess.run([sys.executable, str(script), *(str(file) for pair in files for file in pair)], check=True)
    return [torch.from_numpy(np.load(path)["u"]) for _, path in files]
