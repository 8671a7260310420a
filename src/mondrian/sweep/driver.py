"""A whole sweep: from words to a folder of runs with a table and a plot."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import hydra
from hydra.errors import MissingConfigException

from mondrian.sweep.plan import Plan
from mondrian.sweep.plot import draw
from mondrian.sweep.results import Results
from mondrian.sweep.trial import trial
from mondrian.training.settings import configure
from mondrian.training.train import make_data


def sweep(words: Sequence[str]) -> Results:
    """Train again and again with the settings that vary, and write `sweep.csv` and `sweep.png`.

    found = sweep(["experiment=allen_cahn/vit_sepmo", "scale=smoke", "model.hidden_channels=choice(8,16)"])
    """
    plan = Plan.of(words)
    plan.save()
    make_data(configure(plan.first), progress=True)  # here, once, and not by each run
    with _command_line("mondrian sweep", "--multirun", *plan.overrides), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Deprecated API features detected")  # by SQLAlchemy, of Optuna 2
        try:
            hydra.main(config_path="pkg://mondrian.conf.sweep", config_name="sweep", version_base="1.3")(trial)()
        except MissingConfigException as error:
            raise ValueError(
                f"{error.missing_cfg_file} is not installed: it needs the extra `sweeps`, pip install -c "
                "constraints.txt -e '.[sweeps]'; hydra/sweeper=basic tries all combinations without it"
            ) from error
    results = Results.read(plan)
    results.save()
    draw(results)
    return results


@contextmanager
def _command_line(*words: str) -> Iterator[None]:
    """What `hydra.main` reads. Its errors are to reach our own command as they are."""
    before, full = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv, os.environ["HYDRA_FULL_ERROR"] = list(words), "1"
    try:
        yield
    finally:
        sys.argv = before
        os.environ.pop("HYDRA_FULL_ERROR")
        if full is not None:
            os.environ["HYDRA_FULL_ERROR"] = full
