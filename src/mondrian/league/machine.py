"""The machine that a league runs on."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from mondrian.support.process import cores


def machine() -> str:
    """The processor, its cores for us, and memory."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{(names or [platform.machine()])[0]}, {cores()} cores, {memory:.0f} GiB"
