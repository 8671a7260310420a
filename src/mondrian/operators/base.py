"""The base of all subdomain operators: maps between functions on the reference cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from mondrian.operators.derivatives import is_transformed
from mondrian.operators.kernel_cache import KernelCache
from mondrian.quadrature import Cell
from mondrian.support.checks import positive
from mondrian.support.spec import Spec

T = TypeVar("T")


class SubdomainOperator(nn.Module):
    r"""A map $(Iv)(x) = \int k(x, y)\, v(y)\, dy + b$ on the cell, evaluated at any points of the cell.

    Takes `(batch, cell, in_channels, point)` to `(batch, cell, out_channels, point)`. With `parts` the output is that
    many tensors with equal numbers of channels, such as queries, keys and values. `definition` reads like the equation;
    `evaluate` is the fast form, equal to it, and returns new memory, which may be overwritten. With `plain` set the
    operator runs its definition.
    """

    linear = True  # in v, up to the bias

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool, dim: int | None = None) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.dim = dim  # of the cells; None if any dimension fits
        self.plain = False
        self.cache = KernelCache()
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def forward(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell, *, parts: int | None = None
    ) -> Float[Tensor, "batch cell channel_out point"] | tuple[Float[Tensor, "batch cell channel_part point"], ...]:
        if self.dim not in (None, len(cell.points)):
            raise ValueError(
                f"cell has points={cell.points}; needed {self.dim} axes, as the operator has dim={self.dim}"
            )
        if v.ndim != 4 or v.shape[2] != self.in_channels or v.shape[3] != cell.size:
            raise ValueError(
                f"v has shape {tuple(v.shape)}; needed (batch, cell, {self.in_channels} channels, {cell.size} points)"
            )
        if parts is None:
            return self.definition(v, cell) if self.plain else self.evaluate(v, cell)
        positive(parts=parts)
        if self.out_channels % parts:
            raise ValueError(f"parts={parts} must divide out_channels={self.out_channels}")
        return self.definition(v, cell).chunk(parts, dim=2) if self.plain else self.evaluate_parts(v, cell, parts)

    def definition(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        raise NotImplementedError

    def evaluate(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        """The fast form of `definition`, where there is one."""
        return self.definition(v, cell)

    def evaluate_parts(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell, parts: int
    ) -> tuple[Float[Tensor, "batch cell channel_part point"], ...]:
        """`evaluate` with the output channels in parts, written separately where that is faster than to cut."""
        return self.evaluate(v, cell).chunk(parts, dim=2)

    def add_bias(
        self, u: Float[Tensor, "batch cell channel_out point"]
    ) -> Float[Tensor, "batch cell channel_out point"]:
        """Add the constant function $b$, if there is one."""
        return u if self.bias is None else u + self.bias[:, None]

    def cached(self, cell: Cell, label: object, make: Callable[[], T]) -> T:
        """`make()`, cached while no gradient is recorded and the weights stay.

        Nothing is cached in training: a fused optimiser writes to weights without being counted.
        """
        return make() if self.training else self.cache.get(list(self.parameters()), cell, label, make)

    def train(self, mode: bool = True) -> SubdomainOperator:
        """Switch between training and evaluation, and clear the cache."""
        self.forget()
        return super().train(mode)

    def forget(self) -> None:
        """Clear the cache: the weights may have changed or moved."""
        self.cache.clear()

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> SubdomainOperator:
        super()._apply(change, recurse)
        self.forget()
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self.forget()

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, bias={self.bias is not None}"


@dataclass(frozen=True)
class OperatorSpec(Spec):
    """Describes a subdomain operator; `build` makes it for given channels and a given dimension."""

    def build(self, in_channels: int, out_channels: int, *, dim: int = 2, bias: bool = True) -> SubdomainOperator:
        """The linear form, as used for queries, keys, values and output."""
        raise NotImplementedError

    def feed_forward(self, in_channels: int, hidden_channels: int, out_channels: int, *, dim: int = 2) -> nn.Module:
        """The feed-forward form $I_2[\\mathrm{gelu}(I_1 v + b_1)] + b_2$."""
        return FeedForward(
            self.build(in_channels, hidden_channels, dim=dim),
            self.build(hidden_channels, out_channels, dim=dim),
        )


class FeedForward(nn.Module):
    r"""Two operators and an activation: $I_2[\operatorname{gelu}(I_1 v + b_1)] + b_2$."""

    def __init__(self, first: SubdomainOperator, second: SubdomainOperator) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(
        self, v: Float[Tensor, "batch cell channel_in point"], cell: Cell
    ) -> Float[Tensor, "batch cell channel_out point"]:
        return self.second(gelu(self.first(v, cell)), cell)


def add_skip(
    u: Float[Tensor, "batch cell channel_out point"],
    skip: nn.Linear | None,
    v: Float[Tensor, "batch cell channel_in point"],
) -> Float[Tensor, "batch cell channel_out point"]:
    """$u + S v$ with a 1x1 skip $S$; $u$ without one."""
    return u if skip is None else u + skip(v.mT).mT


def gelu(hidden: Tensor) -> Tensor:
    """The activation of a tensor that nothing else uses: in place where no gradient is recorded."""
    return F.gelu(hidden) if is_recorded() else torch.ops.aten.gelu_(hidden)


def is_recorded() -> bool:
    """Whether the computation may be differentiated or compiled, which rules out changes in place."""
    return torch.is_grad_enabled() or torch.compiler.is_compiling() or is_transformed()


def use_definitions(model: nn.Module, plain: bool = True) -> nn.Module:
    """Let every module of `model` that has a plain definition run it: the reference for tests and benchmarks."""
    for module in model.modules():
        if hasattr(module, "plain"):
            setattr(module, "plain", plain)  # noqa: B010 -- nn.Module types its attributes as tensors and modules
    return model
