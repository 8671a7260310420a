r"""Symmetric images of samples: if $u(t, x)$ solves the equation, so does the image, and training sees more.

A signed permutation $g$ of the axes moves a scalar field to $\pm u(g^{-1} x)$. Rotations ($\det g = 1$) keep the
values; reflections ($\det g = -1$) multiply them by the `parity` of the field: 1 for a scalar such as temperature,
-1 for a pseudoscalar such as the vorticity in two dimensions. On periodic axes translations are symmetries too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.datasets import WindowDataset
from mondrian.data.sources.base import Field
from mondrian.grid import Grid

NAMES = ("rotations", "reflections", "translations")
Element = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Symmetries:
    """Random images under some of the symmetries `NAMES` of a grid.

    >>> square = Grid(extent=(1.0, 1.0), points=(4, 4))
    >>> len(Symmetries(square, ("rotations",)).elements), len(Symmetries(square, ("rotations", "reflections")).elements)
    (4, 8)
    """

    grid: Grid
    names: tuple[str, ...]
    parity: int = 1
    constant: tuple[int, ...] = ()  # input channels that are no fields of the equation's symmetry, such as gamma

    def __post_init__(self) -> None:
        check_names(self.names, allowed=NAMES)
        if self.parity not in (1, -1):
            raise ValueError(f"parity={self.parity} must be 1 or -1")
        if "translations" in self.names and not any(self.grid.periodic):
            raise ValueError("augment names 'translations'; no axis of the grid is periodic")
        if "rotations" in self.names and len(self.elements) == 1:
            raise ValueError(f"augment names 'rotations'; no two axes of {self.grid} are alike")

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """The signed permutations `(axes, signs)` of axes that are alike."""
        axes = tuple(range(self.grid.dim))
        kinds = tuple(zip(self.grid.extent, self.grid.points, self.grid.periodic, strict=True))
        found = []
        for order, signs in product(permutations(axes), product((1, -1), repeat=len(axes))):
            if any(kinds[a] != kinds[b] for a, b in zip(axes, order, strict=True)):
                continue
            rotation = determinant(order, signs) == 1 and "rotations" in self.names
            reflection = "reflections" in self.names and (order == axes or "rotations" in self.names)
            if rotation or reflection or (order == axes and set(signs) == {1}):
                found.append((order, signs))
        return tuple(found)

    def image(
        self, x: Float[Tensor, "channel *space"], y: Float[Tensor, "predicted *space"], generator: torch.Generator
    ) -> tuple[Float[Tensor, "channel *space"], Float[Tensor, "predicted *space"]]:
        """The image of a sample under a random element."""
        elements = self.elements
        order, signs = elements[int(torch.randint(len(elements), (), generator=generator))]
        shifts = [
            int(torch.randint(n, (), generator=generator)) if periodic and "translations" in self.names else 0
            for n, periodic in zip(self.grid.points, self.grid.periodic, strict=True)
        ]
        sign = self.parity if determinant(order, signs) < 0 else 1
        x, y = (moved(u, order, signs, shifts) for u in (x, y))
        if sign < 0:
            x, y = x.clone(), -y
            changing = [channel for channel in range(len(x)) if channel not in self.constant]
            x[changing] = -x[changing]
        return x, y


def moved(
    u: Float[Tensor, "channel *space"], order: tuple[int, ...], signs: tuple[int, ...], shifts: list[int]
) -> Float[Tensor, "channel *space"]:
    """`u` with its axes permuted, flipped where the sign is negative, and rolled."""
    u = u.permute(0, *(axis + 1 for axis in order))
    flipped = [axis + 1 for axis, sign in enumerate(signs) if sign < 0]
    u = u.flip(flipped) if flipped else u
    rolled = [axis + 1 for axis, shift in enumerate(shifts) if shift]
    return u.roll([shift for shift in shifts if shift], rolled) if rolled else u


def determinant(order: tuple[int, ...], signs: tuple[int, ...]) -> int:
    """Of a signed permutation: the product of its signs, once more negative for each pair out of order."""
    inversions = sum(order[a] > order[b] for b in range(len(order)) for a in range(b))
    result = -1 if inversions % 2 else 1
    for sign in signs:
        result *= sign
    return result


def check_names(names: tuple[str, ...], *, allowed: tuple[str, ...]) -> None:
    """Refuse symmetries that there are none of, or that the data set does not have."""
    for name in names:
        if name not in NAMES:
            raise ValueError(f"augment names {name!r}; needed some of {', '.join(NAMES)}")
        if name not in allowed:
            raise ValueError(
                f"augment names {name!r}, which data.symmetries={list(allowed)} do not allow; "
                "add it there if the equation has it"
            )


def symmetries_of(
    samples: WindowDataset, names: tuple[str, ...], *, allowed: tuple[str, ...], parity: int
) -> Symmetries | None:
    """The symmetries to augment with; refuses those that the data set does not have, and fields that are vectors."""
    check_names(names, allowed=allowed)
    if not names:
        return None
    fields = [samples.source.field(name) for name in (*samples.window.input, *samples.window.target)]
    for field in fields:
        if len(field.channels) > 1 and set(names) != {"translations"}:
            raise ValueError(f"augment={list(names)} turns scalar fields only; {field.name!r} is {field.channels}")
    return Symmetries(samples.grid, names, parity, constant=_constant(samples, fields))


def _constant(samples: WindowDataset, fields: list[Field]) -> tuple[int, ...]:
    constant = {channel for field in fields if field.is_number for channel in field.channels}
    return tuple(place for place, name in enumerate(samples.in_channels) if name in constant)
