"""Processors that report instructions which they cannot execute.

A virtual machine may pass on that its processor has AMX and still trap each use of it. oneDNN, which computes PyTorch's
products in bfloat16 and float16 on a CPU, believes the report: the process ends with SIGILL, or every later primitive
fails. `ensure_half_precision` tries a few products in a process of its own first. Where they fail oneDNN is held to
older instructions by its variable `ONEDNN_MAX_CPU_ISA`. oneDNN reads it at its first use, not when torch is imported.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence

LIMIT = "ONEDNN_MAX_CPU_ISA"
TRIED = "MONDRIAN_HALF_PRECISION"  # in the environment of a process and its children: the products need no second trial
INSTRUCTIONS = ("AVX512_CORE_BF16", "AVX512_CORE", "AVX2")  # oneDNN's names, each without what the one before it traps

Trial = Callable[[Mapping[str, str]], str | None]

# large enough for oneDNN to choose the newest instructions
PRODUCTS = """
import torch
from torch.nn import functional
for dtype in (torch.bfloat16, torch.float16):
    u = torch.ones(256, 256, dtype=dtype)
    products = [
        u @ u,
        functional.linear(u, u),
        functional.conv1d(u[None], u[:, :, None]),
        functional.scaled_dot_product_attention(u[None, None], u[None, None], u[None, None]),
    ]
    assert all(product.isfinite().all() for product in products)
"""


def ensure_half_precision(environment: MutableMapping[str, str] | None = None, *, trial: Trial | None = None) -> None:
    """Let this process and its children compute in bfloat16 and float16 on the CPU.

    Call it before the first product. `ONEDNN_MAX_CPU_ISA` is set in `environment`, with a line on stderr, where the
    processor needs it. A value that is already there is kept. `ValueError` if no setting helps.
    """
    environment = os.environ if environment is None else environment
    if TRIED in environment or LIMIT in environment:
        return
    trial = try_products if trial is None else trial
    failure = first = trial(environment)
    for limit in INSTRUCTIONS:
        if failure is None:
            break
        environment[LIMIT] = limit
        failure = trial(environment)
    if failure is not None:
        del environment[LIMIT]
        raise ValueError(
            f"this processor cannot compute in bfloat16 or float16: a trial product {failure} "
            f"even with {LIMIT}={INSTRUCTIONS[-1]}; needed precision 32-true, or another device"
        )
    environment[TRIED] = "works"
    if first is not None:
        print(
            f"mondrian: a trial product in bfloat16 or float16 {first}; {LIMIT}={environment[LIMIT]} is set, "
            "with which it works",
            file=sys.stderr,
        )


def try_products(
    environment: Mapping[str, str],
    *,
    command: Sequence[str] = (sys.executable, "-c", PRODUCTS),
    seconds: float = 120.0,
) -> str | None:
    """Run the products in a process with that environment. Returns how it failed, None if it did not."""
    try:
        process = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"took more than {seconds:g} s"
    if process.returncode < 0:
        return f"ended with {signal.Signals(-process.returncode).name}"
    if process.returncode:
        return f"failed ({(process.stderr.strip() or 'without a message').splitlines()[-1]})"
    return None
