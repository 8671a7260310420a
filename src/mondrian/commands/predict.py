"""Apply a trained model to files of any size: physical units in, physical units out.

  mondrian predict runs/ac                                      what the model takes and gives
  mondrian predict runs/ac x.npy -o y.npy                       one application to every sample
  mondrian predict runs/ac x.npy -o y.npy --steps 20            20 in a row, each one on the answers of the last
  mondrian predict runs/ac start.npz -o next.pt --batch 8       8 samples in memory at a time (default 32)
  mondrian predict runs/ac data/ac --split test --points 64x64 -o next.hdf5 --steps 5 --device cuda

The model is a run of `mondrian train` (its best one), or any folder that `save_pretrained` wrote.

Arrays are (batch, channel, *space), or one sample (channel, *space), answered in the same way; channels as the
first example lists them. The answer holds the predicted channels, step after step for --steps. Files say by
their names what they are, and any kind of input goes with any kind of output:

  .npy         one array
  .npz, .pt    one array (the answer in an .npz is called y); or, in, one for each channel or field by its name:
               np.savez("start.npz", u=u, gamma=1e-3) with u (batch, *space), or (batch, step, *space) if the
               model takes several; a field of several channels, v_x and v_y, is v (batch, channel, *space);
               gamma (batch,) or one number for all
  .hdf5, .h5   simulations in The Well's layout. In: a file or a folder, of which the first steps are taken, as
               many as the model needs; a folder of `mondrian generate` needs --split, and --points if it holds
               several resolutions. Out: the frames that follow, with their times and the numbers such as gamma

Arrays lie on the model's own box unless --grid gives another. An axis is periodic where the model's is,
unless it ends in p (periodic) or w (walls). Points are cell-centred unless v follows: at the vertices, both ends of an
axis with walls included; a periodic one has its start only, with r its end again. HDF5 files know their box:

  mondrian predict runs/ac x.npy -o y.npy --grid 4x4            twice the box of 2 x 2
  mondrian predict runs/ns x.npy -o y.npy --grid 6.2832px1w
  mondrian predict runs/ac x.npy -o y.npy --grid 2wvx2wv        the first point of each axis at 0, the last at 2

Any number of points will do. The answer may be asked for at others, cell-centred or at vertices in the same way:

  mondrian predict runs/ac x.npy -o y.npy --out-points 85x85
  mondrian predict runs/ac x.npy -o y.npy --out-points 129vx129v

Fields larger than memory, from and to HDF5 or .npy: each of several processes reads and writes its slab of them, or
one goes through them by so many rows of subdomains at a time (windowed and neighbourhood attention only):

  torchrun --nproc-per-node 4 -m mondrian predict runs/ac huge.hdf5 -o next.hdf5
  mondrian predict runs/nbr x.npy -o y.npy --rows 8

CUDA is used if there is any; --device names another. A process that hears nothing from the others for --timeout
seconds (1800) stops with a line that says so.

A model of functions on meshes takes a mesh with its input fields at the vertices, in any format that meshio reads, and
gives the same file with the predicted fields at its vertices, in the model's precision:

  mondrian predict runs/poisson/boxes domain.vtu -o answer.vtu

Samples are computed in the model's precision; the answer has that of the input, or the model's if the input
holds whole numbers or booleans. NaN, infinite numbers, and what has no logarithm where the model takes one, are
refused by sample and channel. An output exists when it is whole: a killed command leaves none.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from typing import Any

from mondrian.artefact import OperatorModel
from mondrian.commands._options import Parser, box, points_of, with_points
from mondrian.meshes.prediction import predict_mesh
from mondrian.parallel import Processes, launched_processes
from mondrian.prediction import Predictor, load_model, predict_file, predict_slabs
from mondrian.support.device import chosen_device
from mondrian.support.process import is_first
from mondrian.surrogate import MeshSurrogate


def run(arguments: list[str]) -> None:
    """Predict, or describe the model if no input is named."""
    words = _parser().parse_args(arguments)
    if (words.input is None) != (words.output is None):
        lacking = "an input file" if words.input is None else "an output file, -o OUTPUT"
        raise ValueError(f"{lacking} is missing; needed mondrian predict ARTEFACT INPUT -o OUTPUT")
    device = str(chosen_device(words.device))
    with launched_processes(os.environ, device=device, timeout=words.timeout) as (processes, device):
        model = load_model(words.artefact, device=device)
        if words.input is not None and isinstance(model, MeshSurrogate):
            _predict_mesh(model, words, processes)
        elif words.input is not None:
            _predict(model, words, processes)
        elif is_first(os.environ):
            print(describe(model))


def _predict(model: OperatorModel, words: argparse.Namespace, processes: Processes | None) -> None:
    spec: Any = model.spec
    began = time.perf_counter()
    settings: dict[str, Any] = {
        "grid": None if words.grid is None else box(words.grid, spec.default_grid),
        "steps": words.steps,
        "batch_size": words.batch,
        "split": words.split,
        "points": () if words.points is None else points_of(words.points),
        "progress": True,
    }
    if processes is None and words.rows is None:
        out_grid = None if words.out_points is None else partial(with_points, words.out_points)
        made = predict_file(model, words.input, words.output, out_grid=out_grid, **settings)
    elif words.out_points is not None:
        raise ValueError(f"--out-points {words.out_points} needs whole fields, not slabs of them")
    else:
        made = predict_slabs(model, words.input, words.output, processes=processes, rows=words.rows or 0, **settings)
    if not is_first(os.environ):
        return
    if made.not_finite:
        print(f"{made.not_finite} of {made.samples} predictions hold NaN or infinite values", file=sys.stderr)
    points = " x ".join(map(str, made.points))
    seconds = time.perf_counter() - began
    print(f"{words.output}: {made.samples} samples, {_few(made.channels)} on {points} points, {seconds:.1f} s")


def _predict_mesh(model: MeshSurrogate, words: argparse.Namespace, processes: Processes | None) -> None:
    for option in ("grid", "split", "points", "out_points", "rows"):
        if getattr(words, option) is not None:
            raise ValueError(
                f"--{option.replace('_', '-')} {getattr(words, option)} is for fields on grids, not meshes"
            )
    if words.steps != 1:
        raise ValueError(f"--steps {words.steps} is for fields on grids; on meshes needed 1")
    if processes is not None:
        raise ValueError("a mesh cannot be spread over several processes; needed one")
    began = time.perf_counter()
    made = predict_mesh(model, words.input, words.output)
    if not made.finite:
        print("the prediction holds NaN or infinite values", file=sys.stderr)
    seconds = time.perf_counter() - began
    print(f"{words.output}: {_few(model.spec.out_names)} at {made.vertices:,} vertices, {seconds:.1f} s")


def _describe_mesh(model: MeshSurrogate) -> str:
    spec, inner = model.spec, model.points_model.spec
    box = (
        "the bounding box of each mesh" if spec.box is None else " x ".join(f"{length:g}" for length in spec.box.extent)
    )
    return "\n".join(
        [
            f"model  PointOperator, {sum(parameter.numel() for parameter in model.parameters()):,} parameters",
            f"in     {', '.join(spec.in_names)} at the vertices of meshes with {inner.dim} axes",
            f"out    {', '.join(spec.out_names)}",
            f"box    {box}, cells {inner.partition}",
        ]
    )


def describe(model: OperatorModel) -> str:
    """What a model takes and gives, for a person."""
    if isinstance(model, MeshSurrogate):
        return _describe_mesh(model)
    predictor = Predictor(model)
    spec: Any = model.spec
    kind = type(spec.model if predictor.named else spec).__name__.removesuffix("Spec")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    box = zip(predictor.box.extent, predictor.box.periodic, strict=True)
    axes = [f"{length:g}{' periodic' if ring else ''}" for length, ring in box]
    names = "" if predictor.named else " (by number: the model was saved without names)"
    return "\n".join(
        [
            f"model  {kind}, {parameters:,} parameters, {str(predictor.dtype).removeprefix('torch.')}",
            f"in     {', '.join(predictor.in_names)}{names}",
            f"out    {', '.join(predictor.out_names)}",
            f"box    {' x '.join(axes)}",
        ]
    )


def _parser() -> argparse.ArgumentParser:
    parser = Parser("predict")
    parser.add_argument("artefact")
    parser.add_argument("input", nargs="?")
    parser.add_argument("-o", "--output")
    parser.add_argument("--grid")
    parser.add_argument("--out-points")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--split")
    parser.add_argument("--points")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--device")
    parser.add_argument("--timeout", type=float, default=1800.0)
    return parser


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names if len(names) <= 6 else (*names[:3], "...", names[-1]))
