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

from mondrian.data.protocol import Part
from mondrian.surrogate import Scale

METHODS = ("standard", "scale", "none")
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
    samples: Part, *, method: str = "standard", log: tuple[str, ...] = (), progress: bool = False
) -> tuple[tuple[Scale, ...], tuple[Scale, ...]]:
    """The scales of input and output channels; refuses fields that lose what changes in them when they are read."""
    check_method(method)
    sides = {"x": samples.in_channels, "y": samples.out_channels}
    keys = {side: [(side, samples.field_of(name)) for name in names] for side, names in sides.items()}
    check_log(log, fields=[field for side in keys.values() for _, field in side])
    moments = {key: Moments() for side in keys.values() for key in side}
    changes = {key: Moments() for key in moments}  # by rounding
    with tqdm(
        total=len(samples), desc="normalisation", unit="sample", disable=None if progress else True, leave=False
    ) as bar:
        for chunk in samples.values():
            for side, channels in {"x": chunk.x, "y": chunk.y}.items():
                for key, stored in zip(keys[side], channels, strict=True):
                    entered = entering(stored, key[1], log)
                    moments[key].add(entered)
                    changes[key].add(entered - entering(stored.to(samples.dtype).double(), key[1], log))
            bar.update(chunk.samples)
    for key, moment in moments.items():
        _check_rounding(key[1], moment, changes[key], samples.dtype)
    x, y = (tuple(scale_of(moments[key], method, log=key[1] in log) for key in side) for side in keys.values())
    return x, y


def check_method(method: str) -> None:
    """Refuse what is no way to scale fields."""
    if method not in METHODS:
        raise ValueError(f"normalise={method} is not known; needed one of {', '.join(METHODS)}")


def check_log(log: Sequence[str], *, fields: Sequence[str]) -> None:
    """Refuse logarithms of fields that there are none of."""
    for name in log:
        if name not in fields:
            raise ValueError(f"data.log names {name!r}; the data set's channels are of {sorted(set(fields))}")


def _check_rounding(field: str, moments: Moments, change: Moments, dtype: torch.dtype) -> None:
    rounding = math.hypot(change.mean, change.deviation)
    if rounding > ROUNDING * moments.deviation and not moments.constant:
        kind = str(dtype).removeprefix("torch.")
        raise ValueError(
            f"{field!r} has mean {moments.mean:g} and deviation {moments.deviation:.3g}, of which {kind} would lose "
            f"{rounding / moments.deviation:.0%}; needed trainer.precision=64-true, or the field without its mean"
        )


def entering(values: torch.Tensor, field: str, log: tuple[str, ...]) -> torch.Tensor:
    """A field as its scale takes it: by its logarithm where that is asked for."""
    if field not in log:
        return values
    if not bool((values > 0).all()):
        raise ValueError(f"log names {field!r}, which has values of {float(values.min()):g}; needed positive ones")
    return values.double().log10()


def scale_of(moments: Moments, method: str, *, log: bool) -> Scale:
    """The scale that a method makes of the moments of a field."""
    check_method(method)
    if method == "none":
        return Scale(log=log)
    factor = 1.0 if moments.constant else moments.deviation  # a constant has nothing to divide by
    return Scale(moments.mean if method == "standard" else 0.0, factor, log)
