r"""Scales of the channels, fitted on the training part alone.

`standard` $z = (u - \bar u)/\sigma_u$, `scale` $z = u / \sigma_u$ (one constant, as the paper has it for
Navier-Stokes), `none` $z = u$. Mean and deviation are those of a field over all samples and all of its steps: a step
is scaled like the next one. Fields in `log` enter by their decimal logarithm first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from tqdm import tqdm

from mondrian.data.datasets import WindowDataset
from mondrian.rollout import field_and_step
from mondrian.surrogate import Scale

METHODS = ("standard", "scale", "none")
CHUNK = 256
ROUNDING = 0.01  # of a field's deviation, the most that its values may be changed by when they are read


class Moments:
    """Count, mean and sum of squared deviations, joined chunk by chunk without loss (Chan, Golub and LeVeque).

    >>> moments = Moments()
    >>> for part in (torch.tensor([1.0, 2.0]), torch.tensor([3.0])): moments.add(part)
    >>> moments.mean, round(moments.deviation ** 2, 6)
    (2.0, 0.666667)
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0

    @property
    def deviation(self) -> float:
        return math.sqrt(self.squares / self.count) if self.count else 0.0

    @property
    def constant(self) -> bool:
        """Whether all values are the same, to rounding."""
        return self.deviation <= 1e-12 * max(abs(self.mean), 1e-30)

    def add(self, values: torch.Tensor) -> None:
        values = values.double()
        count, mean = values.numel(), float(values.mean())
        total = self.count + count
        difference = mean - self.mean
        self.squares += float((values - mean).square().sum()) + difference**2 * self.count * count / total
        self.mean += difference * count / total
        self.count = total


def fit_scales(
    samples: WindowDataset, *, method: str = "standard", log: tuple[str, ...] = (), progress: bool = False
) -> tuple[tuple[Scale, ...], tuple[Scale, ...]]:
    """The scales of input and output channels; refuses fields that lose what changes in them when they are read."""
    check_method(method)
    sides = {"x": samples.in_channels, "y": samples.out_channels}
    check_log(log, fields=[field_and_step(name)[0] for names in sides.values() for name in names])
    moments = {(side, field_and_step(name)[0]): Moments() for side, names in sides.items() for name in names}
    changes = {key: Moments() for key in moments}  # by rounding
    exact, starts = with_dtype(samples, torch.float64), range(0, len(samples), CHUNK)
    for start in tqdm(starts, desc="normalisation", disable=None if progress else True, leave=False):
        chunk = exact.__getitems__(list(range(start, min(start + CHUNK, len(samples)))))
        for side, names in sides.items():
            values = torch.stack([sample[side] for sample in chunk])
            for channel, name in enumerate(names):
                field, _ = field_and_step(name)
                stored = values[:, channel]
                entered = entering(stored, field, log)
                moments[side, field].add(entered)
                changes[side, field].add(entered - entering(stored.to(samples.dtype).double(), field, log))
    for (side, field), found in moments.items():
        _check_rounding(field, found, changes[side, field], samples.dtype)
    return tuple(_scales("x", sides["x"], moments, method, log)), tuple(_scales("y", sides["y"], moments, method, log))


def check_method(method: str) -> None:
    """Refuse what is no way to scale fields."""
    if method not in METHODS:
        raise ValueError(f"normalise={method} is not known; needed one of {', '.join(METHODS)}")


def check_log(log: Sequence[str], *, fields: Sequence[str]) -> None:
    """Refuse logarithms of fields that there are none of."""
    for name in log:
        if name not in fields:
            raise ValueError(f"data.log names {name!r}; the data set's channels are of {sorted(set(fields))}")


def with_dtype(samples: WindowDataset, dtype: torch.dtype) -> WindowDataset:
    """The same samples in another precision; what is in memory is not read again."""
    if samples.dtype == dtype:
        return samples
    return WindowDataset(samples.source, samples.window, simulations=samples.simulations, memory=0, dtype=dtype)


def _check_rounding(field: str, found: Moments, change: Moments, dtype: torch.dtype) -> None:
    rounding = math.hypot(change.mean, change.deviation)
    if rounding > ROUNDING * found.deviation and not found.constant:
        kind = str(dtype).removeprefix("torch.")
        raise ValueError(
            f"{field!r} has mean {found.mean:g} and deviation {found.deviation:.3g}, of which {kind} would lose "
            f"{rounding / found.deviation:.0%}; needed trainer.precision=64-true, or the field without its mean"
        )


def entering(values: torch.Tensor, field: str, log: tuple[str, ...]) -> torch.Tensor:
    """A field as its scale takes it: by its logarithm where that is asked for."""
    if field not in log:
        return values
    if not bool((values > 0).all()):
        raise ValueError(f"log names {field!r}, which has values of {float(values.min()):g}; needed positive ones")
    return values.double().log10()


def _scales(
    side: str, names: tuple[str, ...], moments: dict[tuple[str, str], Moments], method: str, log: tuple[str, ...]
) -> list[Scale]:
    fields = [field_and_step(name)[0] for name in names]
    return [scale_of(moments[side, field], method, log=field in log) for field in fields]


def scale_of(found: Moments, method: str, *, log: bool) -> Scale:
    """The scale that a method makes of the moments of a field."""
    check_method(method)
    if method == "none":
        return Scale(log=log)
    factor = 1.0 if found.constant else found.deviation  # a constant has nothing to divide by
    return Scale(found.mean if method == "standard" else 0.0, factor, log)
