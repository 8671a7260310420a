"""What `run.json` says of a run, and what may change when it resumes."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mondrian import __version__
from mondrian.settings.former import current_config
from mondrian.support.process import cores
from mondrian.support.settings_guard import changes
from mondrian.support.spec import Spec
from mondrian.surrogate import ScaledModel
from mondrian.training.run import Run
from mondrian.training.settings import TrainingSpec

# What may change when a run resumes; `refuse_other_data` checks the data at another place.
FREE = frozenset({
    "resume", "run", "optimizer", "trainer", "max_steps", "checkpoint_every", "validate_every", "log_every", "workers",
    "wandb", "parallel", "data.path", "data.make", "data.reader.path",
})  # fmt: skip
STEP = ("accumulate_grad_batches", "precision")  # of the trainer's settings those that change a step


def facts_of(
    spec: TrainingSpec, overrides: Sequence[str], data: Spec, samples: str, surrogate: ScaledModel
) -> dict[str, Any]:
    """The content of `run.json`."""
    return {
        "name": str(spec.folder).removeprefix("runs/"),
        "words": _kept(overrides),
        "parameters": sum(parameter.numel() for parameter in surrogate.parameters()),
        "versions": versions(),
        "machine": {"processor": platform.machine(), "cores": cores()},
        "data": data.to_json(),
        "samples": samples,
        "surrogate": surrogate.spec.to_json(),
        "config": dict(spec.config),
    }


def versions() -> dict[str, str]:
    """What the numbers of a run may depend on; `source` tells two states of our own code apart."""
    packages = {"mondrian": __version__} | {name: version(name) for name in ("torch", "lightning", "numpy")}
    return packages | {"python": platform.python_version(), "source": _digest(Path(__file__).parents[1])}


def _digest(folder: Path) -> str:
    """A short name for the content of all Python files and recipes."""
    files = sorted(path for ending in ("py", "yaml") for path in folder.rglob(f"*.{ending}"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def joined(former: Sequence[str], overrides: Sequence[str]) -> list[str]:
    """The overrides of a run, with newer ones in the place of those of the same setting."""
    return list({override.partition("=")[0]: override for override in (*former, *overrides)}.values())


def refuse_changes(run: Run, config: Mapping[str, Any]) -> None:
    """A run that resumes is the same run."""
    stored: Mapping[str, Any] = current_config(run.config, warn=False)
    steps = ({f"trainer.{key}": settings.get("trainer", {}).get(key) for key in STEP} for settings in (stored, config))
    for change in (*changes(stored, config, free=FREE), *changes(*steps)):
        raise ValueError(f"{change.key} was {change.old} when {run.folder} began; it cannot resume with {change.new}")


def refuse_other_samples(run: Run, samples: str) -> None:
    """The samples of a data set that has moved are those that the run began with."""
    known = run.facts.get("samples", samples)
    if samples != known:
        raise ValueError(
            f"the training samples are others (digest {samples}) than when {run.folder} began ({known}); needed the "
            "same data, wherever they lie"
        )


def renewed(facts: dict[str, Any], spec: TrainingSpec, overrides: Sequence[str], data: Spec) -> dict[str, Any]:
    """The record of a run that resumes: with its new overrides, and the data where they are now."""
    return facts | {
        "words": joined(facts["words"], _kept(overrides)),
        "data": data.to_json(),
        "config": dict(spec.config),
    }


def _kept(overrides: Sequence[str]) -> list[str]:
    """All overrides but `resume`, which says nothing about the run."""
    return [override for override in overrides if not override.startswith("resume=")]


def refuse_other_data(run: Run, data: Spec) -> None:
    """The data set may have moved, but must be the same one in the same parts."""
    given, stored = data.to_json(), dict(run.fact("data"))
    for facts in (given, stored):
        facts["files"] = {key: value for key, value in facts["files"].items() if key != "path"}
    for key, value in stored.items():
        if given[key] != value:
            raise ValueError(
                f"the data's {key} was {value} when {run.folder} began; it cannot resume with {given[key]}"
            )
