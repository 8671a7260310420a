"""A box in physical space and the points on it: cell-centred, or at the vertices."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Grid(Spec):
    r"""A box $\prod_a [o_a, o_a + L_a]$ with $n_a$ points along each axis, cell-centred unless `ends` says otherwise.

    $$x_{a,j} = o_a + (j + \tfrac12) L_a / n_a, \qquad j = 0, \dots, n_a - 1$$

    `ends` is the number of ends of an axis that are points:

    - 0: cell-centred, as above.
    - 2: vertex-centred, from end to end, $x_j = o + j L / (n - 1)$.
    - 1: vertex-centred on a periodic axis, $x_j = o + j L / n$, the repeated end left out. With 2 the end is
      included: the last value of a field should equal the first; where they differ, resampling takes their mean.

    A periodic axis identifies its two ends. Without `points` the grid is the box alone; `with_points` adds points.

    >>> grid = Grid(extent=(2.0, 1.0), points=(4, 2), periodic=(True, False))
    >>> grid.spacing
    (0.5, 0.5)
    >>> grid.axis(0)
    tensor([0.2500, 0.7500, 1.2500, 1.7500])
    >>> Grid(extent=(2.0,), points=(5,), ends=(2,)).axis(0)
    tensor([0.0000, 0.5000, 1.0000, 1.5000, 2.0000])
    """

    extent: tuple[float, ...]
    points: tuple[int, ...] = ()
    periodic: tuple[bool, ...] = ()
    origin: tuple[float, ...] = ()
    ends: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.extent:
            raise ValueError("extent=() has no axis; needed one positive length for each axis")
        for length in self.extent:
            if not (math.isfinite(length) and length > 0):
                raise ValueError(f"extent={self.extent} must hold finite positive lengths; got {length}")
        object.__setattr__(self, "extent", tuple(float(length) for length in self.extent))
        object.__setattr__(self, "periodic", self.periodic or (False,) * self.dim)
        object.__setattr__(self, "origin", self.origin or (0.0,) * self.dim)
        object.__setattr__(self, "ends", self.ends or (0,) * self.dim)
        for name in ("periodic", "origin", "points", "ends"):
            value = getattr(self, name)
            if value and len(value) != self.dim:
                raise ValueError(f"{name}={value} has {len(value)} entries; extent={self.extent} needs {self.dim}")
        if any(n < 1 for n in self.points):
            raise ValueError(f"points={self.points} must hold numbers of at least 1")
        if not all(math.isfinite(start) for start in self.origin):
            raise ValueError(f"origin={self.origin} must be finite")
        self._check_ends()

    def _check_ends(self) -> None:
        if any(n not in (0, 1, 2) for n in self.ends):
            raise ValueError(f"ends={self.ends} must be 0 (cell-centred), 1 or 2 (points at the ends) for each axis")
        if any(n == 1 and not ring for n, ring in zip(self.ends, self.periodic, strict=True)):
            raise ValueError(
                f"ends={self.ends} leaves out an end of a non-periodic axis, periodic={self.periodic}; needed 2"
            )
        if self.points and any(n == 1 and both == 2 for n, both in zip(self.points, self.ends, strict=True)):
            raise ValueError(
                f"points={self.points} are too few for ends={self.ends}; needed at least 2 where both ends are points"
            )

    @property
    def dim(self) -> int:
        """Number of axes."""
        return len(self.extent)

    @property
    def is_cell_centred(self) -> bool:
        """Whether the points are the centres of equal cells along every axis."""
        return not any(self.ends)

    @property
    def intervals(self) -> tuple[int, ...]:
        """The length of each axis in spacings."""
        self._needs_points()
        return tuple(n - 1 if ends == 2 else n for n, ends in zip(self.points, self.ends, strict=True))

    @property
    def spacing(self) -> tuple[float, ...]:
        """The distance between neighbouring points along each axis."""
        return tuple(length / n for length, n in zip(self.extent, self.intervals, strict=True))

    def with_points(self, points: tuple[int, ...]) -> Grid:
        """The same box with other points."""
        return replace(self, points=tuple(points))

    def axis(
        self, axis: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, " point"]:
        """Coordinates of the points along one axis, computed in float64."""
        self._needs_points()
        steps = torch.arange(self.points[axis], dtype=torch.float64, device=device) + (0 if self.ends[axis] else 0.5)
        coordinates = self.origin[axis] + steps * self.spacing[axis]
        return coordinates.to(dtype or torch.get_default_dtype())

    def coordinates(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "axis ..."]:
        """Coordinates of all points, `(axis, *points)`."""
        axes = [self.axis(a, dtype=dtype, device=device) for a in range(self.dim)]
        return torch.stack(torch.meshgrid(*axes, indexing="ij"))

    def to_json(self) -> dict[str, Any]:
        """The dictionary of the spec; a cell-centred grid leaves out `ends`, as files from before `ends` do."""
        values = super().to_json()
        if self.is_cell_centred:
            del values["ends"]
        return values

    def _needs_points(self) -> None:
        if not self.points:
            raise ValueError(f"grid with extent={self.extent} has no points; needed grid.with_points(...)")
