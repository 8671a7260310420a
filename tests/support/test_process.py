"""The memory of a process."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import os
import torch
from mondrian.support.process import give_back_memory, keep_large_blocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

assert keep_large_blocks()
before = resident()
blocks = [torch.ones(25 * 2**18) for _ in range(8)]  # 25 MiB each
del blocks
kept = resident() - before
assert give_back_memory()
print(kept, resident() - before)
"""


@pytest.mark.process
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="settings of glibc")
def test_large_blocks_are_kept_until_they_are_given_back() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    kept, left = map(float, run.stdout.split())
    assert kept > 150
    assert left < 50
