"""Which steps of which fields are the channels of a surrogate."""

from __future__ import annotations

from dataclasses import dataclass

from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Window(Spec):
    """Which fields go in and which come out, over how many steps.

    The channels of `x` are step-major, oldest step first: for each of `steps_in` steps all fields of `input` that
    change in time, then once the fields that do not (gamma of Allen-Cahn is one constant channel). `y` is built in the
    same way from the `steps_out` steps that follow. In a rollout the prediction becomes the latest steps of the input.

    If no input changes in time, a simulation gives one sample, whose `y` is its first `steps_out` steps.

    >>> Window(input=("u", "gamma"), target=("u",))
    Window(input=('u', 'gamma'), target=('u',), steps_in=1, steps_out=1)
    """

    input: tuple[str, ...]
    target: tuple[str, ...]
    steps_in: int = 1
    steps_out: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("input", "target"):
            fields = getattr(self, name)
            if isinstance(fields, str) or not fields or len(set(fields)) != len(fields):
                raise ValueError(f"{name}={fields!r} must name at least one field, none twice")
        for name in ("steps_in", "steps_out"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
