"""One run of a sweep, as a launcher of Hydra calls it: in this process, in another one, or on another machine."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from mondrian.settings.compose import quoted
from mondrian.sweep.plan import Plan, settings_of
from mondrian.training.guards import Diverged, Stopped
from mondrian.training.run import Run
from mondrian.training.train import train_config


def trial(_: DictConfig) -> float:
    """Train with the settings that the sweeper has chosen; the least validation loss, infinite where it diverged.

    A run that was there already goes on where it was: the same sweep again completes what a crash left undone.
    """
    job = HydraConfig.get()
    folder, number = Path(job.sweep.dir), int(job.job.num)
    chosen = [word.removeprefix("+") for word in job.overrides.task]
    check_choice(Run(folder / str(number)), chosen)
    words = [*Plan.load(folder).fixed, *chosen, f"run={quoted(folder / str(number))}", "resume=true"]
    print(f"trial {number}: {' '.join(chosen)}", flush=True)
    try:
        with _beside_hydra():
            run = train_config(words, progress=True)
    except Diverged as error:
        print(f"trial {number}: {error}", file=sys.stderr)
        return math.inf
    except Stopped as stopped:
        raise KeyboardInterrupt from stopped
    best = float(np.nanmin(run.history()["valid_loss"]))
    print(f"trial {number}: validation loss {best:.4g}", flush=True)
    return best


def check_choice(run: Run, chosen: Sequence[str]) -> None:
    """Refuse to give the loss of a run to other settings than it was trained with."""
    if not run.record.exists():
        return
    known = settings_of(run)
    for word in chosen:
        key, _, value = word.partition("=")
        if known.get(key) != value:
            raise ValueError(
                f"{run.folder} was trained with {key}={known.get(key)}; the sweeper now chooses {word}: a sweep "
                "goes on only where it makes the same choices, run=... starts another"
            )


@contextmanager
def _beside_hydra() -> Iterator[None]:
    """Composing a configuration wants Hydra for itself, and a sweep has it."""
    hydra = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().clear()
        if hydra is not None:
            GlobalHydra.instance().initialize(hydra)
