"""The memory of a process."""

import subprocess
import sys

import pytest

PROGRAM = """
import torch
from mondrian.process import give_back_memory, keep_large_blocks

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

assert keep_large_blocks()
before = resident()
blocks = [torch.ones(25 * 2**18) for _ in range(8)]  # 25 MiB each
held = torch.ones(1)
del blocks
kept = resident() - before
assert give_back_memory()
print(kept, resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings")
def test_large_blocks_are_kept_until_they_are_given_back() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    kept, left = map(float, run.stdout.split())
    assert kept > 150
    assert left < 50
