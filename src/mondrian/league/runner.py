"""Runs the trainings of a league, several at once, each in a process of its own.

A folder that a process works in is locked by a file that the process itself holds open: when the league is killed and
started again, it waits for what a process of before is still at, and so do two leagues in one folder.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mondrian.league.plan import TASK, Job, Plan
from mondrian.support.files import write_json

LOCK, LOG = "lock", "log.txt"


@dataclass(eq=False)
class Running:
    """A training that has been started."""

    job: Job
    process: subprocess.Popen[bytes]
    lock: int

    @property
    def steps(self) -> int:
        """Steps that it has logged."""
        rows = self.job.run.history() if self.job.run.history_file.exists() else {}
        return int(rows["step"][-1]) if rows else 0

    def end(self) -> None:
        """Let go of what has ended; a failure is an error that names the log."""
        os.close(self.lock)
        code = self.process.returncode
        if code != 0 or self.job.outcome is None:
            log = self.job.folder / LOG
            raise ValueError(f"{self.job.folder.name} of {self.job.entrant.name} {_why(code, log)} (see {log})")


def run(plan: Plan, *, progress: bool = False) -> None:
    """Run all trainings that are not done. What fails is raised when all others have ended."""
    running: list[Running] = []
    failures: dict[Path, ValueError] = {}
    bar = Bar(plan, progress=progress)
    try:
        while True:
            started, elsewhere = _start(plan, running, without=failures)
            running += started
            if not running and not elsewhere:
                break
            time.sleep(0.5)
            for each in [each for each in running if each.process.poll() is not None]:
                running.remove(each)
                try:
                    each.end()
                    bar.say(each.job)
                except ValueError as error:
                    failures[each.job.folder] = error
                    bar.write(str(error))
            bar.show(running)
    except KeyboardInterrupt:  # the processes save their state and end, also those that a Ctrl-C did not reach
        for each in running:
            each.process.terminate()
        for each in running:
            each.process.wait()
        raise
    finally:
        bar.close()
    if failures:
        raise next(iter(failures.values()))


def _start(plan: Plan, running: list[Running], *, without: Collection[Path]) -> tuple[list[Running], bool]:
    """Start as many of the trainings that wait as there are free places, and say if other processes are at some."""
    started: list[Running] = []
    elsewhere = False
    busy = {*without, *(each.job.folder for each in running)}
    for job in plan.known_jobs():
        if len(running) + len(started) >= plan.league.at_once:
            break
        if job.folder in busy or job.outcome is not None:
            continue
        lock = _lock(job)
        if lock is None:
            elsewhere = True
        elif job.outcome is None:  # it may have ended since
            started.append(Running(job, _process(plan, job, lock), lock))
        else:
            os.close(lock)
    return started, elsewhere


def _lock(job: Job) -> int | None:
    """The job's lock, an open file, unless another process has it."""
    job.folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(job.folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _process(plan: Plan, job: Job, lock: int) -> subprocess.Popen[bytes]:
    file = job.folder / TASK
    write_json(file, plan.task(job))
    threads = {name: str(plan.league.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    with open(job.folder / LOG, "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "mondrian.league.job", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | threads,
            pass_fds=(lock,),
        )


def _why(code: int, log: Path) -> str:
    """In words: stopped alone, killed from outside, as by a system without memory, or failed by itself."""
    if code == 130:
        return "was stopped; the next call goes on with it"
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    last = log.read_text(errors="replace").strip().splitlines()[-1:]
    return f"failed: {''.join(last)}"


class Bar:
    """Progress in seconds of work on a free core, and a line for each training that has ended."""

    def __init__(self, plan: Plan, *, progress: bool) -> None:
        self.plan, self.progress = plan, progress
        self.total = plan.seconds_left()
        self._bar: tqdm[Any] = tqdm(
            total=round(self.total),
            desc="league",
            unit="s",
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed} {postfix}",
            disable=None if progress else True,
        )

    def show(self, running: list[Running]) -> None:
        parts = {each: min(1.0, each.steps / each.job.steps) for each in running} if not self._bar.disable else {}
        if not parts:
            return
        left = self.plan.seconds_left() - sum(part * self.plan.seconds(each.job) for each, part in parts.items())
        self._bar.total = max(self._bar.total, round(left))
        self._bar.n = round(self._bar.total - left)
        self._bar.set_postfix_str(", ".join(f"{each.job.entrant.name} {part:.0%}" for each, part in parts.items()))

    def say(self, job: Job) -> None:
        outcome = job.outcome
        assert outcome is not None
        found = outcome.message or f"validation loss {outcome.valid_loss:.4g}"
        self.write(f"{job.entrant.name:<22} {job.budget:<8} lr {job.rate:g} seed {job.seed}  {found}")

    def write(self, text: str) -> None:
        if self.progress:
            self._bar.write(text) if not self._bar.disable else print(text, flush=True)

    def close(self) -> None:
        self._bar.close()
