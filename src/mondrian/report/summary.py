"""The summary of a run in a few lines of text."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mondrian.evaluation import Evaluation
from mondrian.report.curves import best, logged
from mondrian.training.run import Run


def summary(run: Run, evaluation: Evaluation | None) -> dict[str, str]:
    """Model, size, data, steps, best validation loss and speed, as far as the run has them."""
    history = run.history()
    steps, least = logged(history, "step")[0], best(history)
    speeds = logged(history, "samples_per_second")[1]
    size = parameters(run)
    lines = {
        "Model": _model(run.facts.get("config")),
        "Parameters": "" if size is None else f"{size:,}",
        "Data": learned(run),
        "Steps": f"{int(steps[-1]):,}" if len(steps) else "none yet",
        "Best validation loss": f"{number(least[1])} at step {least[0]:,}" if least else "",
        "Speed": f"{_speed(float(np.median(speeds)))} samples per second" if len(speeds) else "",
        "Evaluated on": f"{evaluation.simulations:,} simulations ({evaluation.split})" if evaluation else "",
    }
    return {name: text for name, text in lines.items() if text}


def parameters(run: Run) -> int | None:
    """The number of parameters, if `run.json` has it."""
    count = run.facts.get("parameters")
    return count if isinstance(count, int) else None


def learned(run: Run) -> str:
    """The data and the operator that is learned: `data/ac: u, gamma → u`, or with two frames `data/ns: 2 w → 2 w`."""
    data = run.facts.get("data")
    files = data.get("files") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(files, Mapping):
        return ""
    window = data.get("window", data)  # data on meshes have none
    sides = []
    for side, steps in (("input", "steps_in"), ("target", "steps_out")):
        many = f"{window[steps]} " if window.get(steps, 1) > 1 else ""
        sides.append(many + ", ".join(map(str, window.get(side, ()))))
    return f"{os.path.normpath(files['path'])}: {' → '.join(sides)}"


def part_of(evaluation: Evaluation) -> tuple[str, str, int]:
    """What two evaluations must share to be compared: data set, split and number of simulations."""
    return str(Path(evaluation.data).resolve()), evaluation.split, evaluation.simulations


def evaluated_on(run: Run, evaluation: Evaluation) -> str:
    """The samples that errors are means over: `8 test simulations`, and their data if the run had other data."""
    meshes = any(entry.part for entry in evaluation.one_step)
    samples = f"{evaluation.split} meshes" if meshes else f"{evaluation.simulations:,} {evaluation.split} simulations"
    own = run.facts.get("data", {}).get("files", {}).get("path", evaluation.data)
    same = Path(own).resolve() == Path(evaluation.data).resolve()
    return samples if same else f"{samples} of {os.path.normpath(evaluation.data)}"


def labels(runs: Sequence[Run]) -> list[str]:
    """The name of each run, followed by its folder if several runs have the same name."""
    names = [run.name for run in runs]
    full = [name if names.count(name) == 1 else f"{name} ({run.folder})" for name, run in zip(names, runs, strict=True)]
    for number, label in enumerate(full):
        if label in full[:number]:
            raise ValueError(f"{runs[number].folder} is given twice; needed different runs")
    return full


def settings(run: Run) -> dict[str, dict[str, str]]:
    """The content of `run.json` by dotted names: overrides, configuration, data set, versions."""
    parts = {name: part for name, part in run.facts.items() if name not in ("name", "parameters") and part}
    flat = {"overrides" if name == "words" else name: dict(_flat(part)) for name, part in parts.items()}
    return {"folder": {"": Path(run.folder).as_posix()}, **flat}


def number(value: float) -> str:
    """Three significant digits, whole numbers of up to nine digits in full; a dash for undefined values.

    >>> number(12345.0), number(2.4348e24), number(0.04567), number(math.inf), number(math.nan)
    ('12,345', '2.43e+24', '0.0457', '∞', '–')
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 and value == round(value) else f"{value:.3g}"


def slug(text: str) -> str:
    """Letters, digits and dashes, for names of files and anchors."""
    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-") or "run"


def _speed(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else number(rate)


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        return [pair for key, part in value.items() for pair in _flat(part, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, list) and (not prefix or any(isinstance(part, Mapping) for part in value)):
        return [pair for number, part in enumerate(value) for pair in _flat(part, f"{prefix}[{number}]")]
    return [(prefix, "none" if value is None else str(value))]


def _model(config: Any) -> str:
    model = config.get("model") if isinstance(config, Mapping) else None
    if not isinstance(model, Mapping):
        return ""
    parts = [_kind(model), _kind(model.get("operator"))]
    counts = model.get("subdomains")
    if isinstance(counts, list):
        parts.append(" × ".join(map(str, counts)) + " subdomains")
    return ", ".join(part for part in parts if part)


def _kind(part: Any) -> str:
    if not isinstance(part, Mapping):
        return ""
    return str(part.get("spec") or part.get("_target_") or "").rpartition(".")[2]
