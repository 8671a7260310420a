"""Messages between the page and the explorer as JSON; fields are float32 in base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mondrian.drawing.planes import ERROR, ONE_SIGNED, SIGNED, Limits
from mondrian.evaluation.pictures import cuts_of
from mondrian.explore.explorer import Answer, Channels, Explorer
from mondrian.explore.question import Question
from mondrian.rollout import field_and_step


def about(explorer: Explorer) -> dict[str, Any]:
    """The model and its data: everything that the controls of the page need."""
    spec, dataset = explorer.surrogate.spec, explorer.finest
    first = dict(zip(dataset.in_channels, dataset[0]["x"], strict=True))
    inputs = [name for name in explorer.in_names if name not in explorer.numbers]
    return {
        "name": explorer.name,
        "model": type(explorer.surrogate.model).__name__,
        "parameters": sum(weight.numel() for weight in explorer.surrogate.parameters()),
        "extent": explorer.grid.extent,
        "origin": explorer.grid.origin,
        "periodic": explorer.grid.periodic,
        "resolutions": list(explorer.stored),
        "trained": explorer.trained_points,
        "windows": [dataset.windows(number) for number in dataset.simulations],
        "fields": {field_and_step(name)[0]: float(first[name].std(correction=0)) or 1.0 for name in inputs},
        "outputs": list(dict.fromkeys(field_and_step(name)[0] for name in spec.out_names)),
        "steps_out": dataset.window.steps_out,
        "numbers": _numbers(explorer),
        "rolls_out": explorer.rolls_out,
        "unsolved": explorer.solver if isinstance(explorer.solver, str) else "",
        "cuts": cuts_of(explorer.surrogate, explorer.grid),
        "colours": {each.name: _colours(each) for each in (SIGNED, ONE_SIGNED, ERROR)},
    }


def answered(explorer: Explorer, content: Any) -> dict[str, Any]:
    """The answer to a question."""
    question = Question.read(content)
    answer = explorer.ask(question)
    fields = {name: values for name, values in answer.given.items() if name not in explorer.numbers}
    steps = {name: field_and_step(name)[1] for name in (*fields, *answer.predicted)}
    times = {name: explorer.time(question.step, step) for name, step in steps.items() if step is not None}
    return {
        "points": answer.grid.points,
        "given": {name: _encoded(values) for name, values in fields.items()},
        "predicted": {name: _encoded(values) for name, values in answer.predicted.items()},
        "truth": {name: _encoded(values) for name, values in answer.truth.items()},
        "numbers": {name: float(answer.given[name].flatten()[0]) for name in explorer.numbers},
        "times": {name: when for name, when in times.items() if when is not None},
        "unsolved": answer.unsolved,
        "errors": answer.errors,
        "limits": _limits(answer, fields),
        "seconds": answer.seconds,
    }


def attention(explorer: Explorer, content: Any) -> dict[str, Any]:
    """For each block and head, how much the subdomain at a position attends to the others."""
    if not isinstance(content, Mapping) or set(content) != {"question", "at"}:
        raise ValueError("needed a question, and at: a position as fractions of the domain")
    at = content["at"]
    if not isinstance(at, list) or not all(isinstance(part, int | float) for part in at):
        raise ValueError(f"at={at!r} must be a list of numbers, one for each axis")
    maps = explorer.attention_map(Question.read(content["question"]), at)
    return {
        "blocks": [
            {
                "name": each.block.removeprefix("model."),
                "moved": any(each.start),
                "boxes": each.boxes.tolist(),
                "subdomain": each.at(at),
                "weights": [_encoded(weights) for weights in each.weights[0, :, 0].cpu()],
            }
            for each in maps
        ]
    }


def _numbers(explorer: Explorer) -> list[dict[str, Any]]:
    """The numbers of the input, with their range in the data."""
    spec, source = explorer.surrogate.spec, explorer.finest.source
    logarithms = {name: scale.log for name, scale in zip(spec.in_names, spec.in_scales, strict=True)}
    fields = [source.field(name) for name in explorer.finest.window.input]
    return [
        {"name": channel, "low": float(values.min()), "high": float(values.max()), "log": logarithms[channel]}
        for field in fields
        if field.is_number
        for channel, values in zip(field.channels, np.moveaxis(field.numbers(), 2, 0), strict=True)
    ]


def _limits(answer: Answer, given: Channels) -> dict[str, dict[str, dict[str, Any]]]:
    """The limits of the colour scales: of each input field, of truth and prediction together, and of errors.

    Prediction and truth share the limits of the truth; in one dimension the lines of both must fit.
    """
    wrong = {name: (answer.predicted[name] - truth).abs() for name, truth in answer.truth.items()}
    shown = _by_field(answer.predicted)
    for field, values in _by_field(answer.truth).items():
        shown[field] = [*shown[field], *values] if answer.grid.dim == 1 else values
    return {
        "given": {field: _ends(Limits.of(values)) for field, values in _by_field(given).items()},
        "predicted": {field: _ends(Limits.of(values)) for field, values in shown.items()},
        "error": {field: _ends(Limits.of_errors(values)) for field, values in _by_field(wrong).items()},
    }


def _by_field(channels: Channels) -> dict[str, list[np.ndarray]]:
    """All frames of each field."""
    fields: dict[str, list[np.ndarray]] = {}
    for name, values in channels.items():
        fields.setdefault(field_and_step(name)[0], []).append(values.numpy())
    return fields


def _ends(limits: Limits) -> dict[str, Any]:
    return {"low": limits.low, "high": limits.high, "beyond": limits.beyond, "colours": limits.map.name}


def _colours(colours: Any) -> str:
    """256 colours as bytes of red, green and blue."""
    levels = colours(np.linspace(0, 1, 256), bytes=True)[:, :3]
    return base64.b64encode(np.ascontiguousarray(levels).tobytes()).decode()


def _encoded(values: Tensor) -> str:
    return base64.b64encode(np.ascontiguousarray(values.to(torch.float32).numpy(), dtype="<f4").tobytes()).decode()
