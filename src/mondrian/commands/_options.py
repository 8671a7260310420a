"""Options that several commands share: folders of models, boxes and points; errors are one line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from mondrian import artefact
from mondrian.data.protocol import DataSpec, data_of
from mondrian.grid import Grid
from mondrian.settings.values import Readers, read_overrides
from mondrian.surrogate import ScaledModel
from mondrian.training.run import Run


class Parser(argparse.ArgumentParser):
    """The options of a command; its help is the docstring of its module."""

    def __init__(self, command: str) -> None:
        super().__init__(command, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; `mondrian {self.prog} --help` shows examples")


@dataclass(frozen=True)
class OpenedModel:
    """A model with its name, its data and the folder for its evaluation."""

    name: str
    surrogate: ScaledModel
    data: DataSpec[Any]
    evaluation: Path


def open_model(folder: Path, *, path: str | None = None) -> OpenedModel:
    """The model of a run or of an artefact, with its data, or with other data at `path`."""
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist; needed a run of `mondrian train`, or the artefact of one")
    if Run(folder).record.exists() or not (folder / artefact.CONFIG).exists():
        run = Run.open(folder)
        data = run.data() if path is None else run.data().of_other_data(path)
        return OpenedModel(run.name, run.surrogate(), data, run.evaluation)
    surrogate = artefact.from_pretrained(folder)
    if not isinstance(surrogate, ScaledModel):
        raise ValueError(f"{folder} holds a bare model; needed a surrogate, which knows its channels and their units")
    if path is None:
        raise ValueError(f"{folder} is a model without a run; needed the data to evaluate it on, path=...")
    try:
        data = data_of(surrogate.spec, path)
    except ValueError as error:
        raise ValueError(f"{folder / artefact.CONFIG}: {error}") from error
    return OpenedModel(folder.resolve().name, surrogate, data, folder / "evaluation")


def folders_and_settings(arguments: Sequence[str], readers: Readers) -> tuple[list[Path], dict[str, Any]]:
    """Folders, and `key=value` for the keys of `readers`, as Hydra reads them.

    >>> from mondrian.settings.values import string
    >>> folders_and_settings(["runs/ac", "split=valid"], {"split": string})
    ([PosixPath('runs/ac')], {'split': 'valid'})
    """
    folders, overrides = [], []
    for argument in arguments:
        key, equals, _ = argument.partition("=")
        if key in readers and equals:
            overrides.append(argument)
        elif Path(argument).exists() or not equals:
            folders.append(Path(argument))
        else:
            raise ValueError(f"no setting {key!r}; needed one of {', '.join(sorted(readers))}")
    return folders, read_overrides(overrides, readers)


def points_of(text: str) -> tuple[int, ...]:
    """The points that `--points` names.

    >>> points_of("64x32")
    (64, 32)
    """
    sizes = text.split("x")
    if not all(size.isdecimal() for size in sizes):
        raise ValueError(f"--points {text} must give a number for each axis, for example 64x64")
    return tuple(int(size) for size in sizes)


def box(text: str, own: Grid) -> Grid:
    """The box that `--grid` describes.

    >>> box("4x2p", Grid(extent=(1.0, 1.0)))
    Grid(extent=(4.0, 2.0), points=(), periodic=(False, True), origin=(0.0, 0.0), ends=(0, 0))
    """
    axes = [re.fullmatch(r"([\d.e+-]+)([pw]?)([vr]?)", axis) for axis in text.split("x")]
    if len(axes) != own.dim:
        raise ValueError(f"--grid {text} has {len(axes)} axes; the model has {own.dim}")
    try:
        parsed = [(float(axis[1]), {"p": True, "w": False}.get(axis[2])) for axis in axes if axis]
    except ValueError:
        parsed = []
    if len(parsed) != own.dim:
        raise ValueError(f"--grid {text} must give a length for each axis, for example 2x2, 2px1w or 2pvx1wv")
    periodic = [ring if letter is None else letter for (_, letter), ring in zip(parsed, own.periodic, strict=True)]
    ends = tuple(_ends(axis[3], ring) for axis, ring in zip(axes, periodic, strict=True) if axis)
    return replace(own, extent=tuple(length for length, _ in parsed), periodic=tuple(periodic), points=(), ends=ends)


def with_points(text: str, box: Grid) -> Grid:
    """The points that `--out-points` puts on a box.

    >>> with_points("9vx8", Grid(extent=(1.0, 1.0))).spacing
    (0.125, 0.125)
    """
    axes = [re.fullmatch(r"(\d+)([vr]?)", axis) for axis in text.split("x")]
    parsed = [axis for axis in axes if axis]
    if not len(axes) == len(parsed) == box.dim:
        raise ValueError(
            f"--out-points {text} must give a number for each of {box.dim} axes, for example 85x85 or 129vx64"
        )
    ends = tuple(_ends(axis[2], ring) for axis, ring in zip(parsed, box.periodic, strict=True))
    return replace(box, points=tuple(int(axis[1]) for axis in parsed), ends=ends)


def _ends(letter: str, ring: bool) -> int:
    """The number of ends of an axis that are points: none, with `v` those that differ, with `r` both."""
    return {"": 0, "v": 1 if ring else 2, "r": 2}[letter]
