"""Apply a trained model to files of any size, in physical units.

  mondrian predict runs/ac                                      describe inputs and outputs of the model
  mondrian predict runs/ac x.npy -o y.npy                       one application to every sample
  mondrian predict runs/ac x.npy -o y.npy --steps 20            a rollout of 20 applications
  mondrian predict runs/ac start.npz -o next.pt --batch 8       8 samples in memory at a time (default 32)
  mondrian predict runs/ac data/ac --split test --points 64x64 -o next.hdf5 --steps 5 --device cuda

The model is a run of `mondrian train` (its best one), or any folder that `save_pretrained` wrote.

Arrays are (batch, channel, *space), or (channel, *space) for one sample, with the channels that the first example
lists. The output holds the predicted channels, with --steps one step after the other. The suffix of a file says what it
is, and any kind of input goes with any kind of output:

  .npy         one array
  .npz, .pt    one array (in an .npz output it is called y); as input also one for each channel or field by name:
               np.savez("start.npz", u=u, gamma=1e-3) with u (batch, *space), or (batch, step, *space) if the
               model takes several; a field of several channels, v_x and v_y, is v (batch, channel, *space);
               gamma (batch,) or one number for all
  .hdf5, .h5   simulations in The Well's layout. Input: a file or a folder, whose first steps are taken, as many as
               the model needs; a folder of `mondrian generate` needs --split, and --points if it holds several
               resolutions. Output: the frames that follow, with their times and the numbers such as gamma

Arrays lie on the model's own box unless --grid gives another. An axis is periodic where the model's is,
unless it ends in p (periodic) or w (walls). Points are cell-centred unless v follows: at the vertices, both ends of an
axis with walls included; a periodic one has its start only, with r its end again. HDF5 files know their box:

  mondrian predict runs/ac x.npy -o y.npy --grid 4x4            twice the box of 2 x 2
  mondrian predict runs/ns x.npy -o y.npy --grid 6.2832px1w
  mondrian predict runs/ac x.npy -o y.npy --grid 2wvx2wv        the first point of each axis at 0, the last at 2

Samples can have any number of points. Predictions can be at other points, cell-centred or at vertices in the same way:

  mondrian predict runs/ac x.npy -o y.npy --out-points 85x85
  mondrian predict runs/ac x.npy -o y.npy --out-points 129vx129v

Fields larger than memory, from and to HDF5 or .npy: each of several ranks reads and writes its slab, or one process
streams through them a number of rows of subdomains at a time (windowed and neighbourhood attention only):

  torchrun --nproc-per-node 4 -m mondrian predict runs/ac huge.hdf5 -o next.hdf5
  mondrian predict runs/nbr x.npy -o y.npy --rows 8

CUDA is used if available; --device names another device. A rank that waits for the others for more than --timeout
seconds (1800) stops with a message.

A model of functions on meshes takes a mesh with its input fields at the vertices, in any format that meshio reads, and
writes the same file with the predicted fields at its vertices, in the model's precision:

  mondrian predict runs/poisson/boxes domain.vtu -o answer.vtu

Samples are computed in the model's precision; the output has the precision of the input, or the model's if the input
holds integers or booleans. NaN, infinite numbers, and numbers without a logarithm where the model takes one are refused
by sample and channel. An output appears when it is complete: a killed command leaves none.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial

from mondrian.artefact import OperatorModel
from mondrian.commands._options import Parser, box, points_of, with_points
from mondrian.parallel import Processes, launched_processes
from mondrian.prediction import describe, load_model, predict_file
from mondrian.support.device import chosen_device
from mondrian.support.process import is_first


def run(arguments: list[str]) -> None:
    """Predict, or describe the model if no input is named."""
    options = _parser().parse_args(arguments)
    if (options.input is None) != (options.output is None):
        missing = "an input file" if options.input is None else "an output file, -o OUTPUT"
        raise ValueError(f"{missing} is missing; needed mondrian predict ARTEFACT INPUT -o OUTPUT")
    device = str(chosen_device(options.device))
    with launched_processes(os.environ, device=device, timeout=options.timeout) as (processes, device):
        model = load_model(options.artefact, device=device)
        if options.input is not None:
            _predict(model, options, processes)
        elif is_first(os.environ):
            print(describe(model))


def _predict(model: OperatorModel, options: argparse.Namespace, processes: Processes | None) -> None:
    began = time.perf_counter()
    prediction = predict_file(
        model,
        options.input,
        options.output,
        grid=None if options.grid is None else partial(box, options.grid),
        out_grid=None if options.out_points is None else partial(with_points, options.out_points),
        steps=options.steps,
        batch_size=options.batch,
        split=options.split,
        points=() if options.points is None else points_of(options.points),
        rows=options.rows,
        processes=processes,
        progress=True,
    )
    if not is_first(os.environ):
        return
    if prediction.not_finite:
        print(
            f"{prediction.not_finite} of {prediction.samples} predictions hold NaN or infinite values", file=sys.stderr
        )
    samples = f"{prediction.samples} sample{'' if prediction.samples == 1 else 's'}"
    points = " x ".join(map(str, prediction.points))
    seconds = time.perf_counter() - began
    print(f"{options.output}: {samples}, {_few(prediction.channels)} at {points} points, {seconds:.1f} s")


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
