"""A model as one file that runs without this library: a program of `torch.export`, or ONNX.

The program is the prediction at a fixed number of points for any number of samples, in physical units, scales and
resampling included. With `surrogate.pt2` and `surrogate.onnx`:

    torch.export.load("surrogate.pt2").module()(x)
    onnxruntime.InferenceSession("surrogate.onnx").run(["y"], {"x": x})

Beside the program stands what it takes and gives, as JSON: in a `.pt2` the extra file `mondrian.json`, in ONNX the
metadata `mondrian`.
"""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from mondrian.extras import library
from mondrian.files import write_atomically
from mondrian.operators import Evaluation
from mondrian.operators.ridge_operator import RidgeOperator
from mondrian.prediction.predictor import Predictor

KINDS = (".pt2", ".onnx")
NAME = "mondrian"  # of the description in the file
TOLERANCE = 1e-3  # of the largest value: what a program may differ from its model by before it is refused
SAMPLES = 2  # in the batch that a program is made with: not one, which would be taken for a constant


def write_program(predictor: Predictor, file: str | Path, points: tuple[int, ...]) -> None:
    """Write the prediction at these points as a program; `file` ends in `.pt2` or `.onnx`.

    What is written was run first, on another number of samples, and has given the answers of the model.
    """
    file = Path(file)
    if file.suffix not in KINDS:
        raise ValueError(f"file={file} must end in {' or '.join(KINDS)}")
    x = _samples(predictor, points, SAMPLES)
    content = _onnx(predictor, x, file) if file.suffix == ".onnx" else _program(predictor, x)
    write_atomically(file, content)


def description(predictor: Predictor, points: tuple[int, ...]) -> dict[str, Any]:
    """What a program takes and gives."""
    box = predictor.box.with_points(points)
    return {
        "in": list(predictor.in_names),
        "out": list(predictor.out_names),
        "grid": box.to_json(),
        "out_grid": (predictor.out_grid or box).to_json(),
        "dtype": str(predictor.dtype).removeprefix("torch."),
    }


class Prediction(nn.Module):
    """A predictor as the module that is exported."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.model = predictor.model
        self.answer = predictor.answer

    def forward(self, x: Float[Tensor, "batch channel *space"]) -> Float[Tensor, "batch predicted *points"]:
        return self.answer(x)


class PlainAttention(TorchFunctionMode):
    """Attention as two products and a softmax: the engine's own has a layout that ONNX's exporter trips over."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is F.scaled_dot_product_attention:
            return self.attend(*args, **kwargs)
        return function(*args, **(kwargs or {}))

    @staticmethod
    def attend(q: Tensor, k: Tensor, v: Tensor, *, scale: float, attn_mask: Tensor | None = None) -> Tensor:
        score = scale * q @ k.mT
        return torch.softmax(score if attn_mask is None else score + attn_mask, dim=-1) @ v


def exported(predictor: Predictor, x: Float[Tensor, "batch channel *space"]) -> ExportedProgram:
    """The prediction as a graph, for any number of samples like these."""
    predictor.model.eval()
    with torch.no_grad(), _kept_evaluations(predictor, x), _quietly():
        return torch.export.export(Prediction(predictor), (x,), dynamic_shapes={"x": {0: Dim.DYNAMIC}})


def _program(predictor: Predictor, x: Float[Tensor, "batch channel *space"]) -> bytes:
    program = exported(predictor, x)
    more = _samples(predictor, tuple(x.shape[2:]), 3)
    with torch.no_grad():
        _compare(predictor, more, program.module()(more))
    buffer = io.BytesIO()
    with _quietly():
        torch.export.save(program, buffer, extra_files={f"{NAME}.json": _text(predictor, x)})
    return buffer.getvalue()


def _onnx(predictor: Predictor, x: Float[Tensor, "batch channel *space"], file: Path) -> bytes:
    for needed in ("onnx", "onnxscript"):
        library(needed, extra="onnx")
    runtime = library("onnxruntime", extra="onnx")
    with PlainAttention():
        program = exported(predictor, x)
    try:
        with _quietly():
            made = torch.onnx.export(program, dynamo=True, input_names=["x"], output_names=["y"], verbose=False)
    except torch.onnx.OnnxExporterError as error:
        raise ValueError(
            f"{file}: {_reason(error)}; needed a model that ONNX can express, or a file in .pt2"
        ) from error
    assert made is not None
    made.model.metadata_props[NAME] = _text(predictor, x)
    content: bytes = made.model_proto.SerializeToString()
    more = _samples(predictor, tuple(x.shape[2:]), 3)
    session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (found,) = session.run(["y"], {"x": more.cpu().numpy()})
    _compare(predictor, more, torch.from_numpy(found))
    return content


def _samples(predictor: Predictor, points: tuple[int, ...], count: int) -> Float[Tensor, "batch channel *space"]:
    """Positive random numbers of about one, since some channels may be taken the logarithm of."""
    shape = (count, len(predictor.in_names), *points)
    predictor.check_shape(shape, name="points")
    numbers = torch.Generator().manual_seed(0)
    return (0.5 + torch.rand(shape, generator=numbers, dtype=torch.float64)).to(predictor.device, predictor.dtype)


def _compare(predictor: Predictor, x: Float[Tensor, "batch channel *space"], found: Tensor) -> None:
    """Refuse a program that does not answer what its model does."""
    wanted = predictor(x).cpu()
    error = (found.cpu() - wanted).abs().max().item()
    if not error <= TOLERANCE * wanted.abs().max().item():
        raise ValueError(f"the program differs from its model by {error:.2g} of {wanted.abs().max().item():.2g}")


def _text(predictor: Predictor, x: Float[Tensor, "batch channel *space"]) -> str:
    return json.dumps(description(predictor, tuple(x.shape[2:])))


def _reason(error: BaseException) -> str:
    """The first cause of an error, in a line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().splitlines()[0]


@contextmanager
def _kept_evaluations(predictor: Predictor, x: Float[Tensor, "batch channel *space"]) -> Iterator[None]:
    """What operators choose for these samples, for any number of them: a program has one way through it."""
    operators = [part for part in predictor.model.modules() if isinstance(part, RidgeOperator) and not part.evaluation]
    chosen: dict[RidgeOperator, Evaluation] = {}

    def look(operator: nn.Module, given: tuple[Any, ...]) -> None:
        assert isinstance(operator, RidgeOperator)
        v, cell = given
        chosen[operator] = operator.choose(v.shape[0] * v.shape[1], cell)

    hooks = [operator.register_forward_pre_hook(look) for operator in operators]
    predictor.answer(x)
    for hook in hooks:
        hook.remove()
    try:
        for operator, evaluation in chosen.items():
            operator.evaluation = evaluation
        yield
    finally:
        for operator in chosen:
            operator.evaluation = None


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the exporters' remarks about themselves."""
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
