"""Fields on grids as an evaluation takes them: a part for each stored resolution."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mondrian.data import manifest
from mondrian.data.datasets import WindowDataset
from mondrian.data.problems import AllenCahn
from mondrian.data.sources import WellFiles
from mondrian.data.splits import Splits
from mondrian.evaluation.batches import batches
from mondrian.evaluation.parts import Arrays, Samples
from mondrian.evaluation.pictures import box_and_cuts, one_step_fields
from mondrian.evaluation.rollouts import Rollout
from mondrian.evaluation.tables import size
from mondrian.grid import Grid
from mondrian.rollout import field_and_step
from mondrian.surrogate import Surrogate


class GridPart:
    """The windows of simulations at one resolution."""

    name = ""

    def __init__(self, dataset: WindowDataset) -> None:
        self.dataset = dataset
        self.source = dataset.source.name
        self.grid: Grid | None = dataset.grid
        self.simulations: Sequence[int] = dataset.simulations
        self.in_channels, self.out_channels = dataset.in_channels, dataset.out_channels
        self.fields: Mapping[str, list[int]] = channels_of_fields(dataset.out_channels)

    def __len__(self) -> int:
        return len(self.dataset)

    def batches(self, batch_size: int, *, label: str, progress: bool) -> Iterator[Samples]:
        for batch in batches(self.dataset, range(len(self)), batch_size, label=label, progress=progress):
            yield Samples(batch["x"], batch["y"], batch["grid"], None, batch["simulation"], self.source)

    def pictures(self, surrogate: Surrogate) -> Arrays:
        return box_and_cuts(surrogate, self.dataset.grid) | one_step_fields(surrogate, self.dataset)

    def rollout(self, surrogate: Surrogate, horizon: int) -> Rollout | None:
        return Rollout.possible(surrogate, self.dataset, horizon)


class GridEvaluationData:
    """The resolutions of `splits`."""

    on_grids = True

    def __init__(self, splits: Splits) -> None:
        self.splits = splits
        generated = splits.manifest
        self.has_phases = generated is not None and isinstance(generated.problem, AllenCahn)

    def parts(
        self, split: str, points: Sequence[tuple[int, ...]] | None, simulations: int | None
    ) -> Sequence[GridPart]:
        return [GridPart(self._dataset(split, sizes, simulations)) for sizes in self._resolutions(split, points)]

    def training(self) -> GridPart | None:
        root = Path(self.splits.files.path)
        if isinstance(self.splits.files, WellFiles) and root.is_dir():
            if (root / manifest.FILE).exists():
                exists = manifest.Manifest.load(root).simulations.get("train", 0) > 0
            else:
                exists = (root / "data" / "train").is_dir()
            if not exists:
                return None
        return GridPart(self.splits.dataset("train", memory=0))

    def _resolutions(self, split: str, points: Sequence[tuple[int, ...]] | None) -> list[tuple[int, ...]]:
        stored = self.splits.resolutions(split)
        wanted = stored if points is None else tuple(tuple(sizes) for sizes in points)
        missing = [size(sizes) for sizes in wanted if sizes not in stored]
        if missing or not wanted:
            known = ", ".join(map(size, stored))
            what = f"points={', '.join(missing)} are not stored" if missing else "points=[] name no resolution"
            raise ValueError(f"{what} for split {split!r} of {self.splits.files.path}; it has {known}")
        return sorted(set(wanted), key=lambda sizes: (math.prod(sizes), sizes))

    def _dataset(self, split: str, points: tuple[int, ...], simulations: int | None) -> WindowDataset:
        """The samples at one resolution; `memory=0` because each of them is read once."""
        dataset = self.splits.dataset(split, points, memory=0)
        if simulations is None:
            return dataset
        if simulations > len(dataset.simulations):
            data = f"split {split!r} of {self.splits.files.path}"
            raise ValueError(f"simulations={simulations} are wanted; {data} has {len(dataset.simulations)}")
        first = dataset.simulations[:simulations]
        return WindowDataset(dataset.source, dataset.window, simulations=first, memory=0)


def channels_of_fields(names: Sequence[str]) -> dict[str, list[int]]:
    """The channels of each field, all its frames.

    >>> channels_of_fields(("u[1]", "p[1]", "u[2]", "p[2]"))
    {'u': [0, 2], 'p': [1, 3]}
    """
    channels: dict[str, list[int]] = {}
    for channel, name in enumerate(names):
        channels.setdefault(field_and_step(name)[0], []).append(channel)
    return channels
