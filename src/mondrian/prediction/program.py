"""A model as one file that runs without this library: a program of `torch.export`, or ONNX.

The program is the prediction at a fixed number of points for any number of samples, in physical units, scales and
resampling included. With `surrogate.pt2` and `surrogate.onnx`:

    with torch.no_grad():
        y = torch.export.load("surrogate.pt2").module()(x)
    (y,) = onnxruntime.InferenceSession("surrogate.onnx").run(["y"], {"x": x})

Beside the program stands what it takes and gives, as JSON: in a `.pt2` the extra file `mondrian.json`, in ONNX the
metadata `mondrian`.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from mondrian.operators import KernelMethod
from mondrian.operators.ridge_operator import RidgeOperator
from mondrian.prediction.predictor import Predictor
from mondrian.support.files import write_atomically
from mondrian.support.libraries import MissingLibrary, library
from mondrian.surrogate import Surrogate, evaluating

NAME = "mondrian"  # of the description in the file
MADE_WITH = 2  # samples of the traced batch: the exporter would take one sample for a constant
TRIED_WITH = (1, 3)  # samples of the batches that the program is tested with
TOLERANCE = 1e-3  # allowed difference between program and model, relative to a channel's range
ROUNDING = 64  # plus so many float32 rounding errors of the channel's largest value
MODEL_ROUNDING = 8  # plus so many rounding errors in the model's precision of the largest value without its offset

Written = tuple[bytes, Callable[[Tensor], Tensor]]  # the content of a file, and a function that runs it


def write_program(predictor: Predictor, file: str | Path, points: tuple[int, ...]) -> None:
    """Write the prediction at these points as a program; `file` ends in `.pt2` or `.onnx`.

    What is written was run first, on other numbers of samples than it was made with, and has given the answers of the
    model.
    """
    file, kinds = Path(file), {".pt2": _torch, ".onnx": _onnx}
    if file.suffix not in kinds:
        raise ValueError(f"file={file} must end in {' or '.join(kinds)}")
    with evaluating(predictor.model):
        try:
            content, run = kinds[file.suffix](predictor, points)
            for count in TRIED_WITH:
                x = samples(predictor, points, count)
                _compare(predictor, predictor(x), run(x))
        except (ValueError, MissingLibrary):
            raise
        except Exception as error:  # exporters have no error in common
            raise ValueError(
                f"{file}: {_reason(error)}; needed a model that {file.suffix} can express, or the other kind of file"
            ) from error
    write_atomically(file, content)


def exported(predictor: Predictor, points: tuple[int, ...]) -> ExportedProgram:
    """The prediction as a graph, for any number of samples."""
    x = samples(predictor, points, MADE_WITH)
    with evaluating(predictor.model), torch.no_grad(), _kept_evaluations(predictor, x), _quietly():
        return torch.export.export(PredictorModule(predictor), (x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})


def description(predictor: Predictor, points: tuple[int, ...]) -> str:
    """The inputs and outputs of a program, as JSON."""
    box = predictor.box.with_points(points)
    about = {
        "in": list(predictor.in_names),
        "out": list(predictor.out_names),
        "grid": box.to_json(),
        "out_grid": (predictor.out_grid or box).to_json(),
        "dtype": str(predictor.in_dtype).removeprefix("torch."),
    }
    return json.dumps(about)


def samples(predictor: Predictor, points: tuple[int, ...], count: int) -> Float[Tensor, "batch channel *space"]:
    """Random fields at the scale of the training data."""
    if len(points) != predictor.dim or min(points) < 1:
        raise ValueError(f"points={points} must give at least one point along each of {predictor.dim} axes")
    shape = (count, len(predictor.in_names), *points)
    z = torch.randn(shape, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    z = z.to(predictor.device, predictor.in_dtype)
    return predictor.model.physical_input(z) if isinstance(predictor.model, Surrogate) else z


class PredictorModule(nn.Module):
    """A predictor as the module that is exported."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.model = predictor.model
        self.answer = predictor.answer

    def forward(self, x: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch predicted *points"]:
        return self.answer(x)


class PlainAttention(TorchFunctionMode):
    """Attention as two products and a softmax: the exporter to ONNX fails on the memory layout of the fused one."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is F.scaled_dot_product_attention:
            return self.attend(*args, **kwargs)
        return function(*args, **(kwargs or {}))

    @staticmethod
    def attend(q: Tensor, k: Tensor, v: Tensor, *, scale: float, attn_mask: Tensor | None = None) -> Tensor:
        score = scale * q @ k.mT
        return torch.softmax(score if attn_mask is None else score + attn_mask, dim=-1) @ v


def _torch(predictor: Predictor, points: tuple[int, ...]) -> Written:
    program = exported(predictor, points)
    buffer, module = io.BytesIO(), program.module()
    with _quietly():
        torch.export.save(program, buffer, extra_files={f"{NAME}.json": description(predictor, points)})

    def run(x: Tensor) -> Tensor:
        with torch.no_grad():
            return module(x)

    return buffer.getvalue(), run


def _onnx(predictor: Predictor, points: tuple[int, ...]) -> Written:
    _, _, runtime = (library(name, extra="onnx") for name in ("onnx", "onnxscript", "onnxruntime"))
    with PlainAttention():
        program = exported(predictor, points)
    with _quietly():
        made = torch.onnx.export(program, dynamo=True, input_names=["x"], output_names=["y"], verbose=False)
    assert made is not None
    made.model.metadata_props[NAME] = description(predictor, points)
    content = made.model_proto.SerializeToString()
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])

    def run(x: Tensor) -> Tensor:
        (y,) = session.run(["y"], {"x": x.cpu().numpy()})
        return torch.from_numpy(y)

    return content, run


def _compare(
    predictor: Predictor,
    wanted: Float[Tensor, "batch channel *points"],
    exported: Float[Tensor, "batch channel *points"],
) -> None:
    """Refuse a program that differs from its model in any channel."""
    wanted, exported = (y.to("cpu", torch.float64).transpose(0, 1).flatten(1) for y in (wanted, exported))
    rounding = ROUNDING * torch.finfo(torch.float32).eps * wanted.abs().amax(dim=1)
    rounding += MODEL_ROUNDING * torch.finfo(predictor.dtype).eps * (wanted - _offsets(predictor)).abs().amax(dim=1)
    error = (exported - wanted).abs().amax(dim=1)
    allowed = TOLERANCE * (wanted.amax(dim=1) - wanted.amin(dim=1)) + rounding
    if not bool((error <= allowed).all()):
        channel = int((error / allowed).nan_to_num(nan=torch.inf).argmax())
        raise ValueError(f"channel {channel} of the program differs from its model by {error[channel]:.2g}")


def _offsets(predictor: Predictor) -> Float[Tensor, "channel 1"]:
    """The shifts of the output scales, in double precision."""
    if not isinstance(predictor.model, Surrogate):
        return torch.zeros(len(predictor.out_names), 1, dtype=torch.float64)
    shifts = [0.0 if scale.log else scale.shift for scale in predictor.model.spec.out_scales]
    return torch.tensor(shifts * predictor.applications, dtype=torch.float64)[:, None]


def _reason(error: BaseException) -> str:
    """The first cause of an error in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _kept_evaluations(predictor: Predictor, x: Float[Tensor, "batch channel *space"]) -> Iterator[None]:
    """What operators choose for these samples, for any number of them: a program has one way through it."""
    operators = [part for part in predictor.model.modules() if isinstance(part, RidgeOperator) and not part.method]
    chosen: dict[RidgeOperator, KernelMethod] = {}

    def look(operator: nn.Module, given: tuple[Any, ...]) -> None:
        assert isinstance(operator, RidgeOperator)
        v, cell = given
        chosen[operator] = operator.choose(v.shape[0] * v.shape[1], cell)

    hooks = [operator.register_forward_pre_hook(look) for operator in operators]
    try:
        predictor.answer(x)
    finally:
        for hook in hooks:
            hook.remove()
    try:
        for operator, evaluation in chosen.items():
            operator.method = evaluation
        yield
    finally:
        for operator in chosen:
            operator.method = None


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the messages of the exporters."""
    loggers = [logging.getLogger(name) for name in ("onnxscript", "onnx_ir", "torch.onnx", "torch.export")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
