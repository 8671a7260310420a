"""The running process: its memory, and its rank among others."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Mapping
from typing import Any

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names of two settings, see mallopt(3)
_LARGEST = 2**31 - 1


def keep_large_blocks() -> bool:
    """Let glibc keep large blocks of memory instead of returning them to the system.

    Otherwise every training step causes page faults for its activations. Returns whether this was possible, which
    needs Linux with glibc.
    """
    mallopt = _of_glibc("mallopt")
    return mallopt is not None and all(mallopt(name, _LARGEST) for name in (_MMAP_THRESHOLD, _TRIM_THRESHOLD))


def give_back_memory() -> bool:
    """Return free memory to the system. Returns whether there was any."""
    gc.collect()
    trim = _of_glibc("malloc_trim")
    return trim is not None and bool(trim(0))


def _of_glibc(name: str) -> Any:
    try:
        return getattr(ctypes.CDLL(None), name) if sys.platform == "linux" else None
    except (OSError, AttributeError):
        return None


def cores() -> int:
    """The number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def rank(environment: Mapping[str, str]) -> tuple[int, int]:
    """The rank of this process and the number of ranks under torchrun, Lightning or srun; otherwise `(0, 1)`.

    The variables of Slurm's job step count, not those of the job: a batch script that calls a command without srun is
    one process.
    """
    for number, total in (
        ("RANK", "WORLD_SIZE"),
        ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        ("LOCAL_RANK", "WORLD_SIZE"),
    ):
        if number in environment and total in environment:
            if not (environment[number].isdecimal() and environment[total].isdecimal()):
                pair = f"{number}={environment[number]}, {total}={environment[total]}"
                raise ValueError(f"{pair} in the environment must be whole numbers")
            return int(environment[number]), int(environment[total])
    return 0, 1


def is_first(environment: Mapping[str, str]) -> bool:
    """Whether this is the first process of a job, which writes files and prints."""
    return rank(environment)[0] == 0 and environment.get("NODE_RANK", "0") == "0"


def launched(environment: Mapping[str, str]) -> tuple[int, int] | None:
    """The processes per machine and the machines that torchrun or srun has started; None without them.

    >>> launched({"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"})
    (4, 2)
    """
    if "LOCAL_WORLD_SIZE" in environment:
        processes, total = int(environment["LOCAL_WORLD_SIZE"]), int(environment["WORLD_SIZE"])
        if total % processes:
            raise ValueError(f"torchrun has started {total} processes; needed the same number on each machine")
        return processes, total // processes
    if "SLURM_PROCID" in environment and "SLURM_STEP_NUM_TASKS" in environment:
        total, machines = int(environment["SLURM_STEP_NUM_TASKS"]), int(environment.get("SLURM_STEP_NUM_NODES", "1"))
        if total % machines:
            raise ValueError(f"srun has started {total} tasks on {machines} machines; needed --ntasks-per-node")
        return total // machines, machines
    return None
