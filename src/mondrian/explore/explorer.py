"""A trained model and its data that answer questions."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.datasets import WindowDataset
from mondrian.data.splits import Splits
from mondrian.evaluation.parts import check_channels
from mondrian.explore.question import Question
from mondrian.explore.solving import Solver, allowed, at_points, solver_of
from mondrian.grid import Grid
from mondrian.metrics import mean_absolute_error, relative_l2_error
from mondrian.models.maps import AttentionMap, attention_map
from mondrian.prediction.predictor import Predictor
from mondrian.rollout import Advance, field_and_step
from mondrian.support.former import warn_renamed
from mondrian.surrogate import Surrogate, evaluating

Channels = Mapping[str, Float[Tensor, "*space"]]

MOST_POINTS = 2**20  # where they are not stored
MOST_VALUES = 2**23  # of all that is predicted


@dataclass(frozen=True)
class Answer:
    """The input, the prediction and, as far as it is known, the truth, by the names of the channels.

    `unsolved` is the reason if the solver was asked for the truth and failed.
    """

    grid: Grid
    given: Channels
    predicted: Channels
    truth: Channels
    seconds: float  # of the model
    unsolved: str = ""

    @property
    def errors(self) -> dict[str, dict[str, float]]:
        """The errors of each channel whose truth is known."""
        errors = {}
        for name in self.truth:
            pair = self.predicted[name][None, None], self.truth[name][None, None]
            errors[name] = {
                "mae": float(mean_absolute_error(*pair)),
                "relative_l2": float(relative_l2_error(*pair)),
            }
        return errors


@dataclass(frozen=True)
class _Sample:
    """The input, and the truth as far as it is known; `unsolved` is the reason if the solver failed."""

    given: Channels
    truth: Channels
    unsolved: str = ""


class Explorer:
    """Answers questions about the samples of a `split`.

    A page begins at `trained_points`, the resolution of training.
    """

    def __init__(
        self,
        surrogate: Surrogate,
        splits: Splits,
        *,
        split: str = "test",
        name: str = "",
        trained_points: tuple[int, ...] = (),
    ) -> None:
        self.surrogate, self.name, self.trained_points = surrogate, name, trained_points
        made = splits.manifest
        self.stored: dict[tuple[int, ...], WindowDataset] = {
            points: splits.dataset(split, points if made else (), memory=0) for points in splits.resolutions(split)
        }
        self.finest = list(self.stored.values())[-1]
        check_channels(surrogate, self.finest.in_channels, self.finest.out_channels, self.finest.source.name)
        self.problem = None if made is None else made.problem
        self.solver: Solver | str = solver_of(self.problem, self.finest)
        self._last: tuple[Question, _Sample] | None = None

    @property
    def grid(self) -> Grid:
        """The grid of the samples at the finest resolution."""
        return self.finest.grid

    @property
    def in_names(self) -> tuple[str, ...]:
        return self.surrogate.spec.in_names

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The input channels that are numbers."""
        fields = [self.finest.source.field(name) for name in self.finest.window.input]
        return tuple(channel for field in fields if field.is_number for channel in field.channels)

    @cached_property
    def steps_in(self) -> int:
        """The number of frames in the input."""
        return len({step for _, step in map(field_and_step, self.in_names) if step is not None})

    @cached_property
    def rolls_out(self) -> bool:
        """Whether a prediction can be the next input."""
        try:
            Advance(self.in_names, self.surrogate.spec.out_names)
        except ValueError:
            return False
        return True

    def time(self, begins: int, step: int) -> float | None:
        """The time of a channel's step in a sample that begins at a step of its simulation; `None` if it is unknown."""
        times, frame = self.finest.source.times, begins + max(self.steps_in, 1) - 1 + step
        if not self.steps_in or frame < 0 or len(times) < 2:
            return None
        if frame < len(times):
            return float(times[frame])
        return float(times[-1] + (frame - len(times) + 1) * (times[-1] - times[-2]))

    def ask(self, question: Question) -> Answer:
        """The model's prediction, with the truth if it is known."""
        sample = self._sample(question)
        predictor = Predictor(
            self.surrogate, grid=self.grid.with_points(question.points), applications=question.applications
        )
        x = predictor.prepared(_batch(sample.given))
        with evaluating(self.surrogate), torch.no_grad():
            _wait(x)
            began = time.perf_counter()
            y = predictor.answer(x)
            _wait(y)
        seconds = time.perf_counter() - began
        predicted = dict(zip(predictor.out_names, y[0].float().cpu(), strict=True))
        known = {name: values for name, values in sample.truth.items() if name in predicted}
        grid = self.grid.with_points(question.points)
        return Answer(grid, sample.given, predicted, known, seconds, sample.unsolved)

    def attention_map(self, question: Question, at: Sequence[float] | None = None) -> list[AttentionMap]:
        """The attention maps of the first application; with `at` those of the subdomain there."""
        given = self._sample(question).given
        grid = self.grid.with_points(question.points)
        x = Predictor(self.surrogate, grid=grid).prepared(_batch(given))
        with evaluating(self.surrogate):
            return attention_map(self.surrogate, x, grid, at=at)

    def shares(self, question: Question, at: Sequence[float] | None = None) -> list[AttentionMap]:
        """Former name of `attention_map`; it goes with the next release."""
        warn_renamed("Explorer.shares()", "Explorer.attention_map()")
        return self.attention_map(question, at)

    def _sample(self, question: Question) -> _Sample:
        """The sample at the points of the question; the last one is cached."""
        if self._last is None or self._last[0] != question:
            self._check(question)
            self._last = question, self._made(question)
        last = self._last[1]
        given, truth = ({name: values.clone() for name, values in part.items()} for part in (last.given, last.truth))
        return _Sample(given, truth, last.unsolved)

    def _check(self, question: Question) -> None:
        if len(question.points) != self.grid.dim:
            raise ValueError(f"points={question.points} have {len(question.points)} axes; needed {self.grid.dim}")
        count = math.prod(question.points)
        if question.points not in self.stored and count > MOST_POINTS:
            raise ValueError(f"points={question.points} are {count:,}; needed at most {MOST_POINTS:,}, or stored ones")
        solved = question.solve and not isinstance(self.solver, str)  # the solver works at the finest points
        points = max(question.points, self.grid.points, key=math.prod) if solved else question.points
        values = math.prod(points) * len(self.surrogate.spec.out_names) * question.applications
        if question.applications > 1 and values > MOST_VALUES:
            raise ValueError(
                f"applications={question.applications} at points={points} are {values:,} values; needed at most "
                f"{MOST_VALUES:,}"
            )
        if question.applications > 1 and not self.rolls_out:
            raise ValueError(
                f"applications={question.applications}: the prediction of the model cannot be its next input"
            )
        for name, _ in question.numbers:
            if name not in self.numbers:
                known = ", ".join(self.numbers) or "there are none"
                raise ValueError(f"{name!r} is not a number of the input; needed one of: {known}")
        for field in {stroke.field for stroke in question.strokes}:
            self._of_field(field)

    def _made(self, question: Question) -> _Sample:
        given, truth = self._read(question)
        numbers = {name: torch.full_like(given[name], value) for name, value in question.numbers}
        wanted, unsolved = len(self.surrogate.spec.out_names) * question.applications, ""
        if question.solve and (question.changed or len(truth) < wanted):
            if isinstance(self.solver, str):
                raise ValueError(f"solve=True: {self.solver}")
            try:
                known = self._solved(self.solver, question)
            except ValueError as error:  # strokes may be too strong for the solver but not for the model
                unsolved = str(error)
            else:
                return _Sample({name: (given | known | numbers)[name] for name in self.in_names}, known)
        grid = self.grid.with_points(question.points)
        for stroke in question.strokes:
            bump = allowed(self.problem, stroke.field, stroke.on(grid))
            for name in self._of_field(stroke.field):
                given[name] = given[name] + bump
        return _Sample(given | numbers, {} if question.changed else truth, unsolved)

    def _solved(self, solver: Solver, question: Question) -> dict[str, Tensor]:
        """All frames from the first input frame on."""
        first = next(iter(self._window(self.finest, replace(question, applications=1))[0].values()))
        frames = solver.frames(first, self._simulation(self.finest, question), question)
        return solver.at(frames, question.points, stored=question.points in self.stored)

    def _of_field(self, field: str) -> list[str]:
        """The channels of an input field, all its frames."""
        fields = [name for name in self.in_names if name not in self.numbers]
        channels = [name for name in fields if field_and_step(name)[0] == field]
        if not channels:
            known = ", ".join(dict.fromkeys(field_and_step(name)[0] for name in fields)) or "there are none"
            raise ValueError(f"{field!r} is not a field of the input; needed one of: {known}")
        return channels

    def _read(self, question: Question) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The stored sample: at these points if they are stored, otherwise resampled from the finest."""
        dataset = self.stored.get(question.points)
        if dataset is not None:
            return self._window(dataset, question)
        grid = self.grid.with_points(question.points)
        given, truth = self._window(self.finest, question)
        return at_points(given, self.grid, grid), at_points(truth, self.grid, grid)

    def _window(self, dataset: WindowDataset, question: Question) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """A sample with as many true frames as the simulation has."""
        simulation = self._simulation(dataset, question)
        if self.rolls_out and question.applications > 1:
            left = dataset.source.steps[simulation] - self.steps_in - question.step
            frames = min(left, dataset.window.steps_out * question.applications)
            window = replace(dataset.window, steps_out=frames)
            dataset = WindowDataset(dataset.source, window, simulations=(simulation,), memory=0)
        sample = dataset[dataset.index(simulation, question.step)]
        given = dict(zip(dataset.in_channels, sample["x"], strict=True))
        return given, dict(zip(dataset.out_channels, sample["y"], strict=True))

    def _simulation(self, dataset: WindowDataset, question: Question) -> int:
        """The number of the simulation in the files; refused if it or the step does not exist."""
        if not 0 <= question.simulation < len(dataset.simulations):
            raise ValueError(f"simulation={question.simulation} must be from 0 to {len(dataset.simulations) - 1}")
        simulation = dataset.simulations[question.simulation]
        if not 0 <= question.step < (windows := dataset.windows(simulation)):
            raise ValueError(f"step={question.step} must be from 0 to {windows - 1}")
        return simulation


def _batch(channels: Channels) -> Float[Tensor, "1 channel *space"]:
    return torch.stack(list(channels.values()))[None]


def _wait(u: Tensor) -> None:
    """Wait until the device has finished."""
    if u.device.type == "cuda":
        torch.cuda.synchronize(u.device)
