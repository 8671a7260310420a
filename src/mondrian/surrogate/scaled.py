"""A model between the scales of its channels: physical units in and out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from mondrian.artefact import ModelSpec, OperatorModel
from mondrian.support.spec import Spec


@dataclass(frozen=True)
class Scale(Spec):
    r"""How one channel enters a model: $z = (f(u) - \text{shift}) / \text{factor}$, $f$ the identity or $\log_{10}$.

    >>> Scale(shift=-3.0, factor=0.5, log=True)
    Scale(shift=-3.0, factor=0.5, log=True)
    """

    shift: float = 0.0
    factor: float = 1.0
    log: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.factor < float("inf") or not abs(self.shift) < float("inf"):
            raise ValueError(f"shift={self.shift} and factor={self.factor} must be finite, the factor positive")


@dataclass(frozen=True)
class ScaledSpec(ModelSpec):
    """A model and the scale and name of each of its channels."""

    model: ModelSpec
    in_names: tuple[str, ...]
    out_names: tuple[str, ...]
    in_scales: tuple[Scale, ...]
    out_scales: tuple[Scale, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for side in ("in", "out"):
            names, scales = getattr(self, f"{side}_names"), getattr(self, f"{side}_scales")
            channels = getattr(self.model, f"{side}_channels")
            if not len(names) == len(scales) == channels:
                raise ValueError(
                    f"{side}_names={names} and {len(scales)} {side}_scales; the model has {side}_channels={channels}"
                )

    def build(self) -> ScaledModel:
        """The model with new weights."""
        raise NotImplementedError


class ScaledModel(OperatorModel):
    """A model and its scales: training works in scaled units, everything else in physical ones."""

    spec: ScaledSpec

    def __init__(self, spec: ScaledSpec) -> None:
        super().__init__()
        self.spec = spec
        self.model = spec.model.build()
        self._input = _Scales(spec.in_scales)
        self._output = _Scales(spec.out_scales)

    def predict(
        self, x: Shaped[Tensor, "batch channel *space"], domain: Any, *, name: str = "the input"
    ) -> Float[Tensor, "batch out_channel *space"]:
        """The prediction at the points of `domain`, in physical units.

        The domain is a grid, or a set of points for a surrogate on meshes. `x` may be on any device and in any
        precision; the prediction is on the model's device, in `physical_dtype`. Errors call the input by its `name`.
        """
        prediction: Tensor = self(self.placed(x), domain)
        return prediction.to(self.physical_dtype)

    def placed(self, x: Shaped[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Values in physical units on the model's device, in `physical_dtype`."""
        return x.to(self.device, self.physical_dtype)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._weight.device

    @property
    def physical_dtype(self) -> torch.dtype:
        """The precision of values in physical units: single or better, because half precision may not hold them."""
        return torch.promote_types(self._weight.dtype, torch.float32)

    @property
    def _weight(self) -> Tensor:
        return next(chain(self.parameters(), self.buffers()))

    def scaled_input(self, x: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        """The input of the model, rounded to its precision only after scaling."""
        z = self._input(_with_channels(x, self.spec.in_names))
        weights = next(self.parameters()).dtype
        return z.to(weights) if weights.itemsize < z.dtype.itemsize == torch.float32.itemsize else z

    def physical_input(self, z: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        """The inverse of `scaled_input`."""
        return self._input.inverse(z)

    def scaled_output(self, y: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        """The target of the model."""
        return self._output(_with_channels(y, self.spec.out_names))

    def physical_output(self, z: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch channel *space"]:
        """The inverse of `scaled_output`."""
        return self._output.inverse(z)


def _with_channels(x: Tensor, names: tuple[str, ...]) -> Tensor:
    """Refuse another number of channels: the scales would broadcast."""
    if x.ndim > 1 and x.shape[1] != len(names):
        raise ValueError(f"x has {x.shape[1]} channels; needed {len(names)}: {names}")
    return x


class _Scales(nn.Module):
    """The scales of all channels. Identity scales cost nothing."""

    shift: Tensor
    factor: Tensor

    def __init__(self, scales: tuple[Scale, ...]) -> None:
        super().__init__()
        self.trivial = all(scale == Scale() for scale in scales)
        self.logarithms = tuple(channel for channel, scale in enumerate(scales) if scale.log)
        self.exact = {name: [getattr(scale, name) for scale in scales] for name in ("shift", "factor")}
        for name, values in self.exact.items():
            self.register_buffer(name, torch.tensor(values, dtype=torch.float64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.trivial:
            return x
        wide = _at_least_single(x)
        shift, factor = (self._along(wide, value) for value in (self.shift, self.factor))
        return ((self._where_log(wide, torch.log10) - shift) / factor).to(x.dtype)

    def inverse(self, z: Tensor) -> Tensor:
        if self.trivial:
            return z
        z = _at_least_single(z)
        shift, factor = (self._along(z, value) for value in (self.shift, self.factor))
        return self._where_log(z * factor + shift, lambda part: 10**part)

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> _Scales:
        """Moves with the model but stays in double precision when the model is cast."""
        super()._apply(change, recurse)
        for name, values in self.exact.items():
            setattr(self, name, torch.tensor(values, dtype=torch.float64, device=getattr(self, name).device))
        return self

    def _where_log(self, x: Tensor, function: object) -> Tensor:
        if not self.logarithms:
            return x
        parts = [function(part) if n in self.logarithms else part for n, part in enumerate(x.split(1, dim=1))]  # type: ignore[operator]
        return torch.cat(parts, dim=1)

    @staticmethod
    def _along(x: Tensor, values: Tensor) -> Tensor:
        return values.to(x.dtype).reshape(-1, *(1,) * (x.ndim - 2))


def _at_least_single(x: Tensor) -> Tensor:
    """Lower precisions cannot hold a field with an offset."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """All layers in evaluation mode; afterwards each is as it was."""
    training = [module for module in model.modules() if module.training]
    if training:
        model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards the model is as it was."""
    with evaluating(model), torch.inference_mode():
        yield
