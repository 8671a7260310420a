"""A model on a box, applied to batches of samples."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from mondrian.artefact import OperatorModel
from mondrian.grid import Grid
from mondrian.models.on_grid import apply_on
from mondrian.resampling import resample
from mondrian.rollout import Advance, field_and_step, rollout
from mondrian.surrogate import Surrogate, evaluating


class Predictor:
    """`applications` of a model in a row, on a box, with the names of its input and output channels.

    Predictions are at the points of `out_grid`, by default at those of the input.

    A `Surrogate` works in physical units and knows its channels. Any other model is applied as it is; its channels are
    numbered, and it cannot be rolled out.

    >>> from mondrian import vit_no
    >>> model = vit_no(in_channels=2, out_channels=1, hidden_channels=8, subdomains=(2, 2))
    >>> predictor = Predictor(model)
    >>> predictor.in_names, predictor.out_names, predictor.box.extent
    (('0', '1'), ('0',), (1.0, 1.0))
    """

    def __init__(
        self, model: OperatorModel, *, grid: Grid | None = None, out_grid: Grid | None = None, applications: int = 1
    ) -> None:
        spec: Any = model.spec
        if not hasattr(spec, "default_grid"):
            raise ValueError(f"{type(spec).__name__} is a model of functions on meshes; needed one of fields on grids")
        self.model, self.applications = model, applications
        self.named = isinstance(model, Surrogate)
        self.box: Grid = grid or spec.default_grid.with_points(())  # whatever the points of the input
        self.out_grid = out_grid
        self.dim: int = spec.default_grid.dim
        if self.box.dim != self.dim:
            raise ValueError(f"grid has {self.box.dim} axes; the model has {self.dim}")
        if out_grid is not None and (out_grid.dim != self.dim or not out_grid.points):
            raise ValueError(f"out_grid={out_grid} must have points along {self.dim} axes")
        if applications < 1:
            raise ValueError(f"steps={applications} must be at least 1")
        if applications > 1 and not self.named:
            raise ValueError(f"steps={applications} needs the names of the channels; only a Surrogate knows them")
        self.in_names: tuple[str, ...] = spec.in_names if self.named else _numbers(spec.in_channels)
        once: tuple[str, ...] = spec.out_names if self.named else _numbers(spec.out_channels)
        steps = Advance(self.in_names, once).steps if applications > 1 else 0
        self.out_names = tuple(_later(name, n * steps) for n in range(applications) for name in once)
        self._logarithms = [scale.log for scale in spec.in_scales] if self.named else [False] * len(self.in_names)
        weights = next(model.parameters())
        self.dtype, self.device = weights.dtype, weights.device
        # A surrogate in half precision takes single precision, because half precision may not hold physical values.
        self.in_dtype = torch.promote_types(self.dtype, torch.float32) if self.named else self.dtype

    def __call__(
        self, x: Shaped[Tensor, "batch channel *space"], *, first: int = 0
    ) -> Float[Tensor, "batch predicted *points"]:
        """The prediction for a batch, on the device of the model; errors count samples from `first` on."""
        self.check_shape(tuple(x.shape))
        x = self.prepared(x, first=first)
        with torch.no_grad():  # not inference mode: the model may keep tensors that training meets later
            return self.answer(x)

    def answer(self, x: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch predicted *points"]:
        """The prediction for samples that `prepared` has checked."""
        if self.applications == 1:
            if isinstance(self.model, Surrogate) and self.out_grid is not None:
                return self.model(x, self.box, self.out_grid)
            return apply_on(self.model, x, self.box, self.out_grid)
        assert isinstance(self.model, Surrogate)
        y = rollout(self.model, x, self.applications, self.box)
        if self.out_grid is None:
            return y
        return resample(y, self.box.with_points(tuple(x.shape[2:])), self.out_grid)

    def out_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the prediction for a batch of this shape."""
        points = shape[2:] if self.out_grid is None else self.out_grid.points
        return (shape[0], len(self.out_names), *points)

    def prepared(
        self, x: Shaped[Tensor, "batch channel *space"], *, first: int = 0
    ) -> Float[Tensor, "batch channel *space"]:
        """Samples, or slabs of them, as the model takes them: checked, of `in_dtype` and on its device."""
        if x.is_complex():
            raise ValueError(f"x has dtype {x.dtype}; needed real numbers")
        x = x.to(self.device, self.in_dtype)
        self._check_values(x, first)
        return x

    def check_shape(self, shape: tuple[int, ...], name: str = "x") -> None:
        """Refuse a shape that is no batch of samples for this model."""
        channels = len(self.in_names)
        if len(shape) != self.dim + 2 or shape[1] != channels:
            names = f" ({', '.join(self.in_names)})" if self.named else ""
            raise ValueError(
                f"{name} has shape {shape}; needed (batch, {channels} channels{names}, {self.dim} space axes), "
                "or one sample without the batch axis"
            )
        if 0 in shape:
            raise ValueError(f"{name} has shape {shape}; needed at least one sample and one point")
        if self.box.points and self.box.points != shape[2:]:
            raise ValueError(f"{name} has {shape[2:]} points; the grid has {self.box.points}")

    def _check_values(self, x: Float[Tensor, "batch channel *space"], first: int) -> None:
        flat = x.flatten(2)
        finite = torch.isfinite(flat).all(dim=-1)
        if not finite.all():
            sample, channel = (~finite).nonzero()[0].tolist()
            raise ValueError(
                f"sample {first + sample}, channel {self.in_names[channel]!r} holds NaN or infinite values "
                f"(in {str(self.dtype).removeprefix('torch.')}); needed finite numbers"
            )
        for channel, logarithmic in enumerate(self._logarithms):
            if logarithmic and not (flat[:, channel] > 0).all():
                sample = int((flat[:, channel] <= 0).any(dim=-1).nonzero()[0])
                value = flat[sample, channel].min().item()
                raise ValueError(
                    f"sample {first + sample}, channel {self.in_names[channel]!r} holds {value:g}; "
                    "needed positive numbers, since the model takes their logarithm"
                )


