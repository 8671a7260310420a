"""Simulate shards of a data set and write them, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mondrian.data.manifest import FILE, Manifest, Shard
from mondrian.data.problems import Problem
from mondrian.data.seeds import simulation_seed
from mondrian.data.store import Simulations, write_shard
from mondrian.support.settings_guard import changes


def make_shard(folder: Path, manifest: Manifest, shard: Shard) -> Iterator[int]:
    """Simulate and write one shard; yields the number of simulations done since the last time."""
    problem = problem_of(manifest)
    numbers = range(shard.first, shard.first + shard.count)
    seeds = [simulation_seed(manifest.seed, shard.split, index) for index in numbers]
    parts = []
    for start in range(0, len(seeds), problem.chunk):
        chunk = seeds[start : start + problem.chunk]
        part = problem.simulate(chunk, shard.points)
        _finite(part, f"{problem.name}, split {shard.split!r}, simulation {shard.first + start} and on")
        parts.append(part)
        yield len(chunk)
    agreed_manifest(folder, manifest)  # another may have begun with other arguments, as long as there was no shard
    for sizes, file in shard.files().items():
        write_shard(
            folder / file,
            Simulations.join(part[sizes] for part in parts),
            name=problem.name,
            identity=identity_of(manifest, shard),
        )


def agreed_manifest(folder: Path, manifest: Manifest, *, version: bool = True) -> Manifest:
    """The folder's manifest. Refuse one with shards of other arguments, or of another version where that counts.

    A folder without any shard may have been begun with wrong ones.
    """
    if not (folder / FILE).exists():
        manifest.save(folder)
        return manifest
    stored = Manifest.load(folder)
    made, now = ({"version": one.version, **one.arguments()} for one in (stored, manifest))
    changed = changes(made, now, free=() if version else ("version",))
    if not changed:
        return stored
    if not any((folder / file).exists() for file in stored.files()):
        manifest.save(folder)
        return manifest
    raise ValueError(
        f"{folder / FILE}: {changed[0]}; needed the same to resume, "
        "or another folder (`mondrian generate path=...`, `mondrian train data.path=...`)"
    )


def identity_of(manifest: Manifest, shard: Shard) -> dict[str, Any]:
    return {
        "problem": manifest.problem.to_json(),
        "seed": manifest.seed,
        "split": shard.split,
        "first": shard.first,
        "count": shard.count,
        "version": manifest.version,
    }


def _finite(part: Mapping[tuple[int, ...], Simulations], what: str) -> None:
    for simulations in part.values():
        for name, field in simulations.fields.items():
            if not np.isfinite(field).all():
                raise ValueError(f"{what}: {name} {field.shape} is not finite; the simulation has failed")


def problem_of(manifest: Manifest) -> Problem:
    if not isinstance(manifest.problem, Problem):
        raise ValueError(f"problem={manifest.problem} cannot be simulated; needed a Problem")
    return manifest.problem


def make_shards(folder: Path, manifest: Manifest, shards: Sequence[Shard], workers: int) -> Iterator[int]:
    """Make shards on so many processes; yields the number of simulations done since the last time."""
    run = _run_here if workers == 1 or len(shards) < 2 else _run_in_processes
    yield from run(folder, manifest, shards, min(workers, len(shards)))


def _run_here(folder: Path, manifest: Manifest, shards: Sequence[Shard], workers: int) -> Iterator[int]:
    with _one_thread():
        for shard in shards:
            yield from make_shard(folder, manifest, shard)


def _run_in_processes(folder: Path, manifest: Manifest, shards: Sequence[Shard], workers: int) -> Iterator[int]:
    methods = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    context.set_forkserver_preload([__name__])  # torch is imported once, not by every worker
    queue = list(reversed(shards))
    ends: dict[Connection, multiprocessing.process.BaseProcess] = {}
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, folder, manifest), daemon=True)
            process.start()
            theirs.close()
            ends[ours] = process
            ours.send(queue.pop())
        while ends:
            for end in wait(list(ends)):
                assert isinstance(end, Connection)
                try:
                    message = end.recv()
                except EOFError:
                    process = ends.pop(end)
                    process.join()
                    raise OSError(
                        f"a worker ended with exit code {process.exitcode} (killed, or out of memory?); "
                        "finished shards are kept, the same command resumes"
                    ) from None
                if isinstance(message, Exception):
                    raise message
                if message is not None:
                    yield message
                elif queue:
                    end.send(queue.pop())
                else:
                    end.send(None)
                    ends.pop(end).join()
                    end.close()
    finally:
        for end, process in ends.items():
            process.terminate()
            process.join()
            end.close()


def _work(connection: Connection, folder: Path, manifest: Manifest) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    torch.set_num_threads(1)
    try:
        for shard in iter(connection.recv, None):
            try:
                for done in make_shard(folder, manifest, shard):
                    connection.send(done)
                connection.send(None)
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:  # carried to the parent, which raises it
                connection.send(error)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        os._exit(1)  # the parent is gone


@contextmanager
def _one_thread() -> Iterator[None]:
    # Sums of several threads are added in another order: one thread, here as in the workers.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
