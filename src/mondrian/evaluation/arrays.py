"""The arrays that `mondrian evaluate` wrote to `fields.npz`, read back."""

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
from mondrian.grid import Grid
from mondrian.support.spec import Spec

Points = tuple[int, ...]


@dataclass(frozen=True)
class Samples:
    """A few samples at one resolution: (sample, channel, *space)."""

    input: Float[np.ndarray, "sample in_channel *space"]
    truth: Float[np.ndarray, "sample out_channel *space"]
    prediction: Float[np.ndarray, "sample out_channel *space"]


@dataclass(frozen=True)
class Frames:
    """A few simulations rolled out at one resolution: (sample, time, channel, *space)."""

    times: Float[np.ndarray, " time"]
    truth: Float[np.ndarray, "sample time channel *space"]
    prediction: Float[np.ndarray, "sample time channel *space"]


@dataclass(frozen=True)
class Fields:
    """The content of `fields.npz`; resolutions coarsest first."""

    grid: Grid
    subdomains: tuple[int, ...]
    one_step: Mapping[Points, Samples]
    rollout: Mapping[Points, Frames]

    @classmethod
    def load(cls, file: Path) -> Fields:
        """Read `fields.npz`; `ValueError` naming the file where it is damaged."""
        try:
            with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
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
        except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{file} cannot be read: {error}; {again(file)}") from error


def _samples(arrays: Mapping[str, np.ndarray], points: Points, grid: Grid) -> Samples:
    fields = _shaped(arrays, points, ("input", "truth", "prediction"), 2, grid)
    return Samples(*fields)


def _frames(arrays: Mapping[str, np.ndarray], points: Points, grid: Grid) -> Frames:
    truth, prediction = _shaped(arrays, points, ("rollout_truth", "rollout_prediction"), 3, grid)
    times = arrays[_key(points, "rollout_times")].astype(float)
    if len(times) != truth.shape[1]:
        raise ValueError(f"{_key(points, 'rollout_times')} has {len(times)} times for {truth.shape[1]} frames")
    return Frames(times, truth, prediction)


def _shaped(
    arrays: Mapping[str, np.ndarray], points: Points, names: Sequence[str], leading: int, grid: Grid
) -> list[np.ndarray]:
    found = [arrays[_key(points, name)].astype(float) for name in names]
    for name, array in zip(names, found, strict=True):
        if len(points) != grid.dim or array.shape[leading:] != points or len(array) != len(found[0]):
            raise ValueError(f"{_key(points, name)} has shape {array.shape} on a grid of {grid.dim} axes")
    if found[-1].shape != found[-2].shape:
        raise ValueError(
            f"{names[-1]} has shape {found[-1].shape}, {names[-2]} {found[-2].shape} at {' × '.join(map(str, points))}"
        )
    return found


def _key(points: Points, name: str) -> str:
    return f"{'x'.join(map(str, points))}/{name}"
