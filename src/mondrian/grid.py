"""A box in physical space and the cell-centred points on it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.spec import Spec


@dataclass(frozen=True)
class Grid(Spec):
    r"""A box $\prod_a [o_a, o_a + L_a]$ with $n_a$ cell-centred points an axis.

    $$x_{a,j} = o_a + (j + \tfrac12) L_a / n_a, \qquad j = 0, \dots, n_a - 1$$

    A periodic axis identifies its two ends. Without `points` the grid is the box alone; `with_points` puts
    points on it.

    >>> grid = Grid(extent=(2.0, 1.0), points=(4, 2), periodic=(True, False))
    >>> grid.spacing
    (0.5, 0.5)
    >>> grid.axis(0)
    tensor([0.2500, 0.7500, 1.2500, 1.7500])
    """

    extent: tuple[float, ...]
    points: tuple[int, ...] = ()
    periodic: tuple[bool, ...] = ()
    origin: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.extent:
            raise ValueError("extent=() has no axis; needed one positive length an axis")
        for length in self.extent:
            if not (math.isfinite(length) and length > 0):
                raise ValueError(f"extent={self.extent} must hold finite positive lengths; {length} is not one")
        object.__setattr__(self, "extent", tuple(float(length) for length in self.extent))
        object.__setattr__(self, "periodic", self.periodic or (False,) * self.dim)
        object.__setattr__(self, "origin", self.origin or (0.0,) * self.dim)
        for name in ("periodic", "origin", "points"):
            value = getattr(self, name)
            if value and len(value) != self.dim:
                raise ValueError(f"{name}={value} has {len(value)} entries; extent={self.extent} needs {self.dim}")
        if any(isinstance(n, bool | float) or n < 1 for n in self.points):
            raise ValueError(f"points={self.points} must hold whole numbers of at least 1")
        if not all(math.isfinite(start) for start in self.origin):
            raise ValueError(f"origin={self.origin} must be finite")

    @property
    def dim(self) -> int:
        """Number of axes."""
        return len(self.extent)

    @property
    def spacing(self) -> tuple[float, ...]:
        """Distance between neighbouring points, an axis."""
        self._needs_points()
        return tuple(length / n for length, n in zip(self.extent, self.points, strict=True))

    def with_points(self, points: tuple[int, ...]) -> Grid:
        """The same box with other points on it."""
        return replace(self, points=tuple(points))

    def axis(
        self, axis: int, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, " point"]:
        """Coordinates of the points along one axis, computed in float64."""
        self._needs_points()
        steps = torch.arange(self.points[axis], dtype=torch.float64, device=device) + 0.5
        coordinates = self.origin[axis] + steps * (self.extent[axis] / self.points[axis])
        return coordinates.to(dtype or torch.get_default_dtype())

    def coordinates(
        self, *, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Float[Tensor, "axis ..."]:
        """Coordinates of all points, `(axis, *points)`."""
        axes = [self.axis(a, dtype=dtype, device=device) for a in range(self.dim)]
        return torch.stack(torch.meshgrid(*axes, indexing="ij"))

    def _needs_points(self) -> None:
        if not self.points:
            raise ValueError(f"grid with extent={self.extent} has no points; needed with_points(...) first")
