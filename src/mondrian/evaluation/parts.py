"""What an evaluation asks of a data set, whether its samples are fields on grids or functions on meshes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from mondrian.evaluation.rollouts import Rollout
from mondrian.grid import Grid
from mondrian.points.point_set import PointSet
from mondrian.surrogate import ScaledModel

Arrays = dict[str, Shaped[np.ndarray, "..."]]


@dataclass(frozen=True, eq=False)
class Samples:
    """A batch of samples on one domain, in physical units.

    `weights` are those of a quadrature over the domain; without them all points stand for equal parts of it.
    `simulation` holds the number of each sample's simulation. Errors call the samples by their `name`.
    """

    x: Float[Tensor, "batch in_channel *space"]
    y: Float[Tensor, "batch out_channel *space"]
    domain: Grid | PointSet
    weights: Float[Tensor, "*space"] | None
    simulation: Int[Tensor, " batch"]
    name: str = ""

    @property
    def points(self) -> tuple[int, ...]:
        """The number of points along each axis, or in all on a mesh."""
        return tuple(self.x.shape[2:])


@runtime_checkable
class EvaluationPart(Protocol):
    """Samples that are evaluated together: those at one resolution, or those of one part of a folder of meshes."""

    name: str  # of the part; none for grids
    source: str  # where the samples come from, for errors
    grid: Grid | None  # that all samples share
    simulations: Sequence[int]
    in_channels: tuple[str, ...]
    out_channels: tuple[str, ...]
    fields: Mapping[str, list[int]]  # the output channels of each predicted field

    def __len__(self) -> int: ...

    def batches(self, batch_size: int, *, label: str, progress: bool) -> Iterator[Samples]:
        """All samples."""
        ...

    def pictures(self, surrogate: Any) -> Arrays:
        """The arrays of a few samples and their predictions for `fields.npz`."""
        ...

    def rollout(self, surrogate: Any, horizon: int) -> Rollout | None:
        """A rollout over `horizon` frames, or as many as there are; `None` if there are no frames to compare with."""
        ...


@runtime_checkable
class EvaluationData(Protocol):
    """A data set in parts that can be evaluated."""

    on_grids: bool  # with resolutions, spectra and rollouts
    has_phases: bool  # separated by interfaces, whose errors are measured

    def parts(
        self, split: str, points: Sequence[tuple[int, ...]] | None, simulations: int | None
    ) -> Sequence[EvaluationPart]:
        """The parts of a split, coarsest resolution first, at some of the stored resolutions or at all."""
        ...

    def training(self) -> EvaluationPart | None:
        """The training samples at the resolution of training; `None` if the data has none."""
        ...


def check_channels(
    surrogate: ScaledModel, in_channels: Sequence[str], out_channels: Sequence[str], source: str
) -> None:
    """Refuse data whose channels are not those of the surrogate, in its order."""
    spec = surrogate.spec
    for side, given, needed in (("input", in_channels, spec.in_names), ("target", out_channels, spec.out_names)):
        if tuple(given) != tuple(needed):
            raise ValueError(f"{source} gives {side} channels {_listed(given)}; needed {_listed(needed)}")


def _listed(names: Sequence[str]) -> str:
    return "(" + ", ".join(names) + ")"
