"""Samples a second from disk: simulations of 32^2 in shards, two workers, shuffled batches of 128.

    python -m benchmarks.reading [--write]

Rows are run in turn, `ROUNDS` times, and the median is shown; "cold" drops the files from the page cache.
`--write` puts the table into benchmarks/results/reading.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from the_well.data import WellDataset
from torch.utils.data import DataLoader, Dataset

from mondrian import Grid
from mondrian.data.datasets import WindowDataset, collate
from mondrian.data.sources import WellFiles
from mondrian.data.store import Simulations, write_shard
from mondrian.surrogate import Window

SIMULATIONS, SHARD, POINTS, BATCH, WORKERS, ROUNDS = 20_000, 250, (32, 32), 128, 2, 5
TARGET = 10_000  # samples a second
WINDOW = Window(input=("u", "gamma"), target=("u",))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/reading.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("MONDRIAN_BENCHMARK_DIR", ".")) as name:
        table = measure(Path(name))
    print(table)
    if arguments.write:
        target = Path(__file__).parent / "results" / "reading.md"
        target.parent.mkdir(exist_ok=True)
        target.write_text(table)


def measure(folder: Path) -> str:
    contiguous, chunked = folder / "contiguous", folder / "chunked"
    write(contiguous)
    rechunk(contiguous, chunked)
    lazy = {"memory": 0}
    epoch = SIMULATIONS // BATCH
    # The slow ones take milliseconds a sample: a part of an epoch says enough.
    rows: dict[str, tuple[Callable[[], Dataset[Any]], Any, int]] = {
        "lazy, cold": (lambda: forget(contiguous) or ours(contiguous, **lazy), collate, epoch),
        "lazy, warm": (lambda: ours(contiguous, **lazy), collate, epoch),
        "lazy, warm, gzip chunks (h5py)": (lambda: ours(chunked, **lazy), collate, 20),
        "in memory": (lambda: ours(contiguous), collate, epoch),
        "the_well's WellDataset, warm": (lambda: WellDataset(path=str(contiguous)), None, 5),
    }
    load = os.getloadavg()[0]
    results: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(ROUNDS):
        for name, (make, join, batches) in rows.items():
            results[name].append(rate(make(), join, batches))
    lines = [
        "# Reading",
        "",
        f"{SIMULATIONS:,} simulations of {POINTS[0]}^2 (input `u`, `gamma`; target `u`) in shards of {SHARD},",
        f"shuffled batches of {BATCH}, {WORKERS} workers, median of {ROUNDS} interleaved rounds;",
        f"{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}, load before and after",
        f"{load:.1f} and {os.getloadavg()[0]:.1f} (other work on the machine takes its share of the cores).",
        f"Wanted: {TARGET:,} samples a second from disk.",
        "",
        "| | samples a second | lowest | highest |",
        "|---|---|---|---|",
    ]
    for name, rates in results.items():
        lines.append(f"| {name} | {statistics.median(rates):,.0f} | {min(rates):,.0f} | {max(rates):,.0f} |")
    return "\n".join(lines) + "\n\n`python -m benchmarks.reading --write` makes this table.\n"


def ours(folder: Path, **options: Any) -> WindowDataset:
    return WindowDataset(WellFiles(path=str(folder)).open(), WINDOW, **options)


def rate(data: Any, join: Any, count: int) -> float:
    """Samples a second over some batches, without the start of the workers."""
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=WORKERS, collate_fn=join)
    batches = iter(loader)
    next(batches)
    began = time.perf_counter()
    for _ in range(count - 1):
        next(batches)
    return (count - 1) * BATCH / (time.perf_counter() - began)


def write(folder: Path) -> None:
    random = np.random.default_rng(0)
    grid = Grid(extent=(2.0, 2.0), points=POINTS)
    for number in range(SIMULATIONS // SHARD):
        data = Simulations(
            grid=grid,
            times=np.array([0.0, 6.0]),
            fields={"u": random.standard_normal((SHARD, 2, *POINTS), dtype=np.float32)},
            scalars={"gamma": random.random(SHARD, dtype=np.float32)},
        )
        write_shard(folder / f"shard_{number:05d}.hdf5", data, name="reading", identity={})


def rechunk(source: Path, target: Path) -> None:
    target.mkdir()
    for path in source.iterdir():
        with h5py.File(path, "r") as old, h5py.File(target / path.name, "w") as new:
            for key in old:
                old.copy(key, new)
            new.attrs.update(old.attrs)
            attributes = dict(old["t0_fields/u"].attrs)
            del new["t0_fields/u"]
            values = old["t0_fields/u"][...]
            new.create_dataset("t0_fields/u", data=values, chunks=(1, *values.shape[1:]), compression="gzip")
            new["t0_fields/u"].attrs.update(attributes)


def forget(folder: Path) -> None:
    """Drop the files from the page cache."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


if __name__ == "__main__":
    main()
