"""Runs the trainings of a league, several at once, each in a process of its own.

The process of a training inherits the lock of its folder: when the league is killed and started again, it waits for
trainings that are still running, and so do two leagues in one folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mondrian.league.estimates import Estimate
from mondrian.league.jobs import TASK, Job
from mondrian.league.outcome import FILE as OUTCOME
from mondrian.league.outcome import Outcome
from mondrian.league.plan import LeaguePlan
from mondrian.league.snapshot import SnapshotReader
from mondrian.support.files import write_json
from mondrian.support.lock import Lock, LockedError

LOG = "log.txt"
POLL = 0.5  # seconds between looks at the trainings


@dataclass(eq=False)
class Running:
    """A training that has been started."""

    job: Job
    process: subprocess.Popen[bytes]
    lock: Lock

    @property
    def steps(self) -> int:
        """Steps that it has logged."""
        rows = self.job.run.history() if self.job.run.history_file.exists() else {}
        return int(rows["step"][-1]) if rows else 0

    def end(self) -> Outcome:
        """Release the lock of a training that has ended; a failure is an error that names the log."""
        self.lock.release()
        outcome = Outcome.load(self.job.folder)
        if self.process.returncode != 0 or outcome is None:
            log = self.job.folder / LOG
            why = _why(self.process.returncode, log)
            raise ValueError(f"{self.job.folder.name} of {self.job.entrant.name} {why} (see {log})")
        return outcome


def run(plan: LeaguePlan, reader: SnapshotReader, *, progress: bool = False) -> None:
    """Run all trainings that have not ended. An error is raised when all others have ended."""
    running: list[Running] = []
    failures: dict[Path, ValueError] = {}
    bar = Bar(plan, progress=progress)
    try:
        while True:
            if (snapshot := reader.read()) is not plan.snapshot:
                plan = replace(plan, snapshot=snapshot)
            started, elsewhere = _start(plan, running, without=failures)
            running += started
            if not running and not elsewhere:
                break
            time.sleep(POLL)
            for each in [each for each in running if each.process.poll() is not None]:
                running.remove(each)
                try:
                    bar.say(each.job, each.end())
                except ValueError as error:
                    failures[each.job.folder] = error
                    bar.write(str(error))
            bar.show(plan, running)
    except KeyboardInterrupt:  # the processes save their state and end, also those that a Ctrl-C did not reach
        for each in running:
            each.process.terminate()
        for each in running:
            each.process.wait()
            each.lock.release()
        raise
    finally:
        bar.close()
    if failures:
        raise next(iter(failures.values()))


def _start(plan: LeaguePlan, running: list[Running], *, without: Collection[Path]) -> tuple[list[Running], bool]:
    """Start as many of the waiting trainings as `jobs` allows, and say if other processes are at some."""
    started: list[Running] = []
    elsewhere = False
    busy = {*without, *(each.job.folder for each in running)}
    for job in plan.waiting:
        if len(running) + len(started) >= plan.league.at_once:
            break
        if job.folder in busy:
            continue
        lock = Lock.of_file(job.folder / OUTCOME)
        try:
            lock.acquire()
        except LockedError:
            elsewhere = True
            continue
        if Outcome.load(job.folder) is None:
            started.append(Running(job, _process(plan, job, lock), lock))
        else:  # it has ended since
            lock.release()
            elsewhere = True
    return started, elsewhere


def _process(plan: LeaguePlan, job: Job, lock: Lock) -> subprocess.Popen[bytes]:
    file = job.folder / TASK
    write_json(file, plan.task(job))
    threads = {name: str(plan.league.conditions.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with open(job.folder / LOG, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "mondrian.league.train_one", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | threads,
            pass_fds=(lock.descriptor,),
        )


def _why(code: int, log: Path) -> str:
    """In words: stopped alone, killed from outside, as by a system without memory, or failed by itself."""
    if code == 130:
        return "was stopped; the next call resumes it"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    return f"failed: {''.join(last)}"


class Bar:
    """Progress in seconds of work on a free core, and a line for each training that has ended."""

    def __init__(self, plan: LeaguePlan, *, progress: bool) -> None:
        self.progress = progress
        self.total = Estimate(plan).seconds_left()
        self._bar: tqdm[Any] = tqdm(
            total=round(self.total),
            desc="league",
            unit="s",
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed} {postfix}",
            disable=None if progress else True,
        )

    def show(self, plan: LeaguePlan, running: list[Running]) -> None:
        parts = {each: min(1.0, each.steps / each.job.steps) for each in running} if not self._bar.disable else {}
        if not parts:
            return
        estimate = Estimate(plan)
        left = estimate.seconds_left() - sum(part * estimate.seconds(each.job) for each, part in parts.items())
        self._bar.total = max(self._bar.total, round(left))
        self._bar.n = round(self._bar.total - left)
        self._bar.set_postfix_str(", ".join(f"{each.job.entrant.name} {part:.0%}" for each, part in parts.items()))

    def say(self, job: Job, outcome: Outcome) -> None:
        result = outcome.message or f"validation loss {outcome.valid_loss:.4g}"
        self.write(f"{job.entrant.name:<22} {job.budget:<8} lr {job.rate:g} seed {job.seed}  {result}")

    def write(self, text: str) -> None:
        if self.progress:
            self._bar.write(text) if not self._bar.disable else print(text, flush=True)

    def close(self) -> None:
        self._bar.close()
