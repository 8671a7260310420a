r"""Symmetric images of samples: if $u(t, x)$ solves the equation, so does the image, and training sees more.

A signed permutation $g$ of the axes moves a scalar field to $\pm u(g^{-1} x)$. Rotations ($\det g = 1$) keep the
values; reflections ($\det g = -1$) multiply them by the `parity` of the field: 1 for a scalar such as temperature,
-1 for a pseudoscalar such as the vorticity in two dimensions. On periodic axes translations are symmetries too.

One parity for all is that of the fields that change in time: a coefficient or a mask keeps its sign. Where that is not
so, as for a forcing of the vorticity, each field is given its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.datasets import WindowDataset
from mondrian.data.sources.base import Field
from mondrian.grid import Grid
from mondrian.rollout import field_and_step

NAMES = ("rotations", "reflections", "translations")
COMPONENTS = ("Vx", "Vy", "Vz")  # of a vector, which PDEBench stores as scalars
Parity = int | Mapping[str, int]
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
    in_parity: tuple[int, ...] | int = 1  # of all channels of the input, or of each
    out_parity: tuple[int, ...] | int = 1

    def __post_init__(self) -> None:
        check_names(self.names, allowed=NAMES)
        if "translations" in self.names and not any(self.grid.periodic):
            raise ValueError("augment names 'translations'; no axis of the grid is periodic")
        if "rotations" in self.names and len(self.elements) == 1:
            raise ValueError(f"augment names 'rotations'; no two axes of {self.grid} are alike")

    @cached_property
    def elements(self) -> tuple[Element, ...]:
        """The signed permutations `(axes, signs)` of axes that are alike."""
        axes = tuple(range(self.grid.dim))
        kinds = tuple(zip(self.grid.extent, self.grid.points, self.grid.periodic, strict=True))
        elements = []
        for order, signs in product(permutations(axes), product((1, -1), repeat=len(axes))):
            if any(kinds[a] != kinds[b] for a, b in zip(axes, order, strict=True)):
                continue
            rotation = determinant(order, signs) == 1 and "rotations" in self.names
            reflection = "reflections" in self.names and (order == axes or "rotations" in self.names)
            if rotation or reflection or (order == axes and set(signs) == {1}):
                elements.append((order, signs))
        return tuple(elements)

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
        x, y = (moved(u, order, signs, shifts) for u in (x, y))
        if determinant(order, signs) < 0:
            x, y = _signed(x, self.in_parity), _signed(y, self.out_parity)
        return x, y


def _signed(u: Float[Tensor, "channel *space"], parity: tuple[int, ...] | int) -> Float[Tensor, "channel *space"]:
    return u * torch.tensor(parity, dtype=u.dtype).reshape(-1, *(1,) * (u.ndim - 1))


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
    """Refuse unknown symmetries, and those that the data set does not have."""
    for name in names:
        if name not in NAMES:
            raise ValueError(f"augment names {name!r}; needed some of {', '.join(NAMES)}")
        if name not in allowed:
            raise ValueError(
                f"augment names {name!r}, which data.symmetries={list(allowed)} do not allow; "
                "add it there if the equation has it"
            )


def check_parity(parity: Parity, *, fields: Sequence[str]) -> None:
    """Refuse values other than 1 and -1, and unknown fields."""
    for name in parity if isinstance(parity, Mapping) else ():
        if name not in fields:
            raise ValueError(f"data.parity names {name!r}; the fields are {', '.join(dict.fromkeys(fields))}")
    for sign in parity.values() if isinstance(parity, Mapping) else (parity,):
        if isinstance(sign, bool) or sign not in (1, -1):
            raise ValueError(f"data.parity={parity} must be 1 or -1, or that for each field: data.parity={{u: -1}}")


def symmetries_of(
    samples: WindowDataset, names: tuple[str, ...], *, allowed: tuple[str, ...], parity: Parity
) -> Symmetries | None:
    """The symmetries to augment with; refuses those that the data set does not have, and vector fields.

    A `parity` for each field is 1 for those that it does not name.
    """
    check_names(names, allowed=allowed)
    window = samples.window
    check_parity(parity, fields=(*window.input, *window.target))
    if not names:
        return None
    signs: dict[str, int] = {}
    for name in (*window.input, *window.target):
        field = samples.source.field(name)
        sign = _sign(field, parity, is_target=name in window.target) if "reflections" in names else 1
        if set(names) != {"translations"}:
            _refuse_vector(field, names, dim=samples.grid.dim, sign=sign)
        signs |= dict.fromkeys(field.channels, sign)
    sides = (samples.in_channels, samples.out_channels)
    in_parity, out_parity = (tuple(signs[field_and_step(name)[0]] for name in side) for side in sides)
    return Symmetries(samples.grid, names, in_parity, out_parity)


def _sign(field: Field, parity: Parity, *, is_target: bool) -> int:
    """What a mirror multiplies a field by."""
    if isinstance(parity, Mapping):
        return parity.get(field.name, 1)
    if parity == -1 and is_target and not field.changes:
        raise ValueError(
            f"data.parity=-1 is that of fields that change in time; {field.name!r} does not: needed that of each "
            f"field, for example data.parity={{{field.name}: -1}}"
        )
    return parity if field.changes else 1


def _refuse_vector(field: Field, names: tuple[str, ...], *, dim: int, sign: int) -> None:
    message = f"augment={list(names)} applies to scalar fields only"
    if len(field.channels) > 1:
        raise ValueError(f"{message}; {field.name!r} has the components {field.channels}")
    if field.name in COMPONENTS and not (dim == 1 and sign == -1):
        advice = f": on a line needed data.parity={{{field.name}: -1}}" if dim == 1 else ""
        raise ValueError(f"{message}; {field.name!r} is a component of a vector{advice}")
