"""The arrays of `fields.npz`, which `mondrian evaluate` writes."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from mondrian.evaluation.results import again
from mondrian.evaluation.tables import size
from mondrian.grid import Grid
from mondrian.support.spec import Spec

Points = tuple[int, ...]


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """All arrays by name; a `ValueError` names a damaged file."""
    try:
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{file} cannot be read: {error}; {again(file)}") from error


@dataclass(frozen=True)
class Samples:
    """A few samples at one resolution: (sample, channel, *space)."""

    input: Float[np.ndarray, "sample in_channel *space"]
    truth: Float[np.ndarray, "sample out_channel *space"]
    prediction: Float[np.ndarray, "sample out_channel *space"]


@dataclass(frozen=True)
class Frames:
    """A few rollouts at one resolution: (sample, time, channel, *space)."""

    times: Float[np.ndarray, " time"]
    truth: Float[np.ndarray, "sample time channel *space"]
    prediction: Float[np.ndarray, "sample time channel *space"]


@dataclass(frozen=True)
class Fields:
    """The content of `fields.npz` for fields on grids, coarsest resolution first."""

    grid: Grid
    subdomains: tuple[int, ...]
    one_step: Mapping[Points, Samples]
    rollout: Mapping[Points, Frames]

    @classmethod
    def load(cls, file: Path) -> Fields:
        """Read `fields.npz`; a `ValueError` names a damaged file."""
        arrays = read_arrays(file)
        try:
            grid = Spec.from_json(json.loads(str(arrays["grid"])))
            names = {name.partition("/")[0] for name in arrays if "/" in name}
            resolutions = sorted((tuple(map(int, name.split("x"))) for name in names), key=math.prod)
            if not isinstance(grid, Grid):
                raise ValueError(f"grid={grid} is no Grid")
            return cls(
                grid,
                tuple(int(count) for count in arrays["subdomains"]),
                {points: _samples(arrays, points, grid) for points in resolutions if _key(points, "truth") in arrays},
                {
                    points: _frames(arrays, points, grid)
                    for points in resolutions
                    if _key(points, "rollout_truth") in arrays
                },
            )
        except KeyError as error:
            raise ValueError(f"{file} has no {error}; {again(file)}") from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"{file} cannot be read: {error}; {again(file)}") from error


def _samples(arrays: Mapping[str, np.ndarray], points: Points, grid: Grid) -> Samples:
    return Samples(*_checked(arrays, points, ("input", "truth", "prediction"), 2, grid))


def _frames(arrays: Mapping[str, np.ndarray], points: Points, grid: Grid) -> Frames:
    truth, prediction = _checked(arrays, points, ("rollout_truth", "rollout_prediction"), 3, grid)
    times = arrays[_key(points, "rollout_times")].astype(float)
    if len(times) != truth.shape[1]:
        raise ValueError(f"{_key(points, 'rollout_times')} has {len(times)} times for {truth.shape[1]} frames")
    return Frames(times, truth, prediction)


def _checked(
    arrays: Mapping[str, np.ndarray], points: Points, names: Sequence[str], leading: int, grid: Grid
) -> list[np.ndarray]:
    chosen = [arrays[_key(points, name)].astype(float) for name in names]
    for name, array in zip(names, chosen, strict=True):
        if len(points) != grid.dim or array.shape[leading:] != points or len(array) != len(chosen[0]):
            raise ValueError(f"{_key(points, name)} has shape {array.shape} on a grid of {grid.dim} axes")
    truth, prediction = chosen[-2:]
    if prediction.shape != truth.shape:
        raise ValueError(f"{names[-1]} has shape {prediction.shape}, {names[-2]} {truth.shape} at {size(points)}")
    return chosen


def _key(points: Points, name: str) -> str:
    return f"{'x'.join(map(str, points))}/{name}"
