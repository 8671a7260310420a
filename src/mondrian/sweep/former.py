"""Overrides of Hydra's sweeper, which chose the settings before: they work for one more release, with a warning."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path

KEYS = {
    "hydra.sweeper.n_trials": "trials",
    "hydra.sweeper.n_jobs": "jobs",
    "hydra.launcher.n_jobs": "jobs",
    "hydra/sweeper/sampler": "sampler",
    "hydra.sweeper.sampler.seed": "sampler_seed",
    "hydra.sweeper.sampler.n_startup_trials": "startup_trials",
}
OVERRIDES = {
    "hydra/sweeper=optuna": "sampler=tpe",
    "hydra/sweeper=basic": "sampler=grid",
    "hydra/launcher=basic": "jobs=1",
    "hydra/launcher=joblib": None,  # `hydra.launcher.n_jobs` says how many
    "hydra.sweeper.direction=minimize": None,
}


def renewed(overrides: Sequence[str]) -> list[str]:
    """Overrides with those of Hydra's sweeper as they are said now.

    >>> with warnings.catch_warnings(action="ignore"):
    ...     renewed(["seed=0,1", "hydra/sweeper=basic", "hydra.sweeper.n_trials=8"])
    ['seed=0,1', 'sampler=grid', 'trials=8']
    """
    return [new for override in overrides if (new := _renewed(override)) is not None]


def _renewed(override: str) -> str | None:
    if not override.startswith(("hydra.", "hydra/")):
        return override
    key, _, value = override.partition("=")
    if override in OVERRIDES:
        new = OVERRIDES[override]
    elif key in KEYS:
        new = f"{KEYS[key]}={value}"
    else:
        raise ValueError(
            f"{override}: sweeps do not use Hydra's sweepers and launchers any more; needed trials, sampler, pruner, "
            "jobs or a job array (mondrian sweep --help)"
        )
    advice = f"is now {new}" if new else "is not needed any more"
    warnings.warn(f"{override} {advice}; the former override goes with the next release", FutureWarning, stacklevel=4)
    return new


def by_hydra(file: Path) -> bool:
    """Whether a `sweep.json` was written by the sweeps before Optuna's own studies."""
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "hydra" in content
