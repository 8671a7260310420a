"""A trained model and its data, asked one question after the other."""

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
from mondrian.surrogate import Surrogate, evaluating

Channels = Mapping[str, Float[Tensor, "*space"]]

MOST_POINTS = 2**20  # where they are not stored
MOST_VALUES = 2**23  # of all that is predicted


@dataclass(frozen=True)
class Answer:
    """Channels by their names: what the model was given, what it says, and what is true as far as that is known.

    `unsolved` is why the solver, which was asked for the truth, has none.
    """

    grid: Grid
    given: Channels
    predicted: Channels
    truth: Channels
    seconds: float  # that the model took
    unsolved: str = ""

    @property
    def errors(self) -> dict[str, dict[str, float]]:
        """Of each channel whose truth is known."""
        found = {}
        for name in self.truth:
            pair = self.predicted[name][None, None], self.truth[name][None, None]
            found[name] = {
                "mae": float(mean_absolute_error(*pair)),
                "relative_l2": float(relative_l2_error(*pair)),
            }
        return found


@dataclass(frozen=True)
class _Sample:
    """What the model is given, and the truth as far as it is known; `unsolved` is why the solver has none."""

    given: Channels
    truth: Channels
    unsolved: str = ""


class Explorer:
    """Answers what `Question` asks. `split` is the part of the data that samples come from.

    `trained_points`, the resolution of training, is what a page begins with.
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
        """The box of the samples, with the points of the finest."""
        return self.finest.grid

    @property
    def in_names(self) -> tuple[str, ...]:
        return self.surrogate.spec.in_names

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        """The channels of the input that are one number."""
        fields = [self.finest.source.field(name) for name in self.finest.window.input]
        return tuple(channel for field in fields if field.is_number for channel in field.channels)

    @cached_property
    def steps_in(self) -> int:
        """Frames that the model is given."""
        return len({step for _, step in map(field_and_step, self.in_names) if step is not None})

    @cached_property
    def rolls_out(self) -> bool:
        """Whether what it predicts can be what it is given next."""
        try:
            Advance(self.in_names, self.surrogate.spec.out_names)
        except ValueError:
            return False
        return True

    def time(self, begins: int, step: int) -> float | None:
        """When a channel's step is, of a sample that begins at a step of its simulation; None where nobody knows."""
        times, place = self.finest.source.times, begins + max(self.steps_in, 1) - 1 + step
        if not self.steps_in or place < 0 or len(times) < 2:
            return None
        if place < len(times):
            return float(times[place])
        return float(times[-1] + (place - len(times) + 1) * (times[-1] - times[-2]))

    def ask(self, question: Question) -> Answer:
        """The model's answer, beside the truth where there is one."""
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

    def shares(self, question: Question, at: Sequence[float] | None = None) -> list[AttentionMap]:
        """Who looks at whom in the first application; with `at` how the subdomain there looks."""
        given = self._sample(question).given
        grid = self.grid.with_points(question.points)
        x = Predictor(self.surrogate, grid=grid).prepared(_batch(given))
        with evaluating(self.surrogate):
            return attention_map(self.surrogate, x, grid, at=at)

    def _sample(self, question: Question) -> _Sample:
        """The sample at the points of the question; that of the last one is kept."""
        if self._last is None or self._last[0] != question:
            self._check(question)
            self._last = question, self._made(question)
        kept = self._last[1]
        given, truth = ({name: values.clone() for name, values in part.items()} for part in (kept.given, kept.truth))
        return _Sample(given, truth, kept.unsolved)

    def _check(self, question: Question) -> None:
        if len(question.points) != self.grid.dim:
            raise ValueError(f"points={question.points} have {len(question.points)} axes; needed {self.grid.dim}")
        count = math.prod(question.points)
        if question.points not in self.stored and count > MOST_POINTS:
            raise ValueError(f"points={question.points} are {count:,}; needed at most {MOST_POINTS:,}, or stored ones")
        solved = question.solve and not isinstance(self.solver, str)  # which is done at the finest points
        points = max(question.points, self.grid.points, key=math.prod) if solved else question.points
        values = math.prod(points) * len(self.surrogate.spec.out_names) * question.applications
        if question.applications > 1 and values > MOST_VALUES:
            raise ValueError(
                f"applications={question.applications} at points={points} are {values:,} values; needed at most "
                f"{MOST_VALUES:,}"
            )
        if question.applications > 1 and not self.rolls_out:
            raise ValueError(f"applications={question.applications}: the model predicts something else than its input")
        for name, _ in question.numbers:
            if name not in self.numbers:
                known = ", ".join(self.numbers) or "there are none"
                raise ValueError(f"{name!r} is no number that the model is given; needed one of: {known}")
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
            except ValueError as error:  # strokes may be too strong for the solver, but not for the model
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
        """All frames, from the first that the model is given on."""
        first = next(iter(self._window(self.finest, replace(question, applications=1))[0].values()))
        frames = solver.frames(first, self._simulation(self.finest, question), question)
        return solver.at(frames, question.points, stored=question.points in self.stored)

    def _of_field(self, field: str) -> list[str]:
        """The channels of an input field, all its frames."""
        fields = [name for name in self.in_names if name not in self.numbers]
        found = [name for name in fields if field_and_step(name)[0] == field]
        if not found:
            known = ", ".join(dict.fromkeys(field_and_step(name)[0] for name in fields)) or "there are none"
            raise ValueError(f"{field!r} is no field that the model is given; needed one of: {known}")
        return found

    def _read(self, question: Question) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """From the data set: at these points where it has them, otherwise brought there from the finest."""
        dataset = self.stored.get(question.points)
        if dataset is not None:
            return self._window(dataset, question)
        grid = self.grid.with_points(question.points)
        given, truth = self._window(self.finest, question)
        return at_points(given, self.grid, grid), at_points(truth, self.grid, grid)

    def _window(self, dataset: WindowDataset, question: Question) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """A sample with as many frames of the truth as the simulation has."""
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
        """Its number in the files; refused if there is none, or no such step."""
        if not 0 <= question.simulation < len(dataset.simulations):
            raise ValueError(f"simulation={question.simulation} must be from 0 to {len(dataset.simulations) - 1}")
        simulation = dataset.simulations[question.simulation]
        if not 0 <= question.step < (windows := dataset.windows(simulation)):
            raise ValueError(f"step={question.step} must be from 0 to {windows - 1}")
        return simulation


def _batch(channels: Channels) -> Float[Tensor, "1 channel *space"]:
    return torch.stack(list(channels.values()))[None]


def _wait(u: Tensor) -> None:
    """Until the device has done what it was told."""
    if u.device.type == "cuda":
        torch.cuda.synchronize(u.device)
