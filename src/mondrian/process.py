"""Settings of the running process."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's names of two settings, see mallopt(3)
_LARGEST = 2**31 - 1


def keep_large_blocks() -> bool:
    """Tell glibc to keep large blocks of memory for the next step instead of giving them back to the system.

    Otherwise each step of training faults the pages of its activations in anew. Returns whether it could be done:
    elsewhere than on Linux with glibc it cannot.
    """
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, _LARGEST))
