"""Errors of a model on meshes that it has not seen, each weighted by what its vertices stand for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from tqdm import tqdm

from mondrian.data.meshes.files import Meshes, MeshSample, MeshSplits, places_of
from mondrian.evaluation.batches import at_rest
from mondrian.evaluation.entries import FieldErrors, OneStep
from mondrian.evaluation.one_step import METRICS, OF_FIELDS
from mondrian.evaluation.results import Evaluation
from mondrian.evaluation.statistics import summary
from mondrian.surrogate import MeshSurrogate

PICTURES = 3  # meshes of each part that are kept for pictures


def evaluate_meshes(
    surrogate: MeshSurrogate,
    splits: MeshSplits,
    *,
    split: str = "test",
    simulations: int | None = None,
    progress: bool = False,
    name: str = "",
) -> Evaluation:
    """Measure a surrogate on every part whose name begins with `split`, the coarsest meshes first.

    Beside it stands the mean of the training targets, a constant for each channel, where there is a part `train`.
    """
    parts = {part: splits.meshes(part, memory=0) for part in splits.parts(split)}
    for meshes in parts.values():
        _check_channels(surrogate, meshes)
    mean = _training_mean(splits, progress=progress) if "train" in splits.names() else None
    steps: list[OneStep] = []
    fields: dict[str, Shaped[np.ndarray, "..."]] = {}
    with at_rest(surrogate):
        for part, meshes in parts.items():
            step, kept = _one_part(surrogate, meshes, mean, part, simulations, progress=progress)
            steps.append(step)
            fields |= kept
    return Evaluation(
        run=name,
        data=splits.files.path,
        split=split,
        simulations=sum(step.samples for step in steps),
        seed=0,
        in_channels=surrogate.spec.in_names,
        out_channels=surrogate.spec.out_names,
        one_step=tuple(sorted(steps, key=lambda step: (step.points, step.part))),
        fields=fields,
    )


def errors(
    prediction: Float[Tensor, "channel point"],
    truth: Float[Tensor, "channel point"],
    weights: Float[Tensor, " point"],
) -> dict[str, float]:
    r"""Errors over the domain, the mean over channels: $\int |e|$, $\int e^2$, $\|e\| / \|t\|$, $\max |e|$.

    Integrals are divided by the measure of the domain. A prediction that is not finite has infinite errors; channels
    whose truth vanishes have no relative one, and NaN is that of a function that vanishes altogether.

    >>> errors(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]), torch.tensor([3.0, 1.0]))["mae"]
    1.25
    """
    prediction, truth, weights = prediction.double(), truth.double(), weights.double()
    if not bool(torch.isfinite(prediction).all()):
        return dict.fromkeys(METRICS, math.inf)
    share = weights / weights.sum()
    error = prediction - truth
    square, size = ((function.square() * share).sum(dim=1) for function in (error, truth))
    return {
        "mae": float((error.abs() * share).sum(dim=1).mean()),
        "mse": float(square.mean()),
        "relative_l2": float(torch.where(size == 0, math.nan, square / size).sqrt().nanmean()),
        "maximum": float(error.abs().amax(dim=1).mean()),
    }


def _one_part(
    surrogate: MeshSurrogate,
    meshes: Meshes,
    mean: Float[Tensor, " channel"] | None,
    part: str,
    simulations: int | None,
    *,
    progress: bool,
) -> tuple[OneStep, dict[str, Shaped[np.ndarray, "..."]]]:
    count = len(meshes) if simulations is None else simulations
    if not 0 < count <= len(meshes):
        raise ValueError(f"simulations={count} are wanted; {part} of {meshes.splits.files.path} has {len(meshes)}")
    several = _several_fields(surrogate)
    groups = {"": list(range(len(meshes.out_channels))), **several}
    found: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    vertices: list[int] = []
    fields: dict[str, Shaped[np.ndarray, "..."]] = {}
    for number in tqdm(range(count), desc=part, unit="mesh", disable=None if progress else True, leave=False):
        sample = meshes[number]
        answer, weights = surrogate.at_vertices(sample.x, sample.points, name=sample.name), sample.points.weights
        assert weights is not None
        guesses = {"model": answer}
        if mean is not None:
            guesses["training_mean"] = mean[:, None].expand_as(sample.y)
        for kind, guess in guesses.items():
            for field, places in groups.items():
                found[kind, field].append(errors(guess[places], sample.y[places], weights))
        vertices.append(sample.points.size)
        if number < PICTURES:
            fields |= _fields(surrogate, sample, answer, f"{part}/{number}")
    points = (round(sum(vertices) / len(vertices)),)

    def sides(field: str, metrics: Iterable[str]) -> dict[str, Any]:
        known = {
            kind: {metric: summary(np.array([row[metric] for row in found[kind, field]])) for metric in metrics}
            for kind in guesses
        }
        return {kind: known.get(kind) for kind in ("model", "persistence", "training_mean")}

    by_field = {field: FieldErrors(**sides(field, OF_FIELDS)) for field in several} or None
    step = OneStep(points, count, **sides("", METRICS), spectrum=None, bands=(), part=part, by_field=by_field)
    return step, fields


def _several_fields(surrogate: MeshSurrogate) -> dict[str, list[int]]:
    """The channels of each predicted field, its components together; nothing where there is one field."""
    spec = surrogate.spec
    return places_of(spec.out_names, spec.targets) if len(spec.targets) > 1 else {}


def _fields(
    surrogate: MeshSurrogate, sample: MeshSample, answer: Tensor, place: str
) -> Mapping[str, Shaped[np.ndarray, "..."]]:
    """What a picture of one mesh needs."""
    members = surrogate.points_model.spec.partition.cut(sample.points).members
    arrays = {
        "vertices": sample.mesh.vertices, "simplices": sample.mesh.simplices, "cells": members,
        "input": sample.x, "truth": sample.y, "prediction": answer,
    }  # fmt: skip
    return {f"{place}/{name}": values.numpy() for name, values in arrays.items()}


def _training_mean(splits: MeshSplits, *, progress: bool) -> Float[Tensor, " channel"]:
    meshes = splits.meshes("train", memory=0)
    total, measure = torch.zeros(len(meshes.out_channels), dtype=torch.float64), 0.0
    numbers = range(len(meshes))
    for number in tqdm(numbers, desc="training mean", unit="mesh", disable=None if progress else True, leave=False):
        sample = meshes[number]
        weights = sample.points.weights
        assert weights is not None
        total += (sample.y.double() * weights).sum(dim=1)
        measure += float(weights.sum())
    return total / measure


def _check_channels(surrogate: MeshSurrogate, meshes: Meshes) -> None:
    spec = surrogate.spec
    for side, found, needed in (
        ("input", meshes.in_channels, spec.in_names),
        ("target", meshes.out_channels, spec.out_names),
    ):
        if found != needed:
            raise ValueError(
                f"{meshes.splits.files.path} gives {side} channels ({', '.join(found)}); needed ({', '.join(needed)})"
            )
