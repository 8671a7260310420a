r"""Diffusion in a box with zero flux through its walls, in two forms.

$$u \leftarrow e^{\gamma t \Delta_h} u = (A_1 \otimes \dots \otimes A_d)\, u, \qquad A_a = e^{\gamma t \Delta_a}$$

$\Delta_a$ is the second difference along an axis on cell-centred points: second order in space, exact in time.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.bases import cosine_basis
from mondrian.grid import Grid


@runtime_checkable
class Diffusion(Protocol):
    """Fields in the order of points that an implementation needs, and their diffusion with one gamma per sample."""

    u: Tensor
    """The fields, changed in place."""
    work: Tensor
    """Working memory of the same shape, free between steps."""

    def load_(self, field: Float[Tensor, "batch *space"]) -> None:
        """Load `u` from fields in their usual order."""
        ...

    def field(self, u: Tensor) -> Float[Tensor, "batch *space"]:
        """Fields in their usual order, from `u` or a sum of such: the inverse of `load_`."""
        ...

    def advance_(self, time: float) -> None:
        """`u <- exp(gamma time Laplacian) u`."""
        ...


def diffusion_of(gamma: Float[Tensor, " batch"], grid: Grid, like: Float[Tensor, "batch *space"]) -> Diffusion:
    """The faster form for a grid: by quarters in a plane, otherwise axis by axis."""
    return PlaneDiffusion(gamma, grid, like) if grid.dim == 2 else AxisDiffusion(gamma, grid, like)


class AxisDiffusion:
    """The definition: one axis after the other, in any number of dimensions."""

    def __init__(self, gamma: Float[Tensor, " batch"], grid: Grid, like: Float[Tensor, "batch *space"]) -> None:
        self.gamma, self.points = gamma, grid.points
        self.axes = [_axis(grid, axis, like.device, parities=1) for axis in range(grid.dim)]
        self.u, self.work = like.new_empty(like.shape), like.new_empty(like.shape)
        self.flows: dict[float, list[Tensor]] = {}  # a schedule has few lengths of steps

    def load_(self, field: Tensor) -> None:
        self.u.copy_(field)

    def field(self, u: Tensor) -> Tensor:
        return u

    def advance_(self, time: float) -> None:
        if time not in self.flows:
            self.flows[time] = [self._increment(axis, time) for axis in range(len(self.axes))]
        batch = len(self.u)
        for axis, increment in enumerate(self.flows[time]):
            n, after = self.points[axis], math.prod(self.points[axis + 1 :])
            shape = (batch, -1, n) if after == 1 else (-1, n, after)
            u, moved = self.u.view(shape), self.work.view(shape)
            operands = (u, increment) if after == 1 else (increment, u)
            torch.baddbmm(u, *operands, out=moved)
            self.u, self.work = self.work, self.u

    def _increment(self, axis: int, time: float) -> Tensor:
        """The symmetric matrix `A - 1` of an axis, repeated for the axes before it, except for the last axis."""
        increment = _axis_diffusion(self.gamma, self.axes[axis], time).to(self.u)  # (batch, 1, n, n)
        before = 1 if axis == len(self.points) - 1 else math.prod(self.points[:axis])
        return increment.expand(-1, before, -1, -1).flatten(0, 1).contiguous()


class PlaneDiffusion:
    """Diffusion in a plane, with half the arithmetic of `AxisDiffusion`.

    Diffusion commutes with mirroring an axis, so it acts on even and odd parts separately. Fields are stored in
    quarters (a half of each axis) whose points are mirror images of each other. The rounding of sums and differences of
    quarters depends on the mirror images, which does harm where u is near 0 and unstable: only the increment uses them,

        A_x v A_y - v = B_x (v + v B_y) + v B_y,    B = A - 1,

    with smaller rounding errors than the plain product.
    """

    def __init__(self, gamma: Float[Tensor, " batch"], grid: Grid, like: Float[Tensor, "batch x y"]) -> None:
        x = _axis(grid, 0, like.device, parities=_parities(grid.points[0]))
        alike = grid.points[0] == grid.points[1] and grid.extent[0] == grid.extent[1]
        self.gamma = gamma
        self.axes = x, x if alike else _axis(grid, 1, like.device, parities=_parities(grid.points[1]))
        self.u = _fold(like)
        self.work, self.moved = torch.empty_like(self.u), torch.empty_like(self.u)
        # two views of the same memory: quarters as rows for the butterfly, as matrices for diffusion
        buffers = (self.u, self.work, self.moved)
        self.u_rows, self.work_rows, self.moved_rows = (quarters.flatten(3).flatten(1, 2) for quarters in buffers)
        self.work_matrices, self.moved_matrices = (quarters.flatten(0, 2) for quarters in buffers[1:])
        self.parts, self.sums = _butterflies(self.u)
        self.flows: dict[float, tuple[Tensor, Tensor]] = {}

    def load_(self, field: Tensor) -> None:
        self.u.copy_(_fold(field))

    def field(self, u: Tensor) -> Tensor:
        return _unfold(u)

    def advance_(self, time: float) -> None:
        if time not in self.flows:
            self.flows[time] = self._increments(time)
        left, right = self.flows[time]
        torch.bmm(self.parts, self.u_rows, out=self.work_rows)
        torch.bmm(self.work_matrices, right, out=self.moved_matrices)
        self.work += self.moved
        self.moved_matrices.baddbmm_(left, self.work_matrices)
        self.u_rows.baddbmm_(self.sums, self.moved_rows)

    def _increments(self, time: float) -> tuple[Tensor, Tensor]:
        """`A - 1` along each axis, for each quarter."""
        x = _axis_diffusion(self.gamma, self.axes[0], time).to(self.u)
        y = x if self.axes[0] is self.axes[1] else _axis_diffusion(self.gamma, self.axes[1], time).to(self.u)
        left = x[:, :, None].expand(-1, -1, y.shape[1], -1, -1)
        right = y[:, None].expand(-1, x.shape[1], -1, -1, -1)
        return left.flatten(0, 2), right.flatten(0, 2)


class _Axis(NamedTuple):
    """Eigenvectors and eigenvalues of the second difference by parity; with two parities on half of the points."""

    modes: Float[Tensor, "parity point mode"]
    eigenvalues: Float[Tensor, "parity mode"]


def _axis(grid: Grid, axis: int, device: torch.device, *, parities: int) -> _Axis:
    n, h = grid.points[axis], grid.spacing[axis]
    phi, _, k = cosine_basis(grid, axis, n)
    eigenvalues = -((2 / h * torch.sin(k * h / 2)) ** 2)
    points = n // parities
    modes = torch.stack([phi[:points, parity::parities] for parity in range(parities)]) / math.sqrt(points)
    return _Axis(modes.to(device), eigenvalues.view(-1, parities).T.contiguous().to(device))


def _axis_diffusion(gamma: Tensor, axis: _Axis, time: float) -> Float[Tensor, "batch parity point point"]:
    """`exp(gamma time Laplacian) - 1` along an axis.

    In float64: rounding errors of float32 in the row sums would act like a source at every step.
    """
    change = torch.expm1(gamma.double()[:, None, None] * time * axis.eigenvalues)
    # operands are copied into one layout: the rounding of a matrix product may depend on transposition
    scaled = (axis.modes * change[:, :, None]).contiguous()
    back = axis.modes.mT.contiguous().expand_as(scaled)
    return torch.bmm(scaled.flatten(0, 1), back.flatten(0, 1)).view_as(scaled)


def _parities(points: int) -> int:
    """2 for an even number of points; an axis with a middle point is not split."""
    return 2 if points % 2 == 0 else 1


def _fold(u: Tensor) -> Tensor:
    """(batch, x, y) to (batch, half of x, half of y, point, point), the second halves mirrored."""
    u = u[:, None, None]
    for axis in (3, 4):
        if _parities(u.shape[axis]) == 2:
            near, far = u.chunk(2, dim=axis)
            u = torch.cat([near, far.flip(axis)], dim=axis - 2)
    return u.clone(memory_format=torch.contiguous_format)


def _unfold(u: Tensor) -> Tensor:
    """The inverse of `_fold`."""
    for axis in (3, 4):
        if u.shape[axis - 2] == 2:
            near, far = u.chunk(2, dim=axis - 2)
            u = torch.cat([near, far.flip(axis)], dim=axis)
    return u[:, 0, 0]


def _butterflies(quarters: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices from quarters to their even and odd parts and back, the same for each sample."""
    pair = quarters.new_tensor([[1.0, 1.0], [1.0, -1.0]])
    x, y = (pair[:parities, :parities] for parities in quarters.shape[1:3])
    sums = torch.kron(x, y)
    return (sums / len(sums)).expand(len(quarters), -1, -1), sums.expand(len(quarters), -1, -1)
