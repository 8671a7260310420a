"""Training over several applications in a row, so that a model learns from its own errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid
from mondrian.losses import Loss
from mondrian.rollout import Advance, field_and_step
from mondrian.support.spec import Spec
from mondrian.surrogate import Surrogate
from mondrian.training.order import generator_of


@dataclass(frozen=True)
class Unroll(Spec):
    """`applications` in a row, each given what the one before predicted.

    The loss is the mean over all of them, and the gradient goes through all of them. With `pushforward` only the
    last one is trained, on an input that the model made itself (Brandstetter, Worrall and Welling, 2022). With
    `grow_every` the horizon begins at one application and grows by one every so many steps of training. `noise` is the
    standard deviation, in units of each field's own, of what is added to the fields of the input in training.

    >>> [Unroll(applications=3, grow_every=100).horizon(step) for step in (0, 99, 100, 500)]
    [1, 1, 2, 3]
    """

    applications: int = 1
    pushforward: bool = False
    grow_every: int = 0
    noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.applications < 1:
            raise ValueError(f"unroll={self.applications} must be at least 1")
        if self.grow_every < 0 or not 0 <= self.noise < float("inf"):
            raise ValueError(f"grow_every={self.grow_every} and noise={self.noise} must not be negative")

    def horizon(self, step: int) -> int:
        """Applications in a row at a step of training."""
        return min(self.applications, 1 + step // self.grow_every) if self.grow_every else self.applications


class UnrolledLoss:
    """The loss of `applications` in a row of a surrogate, on the scaled side."""

    def __init__(self, surrogate: Surrogate, loss: Loss, unroll: Unroll) -> None:
        spec = surrogate.spec
        self.surrogate, self.loss, self.unroll = surrogate, loss, unroll
        self.apply: Callable[[Tensor, Grid], Tensor] = surrogate.model  # or the same spread over ranks
        self.advance = Advance(spec.in_names, spec.out_names) if unroll.applications > 1 else None
        named = zip(spec.in_names, spec.in_scales, strict=True)
        # What stays the same, such as gamma, is no field of the simulation and gets no noise.
        self._noise = [0.0 if field_and_step(name)[1] is None or s.log else s.factor for name, s in named]

    def __call__(
        self,
        x: Float[Tensor, "batch channel *space"],
        y: Float[Tensor, "batch predicted *space"],
        grid: Grid,
        *,
        horizon: int,
        pushforward: bool = False,
    ) -> tuple[Float[Tensor, ""], Float[Tensor, "batch out_channel *space"]]:
        """The loss, and the first prediction in physical units."""
        surrogate, losses, first = self.surrogate, [], None
        targets = y.split(len(surrogate.spec.out_names), dim=1)
        for number in range(horizon):
            last = number == horizon - 1
            counts = last or not pushforward
            with torch.set_grad_enabled(torch.is_grad_enabled() and counts):
                z = self.apply(surrogate.scaled_input(x), grid)
            if counts:
                losses.append(self.loss(z, surrogate.scaled_output(targets[number]), grid))
            physical = surrogate.physical_output(z)
            first = physical.detach() if first is None else first
            if not last:
                assert self.advance is not None
                x = self.advance(x, physical.to(x.dtype))
        assert first is not None
        return torch.stack(losses).mean(), first

    def with_noise(
        self, x: Float[Tensor, "batch channel *space"], places: list[int], seed: int
    ) -> Float[Tensor, "batch channel *space"]:
        """`x` with noise that belongs to the places of its samples."""
        if not self.unroll.noise:
            return x
        drawn = [torch.randn(x.shape[1:], generator=generator_of(seed, "noise", place)) for place in places]
        size = torch.tensor(self._noise, dtype=x.dtype).reshape(-1, *(1,) * (x.ndim - 2)) * self.unroll.noise
        return x + (torch.stack(drawn).to(x.dtype) * size).to(x.device, non_blocking=True)
