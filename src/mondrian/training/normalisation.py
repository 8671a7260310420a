r"""Scales of the channels, fitted on the training part alone.

`standard` $z = (u - \bar u)/\sigma_u$, `scale` $z = u / \sigma_u$ (one constant, as the paper has it for
Navier-Stokes), `none` $z = u$. Mean and deviation are those of a field over all samples and all of its steps: a step
is scaled like the next one. Fields in `log` enter by their decimal logarithm first.
"""

from __future__ import annotations

import math

import torch
from tqdm import tqdm

from mondrian.data.datasets import WindowDataset
from mondrian.rollout import field_and_step
from mondrian.surrogate import Scale

METHODS = ("standard", "scale", "none")
CHUNK = 256


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
    """The scales of input and output channels."""
    if method not in METHODS:
        raise ValueError(f"normalise={method} is not known; needed one of {', '.join(METHODS)}")
    fields = {field_and_step(name)[0] for name in (*samples.in_channels, *samples.out_channels)}
    for name in log:
        if name not in fields:
            raise ValueError(f"log names {name!r}; the data set's channels are of {sorted(fields)}")
    sides = {"x": samples.in_channels, "y": samples.out_channels}
    moments = {(side, field_and_step(name)[0]): Moments() for side, names in sides.items() for name in names}
    starts = range(0, len(samples), CHUNK)
    for start in tqdm(starts, desc="normalisation", disable=None if progress else True, leave=False):
        chunk = samples.__getitems__(list(range(start, min(start + CHUNK, len(samples)))))
        for side, names in sides.items():
            values = torch.stack([sample[side] for sample in chunk])
            for channel, name in enumerate(names):
                field, _ = field_and_step(name)
                moments[side, field].add(entering(values[:, channel], field, log))
    return tuple(_scales("x", sides["x"], moments, method, log)), tuple(_scales("y", sides["y"], moments, method, log))


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
    if method not in METHODS:
        raise ValueError(f"normalise={method} is not known; needed one of {', '.join(METHODS)}")
    if method == "none":
        return Scale(log=log)
    # A field that is the same everywhere has nothing to divide by.
    factor = found.deviation if found.deviation > 1e-12 * max(abs(found.mean), 1e-30) else 1.0
    return Scale(found.mean if method == "standard" else 0.0, factor, log)
