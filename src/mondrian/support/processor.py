"""Half precision on processors that report instructions which they cannot execute.

A virtual machine may report the AMX of its processor and still trap each use of it. oneDNN, which computes PyTorch's
products in bfloat16 and float16 on a CPU, trusts the report: the process ends with SIGILL, or every later primitive
fails. `ensure_half_precision` therefore tries a few products in a separate process. If they fail, it limits oneDNN to
older instructions by the variable `ONEDNN_MAX_CPU_ISA`, which oneDNN reads at its first use, not at import of torch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence

LIMIT = "ONEDNN_MAX_CPU_ISA"
TRIED = "MONDRIAN_HALF_PRECISION"  # set for a process and its children once the products work
INSTRUCTIONS = ("AVX512_CORE_BF16", "AVX512_CORE", "AVX2")  # oneDNN's names, from newer to older

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
    """Make bfloat16 and float16 work on the CPU for this process and its children.

    Call it before the first product. If the processor needs it, this sets `ONEDNN_MAX_CPU_ISA` in `environment` and
    prints a line on stderr. An existing value is kept. Raises `ValueError` if no setting helps.
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
    """Run the products in a process with this environment. Returns the failure, or None."""
    try:
        process = subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"took more than {seconds:g} s"
    if process.returncode < 0:
        return f"ended with {signal.Signals(-process.returncode).name}"
    if process.returncode:
        return f"failed ({(process.stderr.strip() or 'without a message').splitlines()[-1]})"
    return None
