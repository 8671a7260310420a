"""Measure speed and memory of models on this machine.

  mondrian benchmark allen_cahn/vit_sepmo allen_cahn/fno                recipes, side by side
  mondrian benchmark allen_cahn/vit_mo points=[32,64,128] batch_size=4  at several resolutions: points of each axis
  mondrian benchmark allen_cahn/fno allen_cahn/fno model.hidden_channels=64
                                                    a recipe with two widths: overrides belong to the recipe before them
  mondrian benchmark runs/mine                      the model of a run, or of any `save_pretrained`
  mondrian benchmark allen_cahn/fno memory=false    without memory, which takes two more processes per model
  mondrian benchmark allen_cahn/fno --json          as JSON, with device and versions

All models take turns at predictions and training steps (forward, backward, optimiser) on random numbers, for five
rounds or half a minute, and the best time of each counts: ratios are reliable on a busy machine too. With one thread
(OMP_NUM_THREADS=1) processor time is measured, otherwise wall-clock time. Memory is what the first step needs besides
the model and its input. GFLOP/s are those of matrix products in predictions; Fourier transforms are not counted.

  device=cpu|cuda     where (CUDA if there is any)
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from mondrian.benchmark import Candidate, Speed, measure_speeds
from mondrian.evaluation.tables import size
from mondrian.settings.values import Config, Readers, flag, integer, is_integer, read_overrides, select, string
from mondrian.support.device import chosen_device
from mondrian.support.files import json_text
from mondrian.support.text import aligned, memory_text


@dataclass(frozen=True)
class BenchmarkOptions:
    """The overrides `key=value`."""

    points: tuple[int | None, ...] = (None,)
    batch_size: int = 8
    memory: bool = True
    device: str | None = None


def run(arguments: list[str]) -> None:
    """Print a table, or JSON."""
    candidates, options = read([argument for argument in arguments if argument != "--json"])
    device = chosen_device(options.device)
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device={options.device} cannot be measured; needed cpu or cuda")
    speeds, refused = measure_speeds(
        candidates,
        options.points,
        batch_size=options.batch_size,
        device=device,
        memory=options.memory,
        progress=True,
    )
    for what, reason in refused.items():
        print(f"mondrian benchmark: {what} is left out: {reason}", file=sys.stderr)
    if not speeds:
        raise ValueError("no model takes any of the resolutions")
    threads = torch.get_num_threads()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{threads} thread{'s' * (threads > 1)}"
    if "--json" in arguments:
        about = {"torch": torch.__version__, "device": name, "batch_size": options.batch_size}
        print(json_text(about | {"models": [asdict(speed) for speed in speeds]}), end="")
        return
    clock = " of the processor's time" if threads == 1 and device.type == "cpu" else ""
    print(f"batches of {options.batch_size}, samples a second{clock}, torch {torch.__version__}, {name}\n")
    print(table(speeds))


def read(arguments: Sequence[str]) -> tuple[list[Candidate], BenchmarkOptions]:
    """The models, each with the overrides that follow it, and the options of the benchmark."""
    names: list[tuple[str, list[str]]] = []
    own = []
    for argument in arguments:
        key, equals, _ = argument.partition("=")
        if argument.startswith("-"):
            raise ValueError(f"unknown option {argument}; needed --json, --help, a model or key=value")
        if not equals:
            names.append((argument, []))
        elif key in READERS:
            own.append(argument)
        elif not key.lstrip("+~").startswith("model."):
            raise ValueError(f"no setting {key!r}; needed one of {', '.join(sorted(READERS))}, or model.*")
        elif not names:
            raise ValueError(f"{argument} belongs to no recipe; needed one before it")
        else:
            names[-1][1].append(argument)
    if not names:
        raise ValueError("no model is named; needed a recipe of `mondrian models`, or the folder of a run")
    candidates = (Candidate(name, tuple(overrides)) for name, overrides in names)
    return list(dict.fromkeys(candidates)), BenchmarkOptions(**read_overrides(own, READERS))


def table(speeds: Sequence[Speed]) -> str:
    """A row for each model and resolution."""
    head = ["model", "parameters", "points", "predictions/s", "memory", "trained/s", "training memory", "GFLOP/s"]
    rows = [
        [
            speed.name,
            f"{speed.parameters:,}",
            size(speed.points),
            f"{speed.predictions_per_second:.1f}",
            memory_text(speed.prediction_bytes),
            f"{speed.trained_per_second:.1f}",
            memory_text(speed.training_bytes),
            f"{speed.operations_per_second / 1e9:.1f}",
        ]
        for speed in speeds
    ]
    return aligned([head, *rows])


def _points(config: Config, key: str) -> tuple[int, ...]:
    """Points of each axis: one resolution or several."""
    value = select(config, key)
    numbers = tuple(value) if isinstance(value, list) else (value,)
    if not numbers or not all(map(is_integer, numbers)):
        raise ValueError(f"{key}={value} must be points of each axis, for example {key}=64 or {key}=[32,64]")
    return numbers


READERS: Readers = {
    "points": _points,
    "batch_size": integer,
    "memory": flag,
    "device": string,
}
