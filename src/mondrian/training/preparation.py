"""The data of a run before it begins: simulated by the first rank where they are ours."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mondrian.data.protocol import DataSpec
from mondrian.support.process import is_first
from mondrian.training.settings import TrainingSpec


def prepared_data(spec: TrainingSpec, *, progress: bool = False) -> DataSpec[Any]:
    """The data set of a run, simulated first where it is ours and its folder was not given."""
    if spec.simulated is not None:
        _simulate(spec, progress=progress)
    return spec.data.pinned()


def _simulate(spec: TrainingSpec, *, progress: bool) -> None:
    """Make, or complete, the data set of a run."""
    simulated, folder = spec.simulated, Path(spec.config["data"]["path"])
    assert simulated is not None
    files = simulated.files(folder)
    if is_first(os.environ):
        if not any(file.exists() for file in files):
            print(f"simulating {simulated.count:,} problems to {folder}; data.path=... takes others")
        simulated.write(folder, progress=progress)
    wait_for_files(files, spec.trainer.timeout, folder, done=lambda: simulated.is_recorded(folder))


def wait_for_files(
    files: Sequence[Path], seconds: float, folder: Path, *, done: Callable[[], bool] = lambda: True
) -> None:
    """Wait until the first rank has written all files, as long as a new one appears every so many seconds."""
    count, since = -1, time.monotonic()
    while (there := sum(path.exists() for path in files)) < len(files) or not done():
        if there > count:
            count, since = there, time.monotonic()
        elif time.monotonic() - since > seconds:
            raise TimeoutError(
                f"{folder} has {there} of {len(files)} files and has had no new one for {seconds:g} s "
                "(trainer.timeout): the first rank, which writes them, does not answer"
            )
        time.sleep(1)
