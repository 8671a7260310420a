"""Which steps of which fields are the channels of a surrogate."""

from __future__ import annotations

from dataclasses import dataclass

from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Window(Spec):
    """Which fields go in and which come out, over how many steps.

    Channels of `x` are step-major, oldest step first: every field of `input` that changes in time, for each
    of `steps_in` steps, then those that do not, once (gamma of Allen-Cahn: one constant channel). `y` is the
    same over the `steps_out` steps that follow. A prediction becomes the next input by moving `x` up.

    Where no input changes in time nothing says which steps are meant: `y` is then the first `steps_out` of a
    simulation, which gives one sample.

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
