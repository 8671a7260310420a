"""The coarse level: a multiplier for the lowest modes of the whole box."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mondrian.decomposition import Decomposition
from mondrian.grid import Grid
from mondrian.layers.base import LayerContext, LayerSpec
from mondrian.layers.update import PointwiseUpdate
from mondrian.support.checks import positive
from mondrian.support.constants import constant


@dataclass(frozen=True)
class Coarse(LayerSpec):
    r"""$v + F_2 \operatorname{gelu}(F_0 Nv + F_1 C Nv)$ with a multiplier $C$ of the modes $|k| < m$.

    With `smooth=0` the multipliers are a table. Otherwise they are a network with so many hidden units of the physical
    wave vector. Then `length`, if given, is the box on which the `modes` are counted: a larger one has more of them, up
    to the same wave number.
    """

    modes: int = 12
    expansion: int = 2
    smooth: int = 0
    length: tuple[float, ...] = ()
    norm: str | None = field(default="domain", kw_only=True)

    whole_domain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(modes=self.modes, expansion=self.expansion)
        if self.smooth < 0:
            raise ValueError(f"smooth={self.smooth} must be at least 0")
        if not all(math.isfinite(length) and length > 0 for length in self.length):
            raise ValueError(f"length={self.length} must hold finite positive lengths")
        if self.length and not self.smooth:
            raise ValueError(f"length={self.length} needs multipliers for any number of modes: smooth of at least 1")

    def build(self, context: LayerContext) -> nn.Module:
        if self.length and len(self.length) != context.dim:
            raise ValueError(f"length={self.length} must have {context.dim} entries")
        multiplier = ModeMultiplier(self, context.channels, context.dim)
        return PointwiseUpdate(multiplier, context.channels, expansion=self.expansion)


class ModeMultiplier(nn.Module):
    r"""$(Cv)(x) = \sum_{|k| < m} a_k \hat v_k \varphi_k(x)$ for each channel.

    $\varphi_k$ is a product of $e^{2 \pi i k x / L}$ on periodic axes and $1, \sqrt 2 \cos(\pi k x / L)$ between walls;
    $\hat v_k$ is the mean of $\bar\varphi_k v$ by the midpoint rule. $a_k$ is complex if any axis is periodic, and real
    otherwise. Modes that the points do not resolve are left out.

    Computed by products with the modes along each axis, at a cost linear in the points. Maps `(batch, channel, *space)`
    to the same shape; commutes with shifts along periodic axes.
    """

    def __init__(self, spec: Coarse, channels: int, dim: int) -> None:
        super().__init__()
        self.spec = spec
        self.channels = channels
        self.dim = dim
        self.plain = False
        if spec.smooth:
            self.network = nn.Sequential(nn.Linear(dim, spec.smooth), nn.GELU(), nn.Linear(spec.smooth, 2 * channels))
        else:  # both signs on all axes but the last, so that one table serves periodic axes and walls
            size = (2 * spec.modes - 1,) * (dim - 1)
            self.table = nn.Parameter(torch.randn(2, channels, *size, spec.modes) / math.sqrt(2))

    def forward(
        self, v: Float[Tensor, "batch channel *space"], domain: Decomposition
    ) -> Float[Tensor, "batch channel *space"]:
        wide = v.to(torch.promote_types(v.dtype, torch.float32))
        axes = self._axes(domain.grid, wide)
        weights = self._multipliers(axes, domain.grid)
        with torch.autocast(v.device.type, enabled=False):  # few products, in which half precision would lose digits
            return (self.definition if self.plain else self.evaluate)(wide, axes, weights).to(v.dtype)

    def definition(
        self,
        v: Float[Tensor, "batch channel *space"],
        axes: list[AxisModes],
        weights: tuple[Float[Tensor, "channel *mode"], Float[Tensor, "channel *mode"]],
    ) -> Float[Tensor, "batch channel *space"]:
        """The sum over all modes at once."""
        functions = torch.ones(1, 1, dtype=torch.complex(v, v).dtype, device=v.device)
        for axis in axes:
            functions = torch.kron(functions, torch.complex(axis.cos, axis.sin))
        coefficients = v.flatten(2).to(functions.dtype) @ functions.conj() / functions.shape[0]
        return (torch.complex(*weights).flatten(1) * coefficients @ functions.mT).real.view(v.shape)

    def evaluate(
        self,
        v: Float[Tensor, "batch channel *space"],
        axes: list[AxisModes],
        weights: tuple[Float[Tensor, "channel *mode"], Float[Tensor, "channel *mode"]],
    ) -> Float[Tensor, "batch channel *space"]:
        """The same axis by axis, in real numbers: the last axis first and, on the way back, last."""
        real, imaginary = v / math.prod(v.shape[2:]), torch.zeros_like(v[..., :0])
        is_real = True  # until the first periodic axis
        for axis, (cos, sin, ring) in reversed(list(enumerate(axes, start=2))):
            if ring and is_real:
                real, imaginary, is_real = _along(real, cos, axis), -_along(real, sin, axis), False
            elif ring:
                real, imaginary = (
                    _along(real, cos, axis) + _along(imaginary, sin, axis),
                    _along(imaginary, cos, axis) - _along(real, sin, axis),
                )
            else:
                real, imaginary = _along(real, cos, axis), imaginary if is_real else _along(imaginary, cos, axis)
        a, b = weights
        if is_real:
            real = a * real
        else:
            real, imaginary = a * real - b * imaginary, a * imaginary + b * real
        for axis, (cos, sin, ring) in enumerate(axes, start=2):
            last = all(not other.ring for other in axes[axis - 1 :])  # of the periodic axes: a real function follows
            if ring and last:
                real, is_real = _along(real, cos.mT, axis) - _along(imaginary, sin.mT, axis), True
            elif ring:
                real, imaginary = (
                    _along(real, cos.mT, axis) - _along(imaginary, sin.mT, axis),
                    _along(imaginary, cos.mT, axis) + _along(real, sin.mT, axis),
                )
            else:
                real, imaginary = _along(real, cos.mT, axis), imaginary if is_real else _along(imaginary, cos.mT, axis)
        return real

    def _axes(self, grid: Grid, v: Tensor) -> list[AxisModes]:
        """The modes along each axis; along the last periodic one those of non-negative frequency stand for both."""
        last = max((axis for axis, ring in enumerate(grid.periodic) if ring), default=None)
        return [
            AxisModes(*_axis_modes(points, modes, ring, axis != last, v.dtype, v.device), ring)
            for axis, (points, modes, ring) in enumerate(zip(v.shape[2:], self.modes(grid), grid.periodic, strict=True))
        ]

    def modes(self, grid: Grid) -> tuple[int, ...]:
        """Number $m$ of modes along each axis of a box."""
        if not self.spec.length:
            return (self.spec.modes,) * self.dim
        lengths = zip(grid.extent, self.spec.length, strict=True)
        return tuple(max(1, math.ceil(self.spec.modes * here / there - 1e-9)) for here, there in lengths)

    def _multipliers(
        self, axes: list[AxisModes], grid: Grid
    ) -> tuple[Float[Tensor, "channel *mode"], Float[Tensor, "channel *mode"]]:
        """Real and imaginary parts of $a_k$; along the last periodic axis twice those of positive frequency."""
        modes = self.modes(grid)
        signed = [axis.cos.shape[1] > m for axis, m in zip(axes, modes, strict=True)]
        if self.spec.smooth:
            like = axes[0].cos
            vectors = [
                torch.arange(1 - m if both else 0, m, device=like.device) * ((2 if axis.ring else 1) / length)
                for axis, m, both, length in zip(axes, modes, signed, grid.extent, strict=True)
            ]
            vector = math.pi * torch.stack(torch.meshgrid(*vectors, indexing="ij"), dim=-1).to(like.dtype)
            values = self.network(vector.sign() * torch.log1p(vector.abs())).movedim(-1, 0)
            table: Tensor = values.unflatten(0, (2, self.channels))
        else:
            table = self.table
            for axis, both in enumerate(signed[:-1]):
                table = table if both else table.narrow(2 + axis, self.spec.modes - 1, self.spec.modes)
        real, imaginary = table.to(axes[0].cos.dtype).unbind()
        return real, imaginary


class AxisModes(NamedTuple):
    r"""The modes of one axis at its points, $\varphi_k = c_k + i s_k$; $s_k = 0$ between walls."""

    cos: Float[Tensor, "point mode"]
    sin: Float[Tensor, "point mode"]
    ring: bool


@constant
def _axis_modes(
    points: int, modes: int, ring: bool, both: bool, dtype: torch.dtype, device: torch.device
) -> tuple[Float[Tensor, "point mode"], Float[Tensor, "point mode"]]:
    """Cosines and sines at cell-centred points; zero where the points do not resolve a mode.

    With `both` signs of the frequency; otherwise of non-negative ones, times the root of the 2 that counts the others.
    """
    place = (torch.arange(points, dtype=torch.float64, device=device) + 0.5) / points
    k = torch.arange(1 - modes if ring and both else 0, modes, dtype=torch.float64, device=device)
    angle = (2 if ring else 1) * math.pi * place[:, None] * k
    factor = torch.where((k == 0) | torch.tensor(ring and both, device=device), 1.0, math.sqrt(2.0)).to(k.dtype)
    factor = factor * ((2 if ring else 1) * k.abs() < points)
    sin = angle.sin() if ring else torch.zeros_like(angle)
    return (angle.cos() * factor).to(dtype), (sin * factor).to(dtype)


def _along(u: Float[Tensor, "..."], matrix: Float[Tensor, "given wanted"], axis: int) -> Float[Tensor, "..."]:
    """The product with a matrix along one axis."""
    return (u.movedim(axis, -1) @ matrix).movedim(-1, axis)
