"""Windows of simulations as samples for training: lazy with bounded memory, or in memory where they fit."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch.utils.data import Dataset

from mondrian.data.protocol import ChannelValues
from mondrian.data.sources.base import Field, Source
from mondrian.grid import Grid
from mondrian.rollout import field_and_step
from mondrian.surrogate import Window

Sample = dict[str, Any]
CHUNK = 256  # samples that `values` reads at once


class Batch(dict[str, Any]):
    """A dictionary with `x` `(batch, channel, *space)`, `y`, `grid`, and the `simulation` and `step` of each.

    `to` moves its tensors, as Lightning and Accelerate expect of a batch that they do not know.
    """

    def to(self, *arguments: Any, **options: Any) -> Batch:
        if len(arguments) < 3 and _is_gpu(*arguments, **options):  # the third is `non_blocking` itself
            options.setdefault("non_blocking", True)  # the next step is queued while this one is copied
        return Batch(
            {
                key: value.to(*arguments, **options) if isinstance(value, torch.Tensor) else value
                for key, value in self.items()
            }
        )

    def pin_memory(self) -> Batch:
        return Batch(
            {key: value.pin_memory() if isinstance(value, torch.Tensor) else value for key, value in self.items()}
        )


class WindowDataset(Dataset[Sample]):
    r"""All windows of all simulations.

    $$x = (u_s, \dots, u_{s+m-1}, \gamma), \qquad y = (u_{s+m}, \dots, u_{s+m+n-1})$$

    Channels count their steps from the last one that is given, `u[0]`; without one, from the first of the simulation.

    `simulations` keeps only some: split by simulation, never by window. Up to `memory` bytes the fields of these are
    read once and kept; beyond that each sample is read from its file, by handles that every worker opens for
    itself.

    >>> from mondrian.data.sources import ArrayFile, Axis
    >>> import tempfile, os
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "u.npy")
    ...     np.save(file, np.random.default_rng(0).standard_normal((3, 10, 8, 8)))
    ...     source = ArrayFile(path=file, axes=(Axis.SIMULATION, Axis.TIME, Axis.SPACE, Axis.SPACE)).open()
    ...     data = WindowDataset(source, Window(input=("u",), target=("u",), steps_in=2, steps_out=2))
    >>> len(data), data.in_channels, data.out_channels, tuple(data[20]["x"].shape)
    (21, ('u[-1]', 'u[0]'), ('u[1]', 'u[2]'), (2, 8, 8))
    """

    def __init__(
        self,
        source: Source,
        window: Window,
        *,
        simulations: Iterable[SupportsIndex] | None = None,
        memory: int = 2**30,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        names = tuple(dict.fromkeys((*window.input, *window.target)))
        self.window = window
        self.simulations = tuple(range(len(source)) if simulations is None else map(operator.index, simulations))
        self.dtype = dtype
        self.in_memory = sum(source.field(name).nbytes(self.simulations) for name in names) <= memory
        self.source = source.load(names, self.simulations) if self.in_memory else source
        self._numpy_dtype = torch.empty((), dtype=dtype).numpy().dtype
        fields = self.source.fields
        self._input = _order(fields[name] for name in window.input)
        self._target = _order(fields[name] for name in window.target)
        self._steps_in = window.steps_in if any(field.changes for field in self._input) else 0
        self._steps_out = window.steps_out if any(field.changes for field in self._target) else 0
        self.in_channels = _channels(self._input, range(1 - window.steps_in, 1))
        following = 1 if self._steps_in else 0
        self.out_channels = _channels(self._target, range(following, following + window.steps_out))
        # Numbers such as gamma, constant in space and time, are few: all of them, `(simulation, 1, channel, 1, ...)`.
        self._numbers = {
            name: fields[name].numbers().astype(self._numpy_dtype) for name in names if fields[name].is_number
        }
        self._numbers_of = {simulation: number for number, simulation in enumerate(self.simulations)}
        self._starts = (0, *accumulate(self._windows(simulation) for simulation in self.simulations))
        if not len(self):
            raise ValueError(f"{source.name}: no windows in {len(self.simulations)} simulations; needed at least one")

    @property
    def grid(self) -> Grid:
        """The grid of every sample."""
        return self.source.grid

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Sample:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        """Samples by their numbers, read into one buffer; a loader asks for whole batches here."""
        places = [self.locate(index) for index in indices]
        read = {field.name: self._read(field, places) for field in dict.fromkeys((*self._input, *self._target))}
        x = self._channels(self._input, read, 0, self._steps_in, len(self.in_channels))
        y = self._channels(self._target, read, self._steps_in, self._steps_out, len(self.out_channels))
        if not (_finite(x) and _finite(y)):
            self._name_bad(places)
        return [
            {"x": one, "y": other, "grid": self.source.grid, "simulation": simulation, "step": step}
            for one, other, (simulation, step) in zip(torch.from_numpy(x), torch.from_numpy(y), places, strict=True)
        ]

    def tensors(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Input and target of a sample, in single precision."""
        sample = self[index]
        return sample["x"].float(), sample["y"].float()

    def values(self) -> Iterator[ChannelValues]:
        """The values of all samples in double precision, a chunk of samples at a time."""
        exact = self.with_dtype(torch.float64)
        for start in range(0, len(self), CHUNK):
            chunk = exact.__getitems__(list(range(start, min(start + CHUNK, len(self)))))
            x, y = (torch.stack([sample[side] for sample in chunk]).unbind(1) for side in ("x", "y"))
            yield ChannelValues(len(chunk), x, y)

    @staticmethod
    def field_of(channel: str) -> str:
        """The field of a channel, whatever its step: `u` of `u[-1]`."""
        return field_and_step(channel)[0]

    def with_dtype(self, dtype: torch.dtype) -> WindowDataset:
        """The same samples in another precision; what is in memory is not read again."""
        if self.dtype == dtype:
            return self
        return WindowDataset(self.source, self.window, simulations=self.simulations, memory=0, dtype=dtype)

    def locate(self, index: int) -> tuple[int, int]:
        """The simulation and the first step of a sample."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        index = index % len(self)
        number = bisect_right(self._starts, index) - 1
        return self.simulations[number], index - self._starts[number]

    def index(self, simulation: int, step: int) -> int:
        """The number of the sample that begins there: the inverse of `locate`."""
        if simulation in self._numbers_of and 0 <= step < self.windows(simulation):
            return self._starts[self._numbers_of[simulation]] + step
        raise IndexError(f"no sample begins at step {step} of simulation {simulation}")

    def windows(self, simulation: int) -> int:
        """How many samples a simulation gives."""
        number = self._numbers_of[simulation]
        return self._starts[number + 1] - self._starts[number]

    def _windows(self, simulation: int) -> int:
        if not 0 <= simulation < len(self.source):
            raise ValueError(f"simulations name {simulation}; {self.source.name} has {len(self.source)}")
        needed = self._steps_in + self._steps_out
        steps = self.source.steps[simulation]
        if needed > steps:
            raise ValueError(
                f"steps_in={self.window.steps_in} and steps_out={self.window.steps_out} need {needed} steps; "
                f"simulation {simulation} of {self.source.name} has {steps}"
            )
        return steps - needed + 1 if self._steps_in else 1  # later windows would have the same x and another y

    def _span(self, field: Field) -> tuple[int, int]:
        """The steps of a window that are needed of a field: input and target that follow each other are one read."""
        low = 0 if field.name in self.window.input else self._steps_in
        high = self._steps_in + self._steps_out if field.name in self.window.target else self._steps_in
        return low, high

    def _read(self, field: Field, places: list[tuple[int, int]]) -> Shaped[np.ndarray, "batch step channel ..."]:
        if field.name in self._numbers:
            return self._numbers[field.name][[simulation for simulation, _ in places]]
        low, high = self._span(field)
        steps = high - low if field.changes else 1
        values = np.empty((len(places), steps, len(field.channels), *field.space), dtype=self._numpy_dtype)
        for n, (simulation, step) in enumerate(places):
            values[n] = field.read(simulation, slice(step + low, step + high))
        return values

    def _channels(
        self,
        fields: tuple[Field, ...],
        read: Mapping[str, Shaped[np.ndarray, "batch _step _channel ..."]],
        start: int,
        steps: int,
        channels: int,
    ) -> Float[np.ndarray, "batch channel ..."]:
        batch = len(read[fields[0].name])
        values = np.empty((batch, channels, *self.source.grid.points), dtype=self._numpy_dtype)
        changing = sum(len(field.channels) for field in fields if field.changes)
        first, constant = 0, changing * steps
        for field in fields:
            count = len(field.channels)
            if field.changes:
                place = start - self._span(field)[0]
                part = read[field.name][:, place : place + steps]
                for channel in range(count):  # of all steps at once: they lie `changing` channels apart
                    values[:, first + channel : changing * steps : changing] = part[:, :, channel]
                first += count
            else:
                values[:, constant : constant + count] = read[field.name][:, 0]
                constant += count
        return values

    def _name_bad(self, places: list[tuple[int, int]]) -> None:
        for simulation, step in places:
            for field in (*self._input, *self._target):
                low, high = self._span(field)
                if not np.isfinite(
                    field.read(simulation, slice(step + low, step + high)).astype(self._numpy_dtype)
                ).all():
                    source, number = field.locate(simulation)
                    where = f"simulation {number}, steps {step + low} to {step + high - 1}"
                    raise ValueError(f"{source.array} holds NaN or infinite values in {where}; needed finite numbers")


def collate(samples: Sequence[Sample]) -> Batch:
    """Samples of one grid as a batch; the `collate_fn` of a `DataLoader`."""
    grid = samples[0]["grid"]
    for sample in samples:
        if sample["grid"] is not grid and sample["grid"] != grid:
            raise ValueError(f"a batch mixes the grids {grid} and {sample['grid']}; needed one")
    return Batch(
        x=torch.stack([sample["x"] for sample in samples]),
        y=torch.stack([sample["y"] for sample in samples]),
        grid=grid,
        simulation=torch.tensor([sample["simulation"] for sample in samples]),
        step=torch.tensor([sample["step"] for sample in samples]),
    )


def split_simulations(count: int, fractions: Sequence[float], *, seed: int) -> tuple[tuple[int, ...], ...]:
    """Numbers `0 .. count - 1` in random parts of the given shares, for files that come without splits.

    >>> train, valid = split_simulations(10, (0.7, 0.3), seed=0)
    >>> len(train), len(valid), sorted(train + valid) == list(range(10))
    (7, 3, True)
    """
    if not fractions or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ValueError(f"fractions={tuple(fractions)} must be positive and add up to 1")
    order = np.random.default_rng(seed).permutation(count).tolist()
    ends = [0, *(round(count * share) for share in accumulate(fractions))]
    parts = tuple(tuple(sorted(order[low:high])) for low, high in pairwise(ends))
    if any(not part for part in parts):
        raise ValueError(f"{count} simulations in shares {tuple(fractions)} leave a part empty")
    return parts


def _is_gpu(target: Any = None, *_: Any, device: Any = None, **__: Any) -> bool:
    """Whether the arguments of `Tensor.to` name a GPU."""
    place = target if device is None else device
    return isinstance(place, str | int | torch.device) and torch.device(place).type == "cuda"


def _finite(values: Float[np.ndarray, "..."]) -> bool:
    # A sum is quicker than a look at each number, and not finite if any of them is not.
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())


def _order(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(sorted(fields, key=lambda field: not field.changes))  # stable


def _channels(fields: tuple[Field, ...], steps: range) -> tuple[str, ...]:
    changing = [channel for field in fields if field.changes for channel in field.channels]
    constant = [channel for field in fields if not field.changes for channel in field.channels]
    return (*(f"{channel}[{step}]" for step in steps for channel in changing), *constant)
