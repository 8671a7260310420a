"""Interleaved timings, whose ratios are reliable on a busy machine; peak memory in a separate process."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections.abc import Callable, Hashable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

Case = TypeVar("Case", bound=Hashable)

_LOAD, _MARKS = Path("/proc/stat"), Path("/proc/self/clear_refs")  # on Linux only


def interleaved(
    cases: Mapping[Case, Callable[[], Any]],
    *,
    rounds: int = 5,
    seconds: float = 60.0,
    patience: float = 120.0,
    clock: Callable[[], float] | None = None,
) -> dict[Case, float]:
    """The best time of each case. Cases take turns, so that other processes slow them all alike.

    Every case runs once to warm up and at least twice more, until `rounds` or `seconds` are used up. A case that is
    many times shorter than the longest runs several times per round, at most five. With several threads each round
    waits until other processes are quiet, in total at most `patience` seconds: threads that wait for each other suffer
    far more from other processes than their share of the cores. With one thread processor time is measured, and nothing
    is waited for; neither is it with a `clock` of the caller.
    """
    waits = clock is None and torch.get_num_threads() > 1
    clock = clock or (time.perf_counter if waits else time.process_time)
    warm = {name: _seconds(run, clock) for name, run in cases.items()}
    turns = {name: min(5, max(1, int(max(warm.values()) / time_once / 2))) for name, time_once in warm.items()}
    best = dict.fromkeys(cases, float("inf"))
    used = 0.0
    for number in range(rounds):
        patience -= wait_for_quiet(patience) if waits else 0
        for name, run in cases.items():
            times = [_seconds(run, clock) for _ in range(turns[name])]
            best[name] = min(best[name], *times)
            used += sum(times)
        if number and used > seconds:
            break
    return best


def _seconds(run: Callable[[], Any], clock: Callable[[], float]) -> float:
    begin = clock()
    run()
    return clock() - begin


def wait_for_quiet(seconds: float, *, share: float = 0.1) -> float:
    """Sleep until other processes use less than `share` of the cores, at most `seconds`; returns the time it took."""
    start = time.perf_counter()
    while _LOAD.exists() and time.perf_counter() - start < seconds:
        before = _busy()
        time.sleep(0.3)
        if _busy() - before < share * 0.3 * (os.cpu_count() or 1):
            break
    return time.perf_counter() - start


def _busy() -> float:
    """Busy seconds of all cores together, with those that a hypervisor gave to other machines."""
    user, nice, system, _, _, irq, soft, steal = map(int, _LOAD.read_text().split()[1:9])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def flops(run: Callable[[], Any]) -> int:
    """Floating-point operations of the matrix products in `run`; Fourier transforms are not counted."""

    def product(_: torch.Size, a: torch.Size, b: torch.Size, **__: Any) -> int:
        return 2 * a.numel() * b[-1]

    in_place = {torch.ops.aten.addmm_: product, torch.ops.aten.baddbmm_: product}  # unknown to the counter
    # the CPU's fused attention is unknown to the counter; plain products do the same work
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        run()
    return counter.get_total_flops()


def peak_memory(make: Callable[..., Callable[[], Any]], *arguments: Any) -> float:
    """The peak of the bytes that `make(*arguments)()` allocates, in a new process.

    NaN where the system does not tell (elsewhere than on Linux), or if the process died.
    """
    if not _MARKS.exists():
        return math.nan
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_measure, args=(there, make, arguments))
    child.start()
    there.close()
    try:
        return float(here.recv())
    except EOFError:
        return math.nan  # out of memory, most likely
    finally:
        child.join()


def _measure(pipe: Connection, make: Callable[..., Callable[[], Any]], arguments: tuple[Any, ...]) -> None:
    run = make(*arguments)
    before = reset_highest_mark()
    run()
    pipe.send(highest_mark() - before)


def reset_highest_mark() -> int:
    """Reset the high-water mark of this process' memory to the present, and return it."""
    _MARKS.write_text("5")
    return highest_mark()


def highest_mark() -> int:
    """The high-water mark of this process' memory in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
