"""Measure a trained model: errors at every resolution, over time and by wavenumber.

  mondrian evaluate runs/ac                                 the test split of the data that it was trained on
  mondrian evaluate runs/ac runs/ns                         several runs, one after the other
  mondrian evaluate runs/ac points=[[32,32],[64,64]]        some of the stored resolutions
  mondrian evaluate runs/ac split=valid simulations=64      another split, only its first 64 simulations
  mondrian evaluate runs/ns horizon=40 batch_size=8         rollouts over 40 frames instead of 20 (0: none)
  mondrian evaluate runs/ac path=data/other                 another data set, or the same one at another place
  mondrian evaluate runs/ac/artefact path=data/other out=results
                                                            a model without its run

It prints a table and writes RUN/evaluation (or `out=FOLDER`): metrics.json, metrics.csv, and fields.npz with a few
fields for `mondrian report`. The model is compared with two baselines: persistence, which predicts no change, and the
mean of the training targets. Means have 95 % bootstrap intervals over simulations; the windows of a simulation
are averaged first. If a model predicts several fields, errors are means over all of them, and those of each follow.

Where simulations are longer than one application of the model, each is also rolled out from its start, for `horizon`
frames or as many as there are. A prediction that is not finite has infinite error and zero correlation. A resolution
that the model refuses is skipped, with a line that says why.

  mondrian evaluate runs/poisson/boxes                      a model of functions on meshes: all parts test*

On meshes errors are integrals over each domain, and `points` is the mean number of vertices.

  interface=true|false     the error at interfaces between phases (true for Allen-Cahn)
  device=cpu|cuda          where to compute (CUDA if available)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mondrian.commands._options import OpenedModel, folders_and_settings, open_model
from mondrian.evaluation import Evaluation, evaluate
from mondrian.evaluation.tables import size
from mondrian.settings.values import Readers, flag, integer, resolutions, string
from mondrian.support.device import chosen_device


@dataclass(frozen=True)
class EvaluateOptions:
    """The options `key=value`."""

    points: tuple[tuple[int, ...], ...] | None = None
    split: str = "test"
    horizon: int | None = None
    simulations: int | None = None
    batch_size: int | None = None
    interface: bool | None = None
    path: str | None = None
    out: str | None = None
    device: str | None = None


READERS: Readers = {
    "points": resolutions,
    "split": string,
    "horizon": partial(integer, least=0),
    "simulations": integer,
    "batch_size": integer,
    "interface": flag,
    "path": string,
    "out": string,
    "device": string,
}


def run(arguments: list[str]) -> None:
    """Evaluate each of the folders."""
    folders, options = read(arguments)
    if not folders:
        raise ValueError("no run is named; needed a folder of `mondrian train`, for example mondrian evaluate runs/ac")
    if options.out is not None and len(folders) > 1:
        raise ValueError(f"out={options.out} is one folder for {len(folders)} results; needed one run, or no out")
    models = [open_model(folder, path=options.path) for folder in folders]
    for number, model in enumerate(models):
        results = measure(model, options)
        for points, reason in results.skipped.items():
            print(f"mondrian evaluate: {size(points)} is skipped: {reason}", file=sys.stderr)
        folder = model.evaluation if options.out is None else Path(options.out)
        results.save(folder)
        print(("\n" if number else "") + results.table() + f"\n\nwritten to {folder}")


def measure(model: OpenedModel, options: EvaluateOptions) -> Evaluation:
    """Evaluate one model."""
    return evaluate(
        model.surrogate.to(chosen_device(options.device)),
        model.data,
        split=options.split,
        points=options.points,
        horizon=options.horizon,
        simulations=options.simulations,
        batch_size=options.batch_size,
        interface=options.interface,
        progress=True,
        name=model.name,
    )


def read(arguments: list[str]) -> tuple[list[Path], EvaluateOptions]:
    """The folders and the options of a command line."""
    folders, options = folders_and_settings(arguments, READERS)
    return folders, EvaluateOptions(**options)
