"""Measure speed and memory of models on this machine.

  mondrian benchmark allen_cahn/vit_sepmo allen_cahn/fno            recipes, side by side
  mondrian benchmark allen_cahn/vit_mo points=[32,64,128] batch=4   at several resolutions: points of each axis
  mondrian benchmark allen_cahn/vit_mo model.hidden_channels=32     a recipe with other settings (for all recipes named)
  mondrian benchmark runs/mine                                      the model of a run, or of any `save_pretrained`
  mondrian benchmark allen_cahn/fno memory=false --json             no memory, which takes a process each; as JSON

Every model makes predictions and steps of training (forward, backward, optimiser) in turns with all others, on random
numbers, and the best of five rounds counts: the ratios mean something on a busy machine too. Memory is what a pass
needs besides the model. GFLOP/s are those of matrix products in predictions; Fourier transforms are not counted.

  device=cpu|cuda     where (CUDA if there is any); threads of a CPU: OMP_NUM_THREADS=1 mondrian benchmark ...
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from hydra.core.override_parser.overrides_parser import OverridesParser

from mondrian.benchmark import Candidate, Speed, measure_speeds
from mondrian.device import chosen_device
from mondrian.evaluation.tables import size


@dataclass(frozen=True)
class Settings:
    """The words `key=value`."""

    points: tuple[int, ...] | None = None
    batch: int = 8
    memory: bool = True
    device: str | None = None


def run(arguments: list[str]) -> None:
    """Print a table, or JSON."""
    candidates, settings = read([word for word in arguments if word != "--json"])
    device = chosen_device(settings.device)
    found, refused = measure_speeds(
        candidates, settings.points, batch=settings.batch, device=device, memory=settings.memory, progress=True
    )
    for what, reason in refused.items():
        print(f"mondrian benchmark: {what} is left out: {reason}", file=sys.stderr)
    if not found:
        raise ValueError("no model takes any of the resolutions")
    if "--json" in arguments:
        print(json.dumps([_finite(asdict(speed)) for speed in found], indent=2))
        return
    threads = torch.get_num_threads()
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{threads} thread{'s' * (threads > 1)}"
    print(f"batches of {settings.batch}, torch {torch.__version__}, {where}\n\n{table(found)}")


def read(words: Sequence[str]) -> tuple[list[Candidate], Settings]:
    """The models that are named, and the settings."""
    known = {field.name for field in fields(Settings)}
    names, overrides, values = [], [], {}
    parser = OverridesParser.create()
    for word in words:
        key, equals, _ = word.partition("=")
        if word.startswith("-"):
            raise ValueError(f"unknown option {word}; needed --json, --help, a model or key=value")
        if not equals or Path(word).exists():
            names.append(word)
        elif key in known:
            values[key] = _value(key, parser.parse_override(word).value())
        else:
            overrides.append(word)
    if not names:
        raise ValueError("no model is named; needed a recipe of `mondrian models`, or the folder of a run")
    return [Candidate(name, tuple(overrides)) for name in dict.fromkeys(names)], Settings(**values)


def table(found: Sequence[Speed]) -> str:
    """Aligned columns, the models of one resolution together."""
    head = ["model", "parameters", "points", "predictions/s", "memory", "trained/s", "in training", "GFLOP/s"]
    rows = [
        [
            speed.name,
            f"{speed.parameters:,}",
            size(speed.points),
            f"{speed.predictions:.1f}",
            _bytes(speed.prediction_memory),
            f"{speed.trained:.1f}",
            _bytes(speed.training_memory),
            f"{speed.operations / 1e9:.0f}",
        ]
        for speed in found
    ]
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = (
        "  ".join(f"{cell:>{width}}" if column else f"{cell:<{width}}" for column, (cell, width) in enumerate(pairs))
        for pairs in (zip(row, widths, strict=True) for row in [head, *rows])
    )
    return "\n".join(lines)


def _bytes(number: float) -> str:
    if math.isnan(number):
        return "-"
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in row.items()}


def _value(key: str, value: Any) -> Any:
    """A setting, or `ValueError` if it is of the wrong kind."""
    if key == "points":
        numbers = value if isinstance(value, list) else [value]
        if not numbers or not all(_is_count(number) for number in numbers):
            raise ValueError(f"points={value} must be points of each axis, for example points=[32,64]")
        return tuple(numbers)
    if key == "batch" and not _is_count(value):
        raise ValueError(f"batch={value} must be a whole number from 1 on")
    if key == "memory" and not isinstance(value, bool):
        raise ValueError(f"memory={value} must be true or false")
    return str(value) if key == "device" else value


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0
