"""Questions to a model: a sample of its data, changed or not, at any resolution."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.grid import Grid
from mondrian.support.spec import Spec

MOST_APPLICATIONS = 1000
Kind = TypeVar("Kind", bound=Spec)


@dataclass(frozen=True)
class Stroke(Spec):
    r"""A bump that is added to a field, $c \prod_a g(x_a - p_a)$ with $g(z) = e^{-z^2 / 2 w^2}$.

    `at` is $p$ as a fraction of the domain along each axis, `width` is $w$ as a fraction of its shortest side, `amount`
    is $c$. On a periodic axis $g$ is summed over all periods, so that it is smooth across the ends.

    >>> Stroke(field="u", at=(0.5,), width=0.1, amount=2.0).on(Grid(extent=(4.0,), points=(1,)))
    tensor([2.])
    """

    field: str
    at: tuple[float, ...]
    width: float
    amount: float

    def __post_init__(self) -> None:
        super().__post_init__()
        numbers = (*self.at, self.width, self.amount)
        if not all(abs(number) < 1e30 for number in numbers) or not 0 < self.width <= 10:
            raise ValueError(f"{self} must hold finite numbers, and a width above 0 and up to 10")

    def on(self, grid: Grid) -> Float[Tensor, "*space"]:
        """The values of the bump at the points of a grid."""
        if len(self.at) != grid.dim:
            raise ValueError(f"{self} needs a position along each of {grid.dim} axes")
        width = self.width * min(grid.extent)
        bump = torch.tensor(float(self.amount), dtype=torch.float64)
        for axis, (part, length, ring) in enumerate(zip(self.at, grid.extent, grid.periodic, strict=True)):
            rounds = math.ceil(6 * width / length) + 1 if ring else 0  # zero beyond six widths
            away = grid.axis(axis, dtype=torch.float64) - (grid.origin[axis] + part * length)
            away = (away + length / 2) % length - length / 2 if ring else away
            ways = torch.stack([away + turn * length for turn in range(-rounds, rounds + 1)])
            bump = bump[..., None] * torch.exp(-(ways**2) / (2 * width**2)).sum(dim=0)
        return bump.float()


@dataclass(frozen=True)
class Question(Spec):
    """The sample that begins at `step` of a `simulation`, at `points`, with other `numbers` and with `strokes`.

    The model is applied `applications` times in a row. With `solve`, the solver computes truth that is not stored, from
    the first input frame with its strokes on, and also the later input frames.

    >>> Question.read({"points": [32, 32], "numbers": [["gamma", 0.001]]}).numbers
    (('gamma', 0.001),)
    """

    points: tuple[int, ...]
    simulation: int = 0
    step: int = 0
    numbers: tuple[tuple[str, float], ...] = ()
    strokes: tuple[Stroke, ...] = ()
    applications: int = 1
    solve: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.points or min(self.points) < 1:
            raise ValueError(f"points={self.points} must be at least 1 along each axis")
        if not 1 <= self.applications <= MOST_APPLICATIONS:
            raise ValueError(f"applications={self.applications} must be from 1 to {MOST_APPLICATIONS}")
        for name, value in self.numbers:
            if not abs(value) < 1e30:
                raise ValueError(f"{name}={value} must be finite")

    @classmethod
    def read(cls, content: Any) -> Question:
        """The question of a page, from JSON."""
        strokes = content.get("strokes", ()) if isinstance(content, Mapping) else ()
        if isinstance(strokes, str) or not isinstance(strokes, Sequence):
            raise ValueError(f"strokes={strokes!r} must be a list")
        return _made(cls, content, strokes=tuple(_made(Stroke, stroke) for stroke in strokes))

    @property
    def changed(self) -> bool:
        """Whether the sample differs from the stored one."""
        return bool(self.numbers or self.strokes)


def _made(kind: type[Kind], content: Any, **more: Any) -> Kind:
    """A spec of this kind from its fields by name."""
    if not isinstance(content, Mapping):
        raise ValueError(f"{content!r} is no {kind.__name__}; needed its fields by name")
    known = [field.name for field in fields(kind)]
    for name in content:
        if name not in known:
            raise ValueError(f"{kind.__name__} has no {name!r}; it takes {', '.join(known)}")
    try:
        return kind(**{**content, **more})
    except TypeError as error:
        raise ValueError(f"{dict(content)!r} is no {kind.__name__}: {error}") from error
