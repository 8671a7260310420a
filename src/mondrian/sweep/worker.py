"""A worker of a sweep: it trains one trial after the other, until the study has enough."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch

from mondrian.settings.compose import quoted
from mondrian.support.process import cores
from mondrian.support.text import one_line
from mondrian.sweep.plan import SweepPlan, settings_of
from mondrian.sweep.pruning import Pruned, ReportLoss
from mondrian.sweep.study import SharedStudy, chosen
from mondrian.training.guards import Diverged, Stopped
from mondrian.training.record import joined
from mondrian.training.run import Run
from mondrian.training.train import train_config

if TYPE_CHECKING:
    from optuna.trial import Trial


def work(shared: SharedStudy, *, progress: bool) -> None:
    """Train trials, each to the end, until all of the study are trained or in the hands of others."""
    while True:
        with shared.claimed() as trial:
            if trial is None:
                return
            _train(shared, trial, progress=progress)


def _train(shared: SharedStudy, trial: Trial, *, progress: bool) -> None:
    """Train one trial. A stop leaves it unfinished: whoever comes next resumes it. An error marks it as failed."""
    from optuna.trial import TrialState

    settings = chosen(shared.plan, trial)
    print(f"trial {trial.number}: {' '.join(settings)}", flush=True)
    try:
        loss = _least_loss(shared.plan, trial, settings, progress=progress)
    except Pruned as pruned:
        print(f"trial {trial.number}: {pruned}", flush=True)
        shared.study.tell(trial.number, state=TrialState.PRUNED)
    except Stopped as stopped:
        raise KeyboardInterrupt from stopped
    except Exception as error:
        trial.set_user_attr("error", one_line(error))
        shared.study.tell(trial.number, state=TrialState.FAIL)
        raise
    else:
        shared.study.tell(trial.number, loss)
        print(f"trial {trial.number}: validation loss {loss:.4g}", flush=True)


def _least_loss(plan: SweepPlan, trial: Trial, settings: Sequence[str], *, progress: bool) -> float:
    """The least validation loss of a trial, infinite where it diverged."""
    folder = plan.folder / str(trial.number)
    trial.set_user_attr("run", str(folder))
    check_choice(Run(folder), settings)
    overrides = [*joined(["trainer.devices=1"], plan.fixed), *settings, f"run={quoted(folder)}", "resume=true"]
    try:
        run = train_config(overrides, progress=progress, callbacks=[ReportLoss(trial)])
    except Diverged as error:
        print(f"trial {trial.number}: {error}", file=sys.stderr)
        return math.inf
    return float(np.nanmin(run.history()["valid_loss"]))


def check_choice(run: Run, chosen: Sequence[str]) -> None:
    """Refuse to give the loss of a run to other settings than it was trained with."""
    if not run.record.exists():
        return
    known = settings_of(run)
    for override in chosen:
        key, _, value = override.partition("=")
        if known.get(key) != value:
            raise ValueError(
                f"{run.folder} was trained with {key}={known.get(key)}; the study has {override} for this trial; "
                "needed another folder, run=... starts one"
            )


def run_workers(overrides: Sequence[str], jobs: int) -> None:
    """Several workers on this machine, each a process; they end when this one is stopped."""
    devices = torch.cuda.device_count()
    command = [sys.executable, "-m", "mondrian", "sweep", "--worker", *overrides, "jobs=1"]
    workers = [
        subprocess.Popen(command, env=worker_environment(number, jobs, os.environ, devices=devices))
        for number in range(jobs)
    ]
    try:
        with _terminated_by_interrupt():
            codes = [worker.wait() for worker in workers]
    finally:
        for worker in workers:
            worker.terminate()  # it saves its trial, which the next call resumes
        for worker in workers:
            worker.wait()
    if any(codes):
        raise ValueError(f"{sum(code != 0 for code in codes)} of jobs={jobs} workers ended with an error; see above")


@contextmanager
def _terminated_by_interrupt() -> Iterator[None]:
    """SIGTERM as Ctrl-C, so that a program that started others can stop them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def worker_environment(number: int, jobs: int, environment: Mapping[str, str], *, devices: int) -> dict[str, str]:
    """Processors and a GPU for one of several workers on a machine.

    >>> worker_environment(5, 8, {"CUDA_VISIBLE_DEVICES": "4,5,6,7", "OMP_NUM_THREADS": "2"}, devices=4)
    {'CUDA_VISIBLE_DEVICES': '5', 'OMP_NUM_THREADS': '2'}
    """
    own = {"OMP_NUM_THREADS": str(max(1, cores() // jobs))} | dict(environment)
    if devices:
        visible = environment.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(devices)))
        own["CUDA_VISIBLE_DEVICES"] = visible.split(",")[number % devices]
    return dict(sorted(own.items()))
