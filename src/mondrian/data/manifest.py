"""The manifest of a generated folder: what was asked for, and the checksum of every shard.

DIR/manifest.json
DIR/32x32/data/train/shard_00000.hdf5 ...     a data set in The Well's folders, one for each resolution
DIR/64x64/data/test/shard_00000.hdf5 ...
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mondrian.data.store import stored_checksum
from mondrian.support.files import write_json
from mondrian.support.spec import Spec

FILE = "manifest.json"


@dataclass(frozen=True)
class Shard:
    """Simulations `first` to `first + count` of one split, stored at each of `points`.

    >>> shard = Shard(split="train", number=3, first=48, count=16, points=((32, 32),))
    >>> list(shard.files().values())
    ['32x32/data/train/shard_00003.hdf5']
    """

    split: str
    number: int
    first: int
    count: int
    points: tuple[tuple[int, ...], ...]

    def files(self) -> dict[tuple[int, ...], str]:
        """The path of each resolution's file, relative to the folder."""
        return {
            points: f"{'x'.join(map(str, points))}/data/{self.split}/shard_{self.number:05d}.hdf5"
            for points in self.points
        }


@dataclass(frozen=True)
class Manifest:
    """What a folder holds. Everything but `checksums` is known before the first simulation."""

    problem: Spec
    seed: int
    simulations: Mapping[str, int]
    points: Mapping[str, tuple[tuple[int, ...], ...]]
    shard_size: int
    version: str
    checksums: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if set(self.points) != set(self.simulations):
            raise ValueError(f"points are given for {sorted(self.points)}, simulations for {sorted(self.simulations)}")
        if self.shard_size < 1:
            raise ValueError(f"shard_size={self.shard_size} must be at least 1")
        for split, count in self.simulations.items():
            if count < 0:
                raise ValueError(f"simulations[{split!r}]={count} must not be negative")
            if not self.points[split]:
                raise ValueError(f"points[{split!r}]=() is empty; needed at least one resolution")

    def shards(self) -> Iterator[Shard]:
        """All shards, in a fixed order that every machine agrees on."""
        for split, count in self.simulations.items():
            for number, first in enumerate(range(0, count, self.shard_size)):
                size = min(self.shard_size, count - first)
                yield Shard(split=split, number=number, first=first, count=size, points=self.points[split])

    def files(self) -> list[str]:
        """The relative paths of all shards' files."""
        return [path for shard in self.shards() for path in shard.files().values()]

    @property
    def missing(self) -> list[str]:
        """The files that have no checksum yet."""
        return [path for path in self.files() if path not in self.checksums]

    def arguments(self) -> dict[str, Any]:
        """All but the checksums and the version, as JSON values."""
        return {
            "problem": self.problem.to_json(),
            "seed": self.seed,
            "simulations": dict(self.simulations),
            "points": {split: [list(sizes) for sizes in points] for split, points in self.points.items()},
            "shard_size": self.shard_size,
        }

    def save(self, folder: Path) -> None:
        """Write `manifest.json` atomically."""
        content = {
            "version": self.version,
            **self.arguments(),
            "checksums": dict(sorted(self.checksums.items())),
        }
        write_json(folder / FILE, content)

    @staticmethod
    def load(folder: Path) -> Manifest:
        """Read `manifest.json`."""
        path = folder / FILE
        try:
            content = json.loads(path.read_text())
            return Manifest(
                problem=Spec.from_json(content["problem"]),
                seed=content["seed"],
                simulations=content["simulations"],
                points={split: tuple(map(tuple, points)) for split, points in content["points"].items()},
                shard_size=content["shard_size"],
                version=content["version"],
                checksums=content["checksums"],
            )
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist; needed a folder made by `mondrian generate`") from None
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is damaged ({error!r}); needed the manifest of `mondrian generate`") from error


def collect(folder: Path, manifest: Manifest) -> Manifest:
    """Write the checksums of all files that exist into the manifest, and return it.

    Machines that share a folder do this without a lock. Each looks again after it has written: whoever writes
    last has therefore seen every shard that existed then, and whoever makes a later shard writes later.
    """
    while True:
        present = [path for path in manifest.files() if (folder / path).exists()]
        checksums = {path: stored_checksum(folder / path) for path in present}
        current = Manifest(**{**vars(manifest), "checksums": checksums})
        current.save(folder)
        if present == [path for path in manifest.files() if (folder / path).exists()]:
            return current
