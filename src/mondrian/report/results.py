"""What `mondrian evaluate` wrote, read back: numbers of `metrics.json`, arrays of `fields.npz`."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mondrian.grid import Grid
from mondrian.spec import Spec

FORMAT = 1
Points = tuple[int, ...]
Place = tuple[str, Points]  # on meshes the part of the data set, and what its errors belong to


@dataclass(frozen=True)
class Estimate:
    """A mean over test simulations and its bootstrap interval; NaN where it could not be measured."""

    mean: float
    low: float
    high: float

    @classmethod
    def read(cls, value: Mapping[str, Any] | None) -> Estimate:
        if value is None:
            return cls(math.nan, math.nan, math.nan)
        return cls(*(math.nan if value[name] is None else float(value[name]) for name in ("mean", "low", "high")))


@dataclass(frozen=True)
class Band:
    """Relative error between two wavenumbers."""

    low: float
    high: float
    error: Estimate


@dataclass(frozen=True)
class Spectrum:
    """Energy a shell of wavenumbers, and the error of bands of them."""

    wavenumber: Float[np.ndarray, " shell"]
    truth: Float[np.ndarray, " shell"]
    prediction: Float[np.ndarray, " shell"]
    error: Float[np.ndarray, " shell"]
    bands: tuple[Band, ...]

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Spectrum | None:
        spectrum = entry.get("spectrum")
        if spectrum is None:
            return None
        wavenumber, truth, prediction, error = (
            np.array(spectrum[name], dtype=float) for name in ("wavenumber", "truth", "prediction", "error")
        )
        bands = [
            Band(
                float(band["low"]),
                math.inf if band["high"] is None else float(band["high"]),
                Estimate.read(band["relative_error"]),
            )
            for band in entry.get("bands") or ()
        ]
        return cls(wavenumber, truth, prediction, error, tuple(bands))


@dataclass(frozen=True)
class OneStep:
    """Errors at one resolution, of the model and of the two forecasts that know nothing."""

    points: Points
    samples: int
    model: Mapping[str, Estimate]
    persistence: Mapping[str, Estimate] | None
    training_mean: Mapping[str, Estimate] | None
    spectrum: Spectrum | None
    part: str = ""

    @property
    def place(self) -> Place:
        return self.part, self.points

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> OneStep:
        metrics = [
            None if entry.get(name) is None else {key: Estimate.read(value) for key, value in entry[name].items()}
            for name in ("model", "persistence", "training_mean")
        ]
        points, samples = tuple(map(int, entry["points"])), int(entry["samples"])
        spectrum, part = Spectrum.read(entry), str(entry.get("part", ""))
        return cls(points, samples, metrics[0] or {}, metrics[1], metrics[2], spectrum, part)


@dataclass(frozen=True)
class Rollout:
    """Errors against time at one resolution, the model fed with its own output."""

    points: Points
    simulations: int
    times: tuple[float, ...]
    horizon: int
    curves: Mapping[str, tuple[Estimate, ...]]
    mean_relative_l2: Estimate
    correlation_time: Estimate
    spectrum: Spectrum | None

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Rollout:
        times = tuple(map(float, entry["times"]))
        curves = {
            name: tuple(Estimate.read(value) for value in entry[name])
            for name in ("mae", "relative_l2", "correlation")
            if name in entry
        }
        for name, curve in curves.items():
            if len(curve) != len(times):
                raise ValueError(f"rollout has {len(curve)} values of {name} for {len(times)} times")
        return cls(
            tuple(map(int, entry["points"])),
            int(entry["simulations"]),
            times,
            int(entry["horizon"]),
            curves,
            Estimate.read(entry.get("mean_relative_l2")),
            Estimate.read(entry.get("correlation_time")),
            Spectrum.read(entry),
        )


@dataclass(frozen=True)
class Metrics:
    """The content of `metrics.json`."""

    split: str
    simulations: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    one_step: tuple[OneStep, ...]
    rollout: tuple[Rollout, ...]

    @classmethod
    def load(cls, file: Path) -> Metrics:
        """Read `metrics.json`; `ValueError` naming the file where it is damaged or of another format."""
        try:
            content = json.loads(file.read_text())
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{file} cannot be read: {error}; {_again(file)}") from error
        found = content.get("format") if isinstance(content, dict) else None
        if found != FORMAT:
            raise ValueError(f"{file} has format={found}; needed {FORMAT}, and {_again(file)}")
        try:
            return cls(
                str(content["split"]),
                int(content["simulations"]),
                tuple(map(str, content["channels"]["in"])),
                tuple(map(str, content["channels"]["out"])),
                tuple(map(OneStep.read, content["one_step"])),
                tuple(map(Rollout.read, content["rollout"])),
            )
        except KeyError as error:
            raise ValueError(f"{file} has no {error}; {_again(file)}") from error
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is damaged: {error}; {_again(file)}") from error


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
            raise ValueError(f"{file} has no {error}; {_again(file)}") from error
        except (OSError, EOFError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{file} cannot be read: {error}; {_again(file)}") from error


def in_order(places: Iterable[Place]) -> list[Place]:
    """The different ones, coarsest first."""
    return sorted(set(places), key=lambda place: (math.prod(place[1]), place))


def name_of(place: Place) -> str:
    """A resolution, and of meshes the part that has it."""
    part, points = place
    return f"{part}, {size(points)}" if part else size(points)


def size(points: Points) -> str:
    """`(32, 32)` as it is read: `32 × 32`."""
    return " × ".join(map(str, points))


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
        raise ValueError(f"{names[-1]} has shape {found[-1].shape}, {names[-2]} {found[-2].shape} at {size(points)}")
    return found


def _key(points: Points, name: str) -> str:
    return f"{'x'.join(map(str, points))}/{name}"


def _again(file: Path) -> str:
    return f"`mondrian evaluate {file.parent.parent}` writes it anew"
