"""The parts of an evaluation: errors of one application, errors over time, and how they are spread over wavenumbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mondrian.evaluation.statistics import Summary

Place = tuple[str, tuple[int, ...]]  # the part of the data set, of meshes alone, and the resolution


@dataclass(frozen=True)
class Spectrum:
    """Energy in each shell of wavenumbers, of the truth, the prediction and their difference; mean over samples."""

    wavenumber: tuple[float, ...]
    truth: tuple[float, ...]
    prediction: tuple[float, ...]
    error: tuple[float, ...]

    def __post_init__(self) -> None:
        shells = len(self.wavenumber)
        for name in ("truth", "prediction", "error"):
            if len(getattr(self, name)) != shells:
                raise ValueError(f"spectrum has {len(getattr(self, name))} values of {name} for {shells} wavenumbers")


@dataclass(frozen=True)
class Band:
    """The relative error between two wavenumbers."""

    low: float
    high: float
    relative_error: Summary


@dataclass(frozen=True)
class FieldErrors:
    """Errors of one predicted field, in its own units, the mean over its frames."""

    model: Mapping[str, Summary]
    persistence: Mapping[str, Summary] | None
    training_mean: Mapping[str, Summary] | None


@dataclass(frozen=True)
class OneStep:
    """Errors of one application at one resolution, of the model and of the forecasts without learning.

    They are means over all channels, whatever their units; where there are several fields `by_field` has those of each.
    On meshes `points` is their mean number of vertices, `part` the part of the data set, and there is no spectrum.
    """

    points: tuple[int, ...]
    samples: int
    model: Mapping[str, Summary]
    persistence: Mapping[str, Summary] | None
    training_mean: Mapping[str, Summary] | None
    spectrum: Spectrum | None
    bands: tuple[Band, ...]
    part: str = ""
    by_field: Mapping[str, FieldErrors] | None = None

    @property
    def place(self) -> Place:
        """What the errors belong to."""
        return self.part, self.points


@dataclass(frozen=True)
class Trajectories:
    """Errors of a rollout from the first frames of each simulation.

    `start` is the time of the last frame that was given, `times` are those of the predicted ones, and
    `correlation_time` is when the correlation has fallen to 0.8. Spectrum and bands belong to the last frame.
    `diverged` simulations did not stay finite: from then on their errors are infinite and their correlation is 0.
    """

    points: tuple[int, ...]
    simulations: int
    horizon: int
    start: float
    times: tuple[float, ...]
    diverged: int
    mae: tuple[Summary, ...]
    relative_l2: tuple[Summary, ...]
    correlation: tuple[Summary, ...]
    mean_relative_l2: Summary
    correlation_time: Summary
    spectrum: Spectrum
    bands: tuple[Band, ...]

    def __post_init__(self) -> None:
        for name in ("mae", "relative_l2", "correlation"):
            if len(getattr(self, name)) != len(self.times):
                raise ValueError(f"rollout has {len(getattr(self, name))} values of {name} for {len(self.times)} times")