@overload
def predict(
    model: OperatorModel,
    x: Tensor,
    *,
    grid: Grid | None = None,
    out_grid: Grid | None = None,
    steps: int = 1,
    batch_size: int = 32,
) -> Tensor: ...
@overload
def predict(
    model: OperatorModel,
    x: Shaped[np.ndarray, "..."],
    *,
    grid: Grid | None = None,
    out_grid: Grid | None = None,
    steps: int = 1,
    batch_size: int = 32,
) -> Shaped[np.ndarray, "..."]: ...
def predict(
    model: OperatorModel,
    x: Tensor | Shaped[np.ndarray, "..."],
    *,
    grid: Grid | None = None,
    out_grid: Grid | None = None,
    steps: int = 1,
    batch_size: int = 32,
) -> Tensor | Shaped[np.ndarray, "..."]:
    """The predictions for `(batch, channel, *space)`, or for one sample `(channel, *space)`.

    The result is an array or a tensor like `x`, on its device and in its precision, or in the model's if `x` holds
    integers or booleans. `batch_size` samples are predicted at a time, in the precision of the model. `steps`
    applications in a row follow each other along the channels. `grid` is the box of the samples, by default the model's
    own; `out_grid` has the points of the predictions, by default those of the samples.

    >>> from mondrian import vit_no
    >>> model = vit_no(in_channels=1, out_channels=1, hidden_channels=8, subdomains=(2,))
    >>> predict(model, np.zeros((100, 1, 16)), batch_size=32).shape, predict(model, torch.zeros(1, 16)).shape
    ((100, 1, 16), torch.Size([1, 16]))
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    predictor = Predictor(model, grid=grid, out_grid=out_grid, applications=steps)
    single = x.ndim == predictor.dim + 1
    batch = x[None] if single else x
    predictor.check_shape(tuple(batch.shape))
    shape = predictor.out_shape(tuple(batch.shape))
    pieces = [slice(start, start + batch_size) for start in range(0, len(batch), batch_size)]
    with evaluating(model):
        if isinstance(batch, Tensor):
            y = torch.empty(
                shape, dtype=batch.dtype if batch.is_floating_point() else predictor.dtype, device=batch.device
            )
            for piece in pieces:
                y[piece] = predictor(batch[piece], first=piece.start).to(y)
            return y[0] if single else y
        z = np.empty(shape, dtype=answer_dtype(batch.dtype, predictor.dtype))
        for piece in pieces:
            z[piece] = as_numpy(predictor(as_tensor(batch[piece]), first=piece.start), z.dtype)
    return z[0] if single else z


def as_tensor(values: Shaped[np.ndarray, "..."]) -> Shaped[Tensor, "..."]:
    """A copy of `values`; whole numbers and booleans become float64."""
    if values.dtype.kind not in "fiub":
        raise ValueError(f"x has dtype {values.dtype}; needed real numbers")
    known = values.dtype.kind == "f" and values.dtype.itemsize <= 8
    return torch.from_numpy(np.array(values, dtype=values.dtype.newbyteorder("=") if known else np.float64, order="C"))


def as_numpy(values: Float[Tensor, "..."], dtype: np.dtype[Any]) -> Shaped[np.ndarray, "..."]:
    """The inverse of `as_tensor`; values too large for `dtype` become infinite, as in torch."""
    values = values.cpu()
    with np.errstate(over="ignore"):
        return (values.float() if values.dtype is torch.bfloat16 else values).numpy().astype(dtype, copy=False)


def answer_dtype(given: np.dtype[Any], model: torch.dtype) -> np.dtype[Any]:
    """The dtype of predictions for values of dtype `given`: the same, or the model's for integers and booleans."""
    if given.kind == "f" and given.itemsize <= 8:
        return given.newbyteorder("=")
    return np.dtype(np.float64 if model is torch.float64 else np.float32)


def _numbers(count: int) -> tuple[str, ...]:
    return tuple(str(number) for number in range(count))


def _later(name: str, steps: int) -> str:
    field, step = field_and_step(name)
    return name if step is None else f"{field}[{step + steps}]"
