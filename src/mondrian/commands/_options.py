"""Options that several commands take: folders, boxes and points, and one line for what does not fit."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from mondrian.grid import Grid
from mondrian.settings.values import Readers, read_words


class Parser(argparse.ArgumentParser):
    """Options of a command, whose help is its docstring."""

    def __init__(self, command: str) -> None:
        super().__init__(command, add_help=False, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; `mondrian {self.prog} --help` shows examples")


def folders_and_settings(arguments: Sequence[str], readers: Readers) -> tuple[list[Path], dict[str, Any]]:
    """Folders, and `key=value` for the keys of `readers`, as Hydra reads them.

    >>> from mondrian.settings.values import word
    >>> folders_and_settings(["runs/ac", "split=valid"], {"split": word})
    ([PosixPath('runs/ac')], {'split': 'valid'})
    """
    folders, words = [], []
    for argument in arguments:
        key, equals, _ = argument.partition("=")
        if key in readers and equals:
            words.append(argument)
        elif Path(argument).exists() or not equals:
            folders.append(Path(argument))
        else:
            raise ValueError(f"no setting {key!r}; needed one of {', '.join(sorted(readers))}")
    return folders, read_words(words, readers)


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
        found = [(float(axis[1]), {"p": True, "w": False}.get(axis[2])) for axis in axes if axis]
    except ValueError:
        found = []
    if len(found) != own.dim:
        raise ValueError(f"--grid {text} must give a length for each axis, for example 2x2, 2px1w or 2pvx1wv")
    periodic = [ring if said is None else said for (_, said), ring in zip(found, own.periodic, strict=True)]
    ends = tuple(_ends(axis[3], ring) for axis, ring in zip(axes, periodic, strict=True) if axis)
    return replace(own, extent=tuple(length for length, _ in found), periodic=tuple(periodic), points=(), ends=ends)


def with_points(text: str, box: Grid) -> Grid:
    """The points that `--out-points` puts on a box.

    >>> with_points("9vx8", Grid(extent=(1.0, 1.0))).spacing
    (0.125, 0.125)
    """
    axes = [re.fullmatch(r"(\d+)([vr]?)", axis) for axis in text.split("x")]
    found = [axis for axis in axes if axis]
    if not len(axes) == len(found) == box.dim:
        raise ValueError(
            f"--out-points {text} must give a number for each of {box.dim} axes, for example 85x85 or 129vx64"
        )
    ends = tuple(_ends(axis[2], ring) for axis, ring in zip(found, box.periodic, strict=True))
    return replace(box, points=tuple(int(axis[1]) for axis in found), ends=ends)


def _ends(letter: str, ring: bool) -> int:
    """How many ends of an axis are points: none, or with `v` all that differ, or with `r` both."""
    return {"": 0, "v": 1 if ring else 2, "r": 2}[letter]
