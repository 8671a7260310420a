"""One data set in its parts: training, validation and test, each at the resolutions that it is stored at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from mondrian.artefact import ModelSpec
from mondrian.data.datasets import WindowDataset, split_simulations
from mondrian.data.manifest import FILE, Manifest
from mondrian.data.protocol import DataSpec
from mondrian.data.sources import Files, Source, WellFiles
from mondrian.surrogate import Scale, ScaledSpec, SurrogateSpec, Window

SPLITS = ("train", "valid", "test")
TRAINING = ("train", "valid")  # parts at the resolution of training; a test may be at another


@dataclass(frozen=True)
class Splits(DataSpec[WindowDataset]):
    """Where simulations are, and what a sample of them is.

    `files` is a folder with parts of its own (`WellFiles` of `mondrian generate` or The Well), or one file, whose
    simulations are then dealt out at random, `fractions` of them to train, valid and test. `points` picks the
    resolution to train and validate at where several are stored (the coarsest otherwise); where there is one it must
    be that. `simulations` keeps the first so many of the training part.

    >>> Splits(files=WellFiles(path="data/ac"), window=Window(input=("u", "gamma"), target=("u",))).points
    ()
    """

    surrogate_kind: ClassVar[type[ScaledSpec]] = SurrogateSpec

    files: Files
    window: Window
    points: tuple[int, ...] = ()
    simulations: int | None = None
    fractions: tuple[float, ...] = (0.7, 0.15, 0.15)
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.files, WellFiles) and (self.files.split is not None or self.files.points):
            raise ValueError(f"files={self.files} must name no split and no points: they are picked here")
        check_fractions(self.fractions, self.simulations)

    @property
    def path(self) -> str:
        """The folder or file that holds the data."""
        return self.files.path

    def of_other_data(self, path: str) -> Splits:
        """The same samples of the data at `path`: resolution and number to train with were chosen for this one."""
        return replace(self, files=replace(self.files, path=path), points=(), simulations=None)

    def parts(self, split: str = "test") -> tuple[str, ...]:
        """The part that has the name `split`."""
        if split not in SPLITS:
            raise ValueError(f"split={split!r} is not known; needed one of {', '.join(SPLITS)}")
        return (split,)

    def part(self, name: str, *, memory: int = 2**30) -> WindowDataset:
        """The samples of a part, those to train and validate on at the resolution of training."""
        return self.dataset(name, memory=memory)

    def surrogate(
        self, model: ModelSpec, train: WindowDataset, in_scales: Sequence[Scale], out_scales: Sequence[Scale]
    ) -> SurrogateSpec:
        """The model on the box of these data; of targets over several applications only the first one's are its own."""
        own = len(train.out_channels) * self.window.steps_out // train.window.steps_out
        return SurrogateSpec(
            model=replace(model, grid=replace(train.grid, points=())),  # type: ignore[call-arg]
            in_names=train.in_channels,
            out_names=train.out_channels[:own],
            in_scales=tuple(in_scales),
            out_scales=tuple(out_scales[:own]),
            window=self.window,
        )

    @classmethod
    def of_surrogate(cls, surrogate: SurrogateSpec, path: str) -> Splits:
        """A folder with the fields that a surrogate takes and predicts."""
        if surrogate.window is None:
            raise ValueError(
                f"the surrogate of {surrogate.in_names} does not say which fields its channels are; needed a window"
            )
        return cls(files=WellFiles(path=path), window=surrogate.window)

    @property
    def manifest(self) -> Manifest | None:
        """What `mondrian generate` wrote down about the folder; None where it did not make it."""
        return Manifest.load(Path(self.files.path)) if self._is_ours else None

    @property
    def _is_ours(self) -> bool:
        return isinstance(self.files, WellFiles) and (Path(self.files.path) / FILE).exists()

    def resolutions(self, split: str) -> tuple[tuple[int, ...], ...]:
        """Points of the grids that a part is stored at, coarsest first; needs no field to be read."""
        if (made := self.manifest) is not None:
            if split not in made.points:
                raise ValueError(f"split={split!r} is not in {self.files.path}; it has {list(made.points)}")
            return tuple(sorted(made.points[split], key=math.prod))
        return (self.source(split).grid.points,)

    def source(self, split: str, points: tuple[int, ...] = ()) -> Source:
        """The simulations of a part; those of one file are all of its simulations."""
        (split,) = self.parts(split)
        source = self._opened(split, points)
        source.check_points(points or (self.points if split in TRAINING else ()))
        return source

    def _opened(self, split: str, points: tuple[int, ...]) -> Source:
        if not isinstance(self.files, WellFiles):
            return self.files.open()
        path = Path(self.files.path)
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist; needed a data set, such as `mondrian generate path={path}` makes"
            )
        if path.is_file():
            return self.files.open()
        if self._is_ours:
            points = points or self._training_points(split)
        return replace(self.files, split=split, points=points).open()

    def dataset(
        self, split: str, points: tuple[int, ...] = (), *, window: Window | None = None, memory: int = 2**30
    ) -> WindowDataset:
        """The samples of a part; `points` of a resolution, `window` other than the data set's own."""
        source = self.source(split, points)
        chosen = self._chosen(split, len(source))
        return WindowDataset(source, window or self.window, simulations=chosen, memory=memory)

    def _training_points(self, split: str) -> tuple[int, ...]:
        return self.points or self.resolutions(split)[0]

    def _chosen(self, split: str, count: int) -> tuple[int, ...]:
        if isinstance(self.files, WellFiles) and not Path(self.files.path).is_file():
            chosen = tuple(range(count))
        else:
            parts = split_simulations(count, self.fractions, seed=self.seed)
            chosen = parts[SPLITS.index(split)]
        if split == "train" and self.simulations is not None:
            if self.simulations > len(chosen):
                raise ValueError(f"simulations={self.simulations} is more than the {len(chosen)} of {self.files.path}")
            chosen = chosen[: self.simulations]
        return chosen


def check_fractions(fractions: Sequence[float], simulations: int | None) -> None:
    """Refuse shares of other parts than training, validation and test, and training on no simulation at all."""
    if len(fractions) != len(SPLITS):
        raise ValueError(f"fractions={tuple(fractions)} must have a share for each of {', '.join(SPLITS)}")
    if simulations is not None and simulations < 1:
        raise ValueError(f"simulations={simulations} must be at least 1")
