r"""Rollouts: the prediction of one application becomes the input of the next.

Channels are named by field and step, `u[-1], u[0], gamma -> u[1], u[2]`. An application
advances the present by the number $m$ of predicted steps, so the channel $u[k]$ of the next input is $u[k + m]$: a
channel of the old input if $k + m \le 0$, otherwise of the prediction. Channels without a step stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid
from mondrian.surrogate import Surrogate

_STEP = re.compile(r"(.+)\[(-?\d+)\]")


class Advance:
    """Turns the input of one application and its prediction into the input of the next.

    >>> advance = Advance(("u[-1]", "u[0]", "gamma"), ("u[1]",))
    >>> x, y = torch.tensor([[1.0, 2.0, 9.0]])[..., None], torch.tensor([[3.0]])[..., None]
    >>> advance(x, y)[..., 0]
    tensor([[2., 3., 9.]])
    """

    def __init__(self, in_names: Sequence[str], out_names: Sequence[str]) -> None:
        self.steps = len({step for _, step in map(field_and_step, out_names) if step is not None})
        known = {field_and_step(name): channel for channel, name in enumerate((*in_names, *out_names))}
        self.index = []
        for name in in_names:
            field, step = field_and_step(name)
            wanted = (field, None if step is None else step + self.steps)
            if wanted not in known or not self.steps:
                needed = f"{field}[{wanted[1]}]" if self.steps else "channels with a step, such as u[1]"
                raise ValueError(
                    f"{tuple(in_names)} -> {tuple(out_names)} cannot be rolled out; it predicts no {needed}"
                )
            self.index.append(known[wanted])
        if all(channel < len(in_names) for channel in self.index):  # all applications would be the same
            raise ValueError(f"{tuple(in_names)} -> {tuple(out_names)} cannot be rolled out; no input changes in time")

    def __call__(
        self, x: Float[Tensor, "batch channel *space"], y: Float[Tensor, "batch predicted *space"]
    ) -> Float[Tensor, "batch channel *space"]:
        channels = torch.cat((x, y), dim=1).split(1, dim=1)
        return torch.cat([channels[channel] for channel in self.index], dim=1)


def predictions(
    apply: Callable[[Tensor], Tensor], advance: Advance, x: Float[Tensor, "batch channel *space"], applications: int
) -> Iterator[Float[Tensor, "batch predicted *space"]]:
    """The predictions of `applications` in a row, each of `advance.steps` steps."""
    for number in range(applications):
        y = apply(x)
        yield y
        if number + 1 < applications:
            x = advance(x, y)


def rollout(
    surrogate: Surrogate, x: Float[Tensor, "batch channel *space"], applications: int, grid: Grid | None = None
) -> Float[Tensor, "batch predicted *space"]:
    """All predictions of `applications` in a row, step after step along the channels, in physical units."""
    if applications < 1:
        raise ValueError(f"applications={applications} must be at least 1")
    advance = Advance(surrogate.spec.in_names, surrogate.spec.out_names) if applications > 1 else None
    if advance is None:
        return surrogate(x, grid)
    return torch.cat(list(predictions(lambda u: surrogate(u, grid), advance, x, applications)), dim=1)


def field_and_step(name: str) -> tuple[str, int | None]:
    """The field and the step in a channel's name.

    >>> field_and_step("u[-1]"), field_and_step("gamma")
    (('u', -1), ('gamma', None))
    """
    match = _STEP.fullmatch(name)
    return (match[1], int(match[2])) if match else (name, None)
