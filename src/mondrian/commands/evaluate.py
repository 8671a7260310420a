"""Measure a trained model: errors at every resolution, over time and by wavenumber.

  mondrian evaluate runs/ac                                 the test part of the data that it was trained on
  mondrian evaluate runs/ac runs/ns                         several, one after the other
  mondrian evaluate runs/ac points=[[32,32],[64,64]]        some of the stored resolutions
  mondrian evaluate runs/ac split=valid simulations=64      another part, only its first 64 simulations
  mondrian evaluate runs/ns horizon=40 batch_size=8         rollouts of 40 frames instead of 20 (0: none)
  mondrian evaluate runs/ac path=data/other                 another data set, or the same one moved elsewhere
  mondrian evaluate runs/ac/artefact path=data/other out=results
                                                            a model without its run

It prints a table and writes RUN/evaluation (or `out=FOLDER`): metrics.json, metrics.csv, and fields.npz with a few
fields for `mondrian report`. Beside the model stand two forecasts that learn nothing: persistence, which says that
nothing changes, and the mean of the training targets. Means have 95 % bootstrap intervals over simulations, the
windows of one simulation averaged first. A model of several fields has errors that are means over all of them, and
below those the errors of each.

Where simulations are longer than one application of the model, it is also fed with its own output, from the start of
each simulation, for `horizon` frames or as many as there are. A prediction that is not finite has infinite error and
no correlation. A resolution that the model cannot take is left out, with a line that says why.

  mondrian evaluate runs/poisson/boxes                      a model of functions on meshes: all parts test*

There errors are integrals over each domain, and `points` are the mean number of vertices.

  interface=true|false     the error at interfaces between phases (true for Allen-Cahn)
  device=cpu|cuda          where to compute (CUDA if there is any)
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mondrian import artefact
from mondrian.commands._options import folders_and_settings
from mondrian.data.meshes import MeshFiles, MeshSplits
from mondrian.data.sources import WellFiles
from mondrian.data.splits import Splits
from mondrian.evaluation import Evaluation, evaluate
from mondrian.evaluation.tables import size
from mondrian.meshes.evaluation import evaluate_meshes
from mondrian.settings.values import Readers, flag, resolutions, whole, word
from mondrian.support.device import chosen_device
from mondrian.surrogate import MeshSurrogate, ScaledModel, Surrogate, Window
from mondrian.training.run import Run

HORIZON, BATCH_SIZE = 20, 32  # where nothing else is said
GRIDS = ("points", "horizon", "batch_size", "interface")  # settings that say nothing about meshes


@dataclass(frozen=True)
class Settings:
    """The words `key=value`."""

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
    "split": word,
    "horizon": partial(whole, least=0),
    "simulations": whole,
    "batch_size": whole,
    "interface": flag,
    "path": word,
    "out": word,
    "device": word,
}


@dataclass(frozen=True)
class Subject:
    """What is evaluated: a model, its name, its data, and where the results go."""

    name: str
    surrogate: ScaledModel
    splits: Splits | MeshSplits
    folder: Path


def run(arguments: list[str]) -> None:
    """Evaluate each folder that is named."""
    folders, settings = read(arguments)
    if not folders:
        raise ValueError("no run is named; needed a folder of `mondrian train`, for example mondrian evaluate runs/ac")
    if settings.out is not None and len(folders) > 1:
        raise ValueError(f"out={settings.out} is one folder for {len(folders)} results; needed one run, or no out")
    subjects = [subject(folder, settings) for folder in folders]
    for number, each in enumerate(subjects):
        results = measure(each, settings)
        for points, reason in results.skipped.items():
            print(f"mondrian evaluate: {size(points)} is left out: {reason}", file=sys.stderr)
        results.save(each.folder)
        print(("\n" if number else "") + results.table() + f"\n\nwritten to {each.folder}")


def measure(each: Subject, settings: Settings) -> Evaluation:
    """Evaluate one subject, on grids or on meshes."""
    surrogate = each.surrogate.to(chosen_device(settings.device))
    if isinstance(each.splits, MeshSplits):
        assert isinstance(surrogate, MeshSurrogate)
        for key in GRIDS:
            if getattr(settings, key) is not None:
                raise ValueError(f"{key}={getattr(settings, key)} is for fields on grids; {each.name} is on meshes")
        return evaluate_meshes(
            surrogate,
            each.splits,
            split=settings.split,
            simulations=settings.simulations,
            progress=True,
            name=each.name,
        )
    assert isinstance(surrogate, Surrogate)
    return evaluate(
        surrogate,
        each.splits,
        split=settings.split,
        points=settings.points,
        horizon=HORIZON if settings.horizon is None else settings.horizon,
        simulations=settings.simulations,
        batch_size=settings.batch_size or BATCH_SIZE,
        interface=settings.interface,
        progress=True,
        name=each.name,
    )


def read(arguments: list[str]) -> tuple[list[Path], Settings]:
    """Folders, and settings as Hydra reads them."""
    folders, found = folders_and_settings(arguments, READERS)
    return folders, Settings(**found)


def subject(folder: Path, settings: Settings) -> Subject:
    """The model of a run or of an artefact, with the data to evaluate it on."""
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist; needed a run of `mondrian train`, or the artefact of one")
    if (folder / artefact.CONFIG).exists() and not Run(folder).record.exists():
        return _of_artefact(folder, settings)
    trained = Run.open(folder)
    splits = trained.source()
    if settings.path is not None:
        splits = splits.of_other_data(settings.path)
    out = trained.evaluation if settings.out is None else Path(settings.out)
    return Subject(trained.name, trained.model(), splits, out)


def _of_artefact(folder: Path, settings: Settings) -> Subject:
    surrogate = artefact.from_pretrained(folder)
    if isinstance(surrogate, MeshSurrogate):
        return _of_mesh_artefact(folder, surrogate, settings)
    if not isinstance(surrogate, Surrogate):
        raise ValueError(f"{folder} holds a bare model; needed a Surrogate, which knows its channels and their units")
    window = surrogate.spec.window
    if not isinstance(window, Window):
        raise ValueError(f"{folder} does not say which fields its channels are; needed a window in {artefact.CONFIG}")
    if settings.path is None:
        raise ValueError(f"{folder} is a model without a run; needed the data to evaluate it on, path=...")
    splits = Splits(files=WellFiles(path=settings.path), window=window)
    out = folder / "evaluation" if settings.out is None else Path(settings.out)
    return Subject(folder.resolve().name, surrogate, splits, out)


def _of_mesh_artefact(folder: Path, surrogate: MeshSurrogate, settings: Settings) -> Subject:
    if settings.path is None:
        raise ValueError(f"{folder} is a model without a run; needed the meshes to evaluate it on, path=...")
    spec = surrogate.spec
    files = MeshFiles(path=settings.path)
    splits = MeshSplits(files=files, input=spec.inputs, target=spec.targets, box=spec.box)
    out = folder / "evaluation" if settings.out is None else Path(settings.out)
    return Subject(folder.resolve().name, surrogate, splits, out)
