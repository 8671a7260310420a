"""What `run.json` says of a run, and what a run that goes on may have changed."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mondrian import __version__
from mondrian.support.process import cores
from mondrian.support.spec import Spec
from mondrian.surrogate import ScaledModel
from mondrian.training.run import Run

# What a run that goes on may have other than it began with.
FREE = (
    "resume", "run", "optimizer", "trainer", "max_steps", "checkpoint_every", "validate_every", "log_every", "workers",
    "wandb", "parallel",
)  # fmt: skip
PLACES = ("data.path", "data.make", "data.reader.path")  # free too: `refuse_other_data` looks at what is there


def facts_of(
    config: DictConfig, words: Sequence[str], data: Spec, samples: str, surrogate: ScaledModel
) -> dict[str, Any]:
    """The content of `run.json`."""
    return {
        "name": str(config.run).removeprefix("runs/"),
        "words": _kept(words),
        "parameters": sum(parameter.numel() for parameter in surrogate.parameters()),
        "versions": versions(),
        "machine": {"processor": platform.machine(), "cores": cores()},
        "data": data.to_json(),
        "samples": samples,
        "surrogate": surrogate.spec.to_json(),
        "config": OmegaConf.to_container(config, resolve=True),
    }


def versions() -> dict[str, str]:
    """What the numbers of a run may depend on; `source` tells two states of our own code apart."""
    packages = {"mondrian": __version__} | {name: version(name) for name in ("torch", "lightning", "numpy")}
    return packages | {"python": platform.python_version(), "source": _digest(Path(__file__).parents[1])}


def _digest(folder: Path) -> str:
    """A short name for the content of all Python files and recipes."""
    files = sorted(path for ending in ("py", "yaml") for path in folder.rglob(f"*.{ending}"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def joined(former: Sequence[str], words: Sequence[str]) -> list[str]:
    """The words of a run, with newer ones in the place of those that set the same."""
    return list({word.partition("=")[0]: word for word in (*former, *words)}.values())


def refuse_changes(run: Run, config: DictConfig) -> None:
    """A run that goes on is the same run."""
    given: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    for key, stored in run.config.items():
        changed = _changed(stored, given.get(key), key) if key not in FREE else []
        if changed:
            name, former, now = changed[0]
            raise ValueError(f"{name} was {former} when {run.folder} began; a run cannot go on with {now}")
    for key in ("accumulate_grad_batches", "precision"):  # of the trainer's settings those that change a step
        stored, wanted = (settings.get("trainer", {}).get(key) for settings in (run.config, given))
        if wanted != stored:
            raise ValueError(f"trainer.{key} was {stored} when {run.folder} began; a run cannot go on with {wanted}")


def _changed(stored: Any, given: Any, name: str) -> list[tuple[str, Any, Any]]:
    """The settings that differ, with both values; `PLACES` may."""
    if isinstance(stored, dict) and isinstance(given, dict):
        keys = {key: None for key in (*stored, *given) if f"{name}.{key}" not in PLACES}
        return [change for key in keys for change in _changed(stored.get(key), given.get(key), f"{name}.{key}")]
    return [] if stored == given else [(name, stored, given)]


def refuse_other_samples(run: Run, samples: str) -> None:
    """The samples of a data set that has moved are those that the run began with."""
    known = run.facts.get("samples", samples)
    if samples != known:
        raise ValueError(
            f"the training samples are others (digest {samples}) than when {run.folder} began ({known}); needed the "
            "same data, wherever they lie"
        )


def renewed(facts: dict[str, Any], config: DictConfig, words: Sequence[str], data: Spec) -> dict[str, Any]:
    """What a run has written down, with what it was told when it went on, and the data where they are now."""
    return facts | {
        "words": joined(facts["words"], _kept(words)),
        "data": data.to_json(),
        "config": OmegaConf.to_container(config, resolve=True),
    }


def _kept(words: Sequence[str]) -> list[str]:
    """Whether a run goes on is no matter of the run."""
    return [word for word in words if not word.startswith("resume=")]


def refuse_other_data(run: Run, data: Spec) -> None:
    """The data set may have moved, but must be the same one in the same parts."""
    given, stored = data.to_json(), dict(run.fact("data"))
    for facts in (given, stored):
        facts["files"] = {key: value for key, value in facts["files"].items() if key != "path"}
    for key, value in stored.items():
        if given[key] != value:
            raise ValueError(
                f"the data's {key} was {value} when {run.folder} began; a run cannot go on with {given[key]}"
            )
