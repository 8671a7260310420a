"""The entries of an evaluation: errors of one application, errors of rollouts, and their spectra."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mondrian.evaluation.statistics import Summary

Resolution = tuple[str, tuple[int, ...]]  # its points, after the part of the data set (for meshes; otherwise empty)


@dataclass(frozen=True)
class Spectrum:
    """The energy of truth, prediction and error in each shell of wavenumbers, averaged over samples."""

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
    """Errors of one predicted field in its own units, averaged over its frames."""

    model: Mapping[str, Summary]
    persistence: Mapping[str, Summary] | None
    training_mean: Mapping[str, Summary] | None


@dataclass(frozen=True)
class OneStep:
    """Errors of one application at one resolution: of the model, the persistence and the training-mean baseline.

    Errors are means over all channels, whatever their units; with several fields, `by_field` has the errors of each.
    On meshes, `points` is the mean number of vertices and `part` the part of the data set; there is no spectrum.
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
    def resolution(self) -> Resolution:
        """The part of the data set and the points that the errors belong to."""
        return self.part, self.points


@dataclass(frozen=True)
class Trajectories:
    """Errors of a rollout from the first frames of each simulation.

    `start` is the time of the last input frame, `times` are those of the predicted frames, and `correlation_time` is
    the time at which the correlation has fallen to 0.8. Spectrum and bands are those of the last frame. `diverged`
    counts simulations that did not stay finite: from then on their errors are infinite and their correlation is 0.
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
