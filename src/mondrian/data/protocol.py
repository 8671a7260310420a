"""What training and evaluation ask of a data set, on grids or on meshes: its parts, their channels, their surrogate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.artefact import ModelSpec
from mondrian.support.spec import Spec
from mondrian.surrogate import Scale, ScaledSpec


@dataclass(frozen=True)
class ChannelValues:
    """The values of some samples, in the precision of the file: for each channel all values of these samples."""

    samples: int
    x: Sequence[Float[Tensor, "..."]]
    y: Sequence[Float[Tensor, "..."]]


@runtime_checkable
class Part(Protocol):
    """The samples of one part of a data set, by number."""

    in_channels: tuple[str, ...]
    out_channels: tuple[str, ...]
    dtype: torch.dtype  # that samples are read in

    def __len__(self) -> int: ...

    def tensors(self, index: int) -> tuple[Tensor, Tensor]:
        """Input and target of a sample, in single precision."""
        ...

    def values(self) -> Iterator[ChannelValues]:
        """The values of all samples, from the first one to the last."""
        ...

    def field_of(self, channel: str) -> str:
        """The field whose mean and deviation scale a channel: steps of a field are scaled alike."""
        ...


D = TypeVar("D")  # a kind of data; beartype does not know `Self` in a method
P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class DataSpec(Spec, Generic[P]):
    """Describes a data set in parts: to train, to validate and to test, each of them opened when it is needed.

    `Splits` (fields on grids) and `MeshSplits` (functions on meshes) implement it. What a model makes of such data is a
    `surrogate_kind`.
    """

    surrogate_kind: ClassVar[type[ScaledSpec]]

    @property
    def path(self) -> str:
        """The folder or file that holds the data."""
        raise NotImplementedError

    def part(self, name: str, *, memory: int = 2**30) -> P:
        """The samples of a part, kept in up to `memory` bytes once they have been read."""
        raise NotImplementedError

    def parts(self, split: str = "test") -> tuple[str, ...]:
        """The parts whose names begin with `split`."""
        raise NotImplementedError

    def of_other_data(self: D, path: str) -> D:
        """The same fields of the data at `path`."""
        raise NotImplementedError

    def pinned(self: D) -> D:
        """The same for exactly the files that are there now, where that can change."""
        return self

    def surrogate(
        self, model: ModelSpec, train: P, in_scales: Sequence[Scale], out_scales: Sequence[Scale]
    ) -> ScaledSpec:
        """A model of these data in physical units, with scales fitted to the training part."""
        raise NotImplementedError

    @classmethod
    def of_surrogate(cls: type[D], surrogate: Any, path: str) -> D:
        """The data at `path` with the fields that a surrogate of `surrogate_kind` takes and predicts."""
        raise NotImplementedError


@runtime_checkable
class SimulatedData(Protocol):
    """A data set that we simulate ourselves: what its folder is to hold, before and after it has been made."""

    @property
    def count(self) -> int:
        """Number of simulations, of all parts together."""
        ...

    def write(self, folder: Path, *, share: tuple[int, int] = (0, 1), progress: bool = False) -> None:
        """Simulate what is missing. Existing files are kept, so an interrupted call resumes."""
        ...

    def files(self, folder: Path) -> list[Path]:
        """All files of the complete data set."""
        ...

    def summary(self, folder: Path) -> str:
        """What the folder holds, in words."""
        ...

    def is_recorded(self, folder: Path) -> bool:
        """Whether the folder says of itself that it is complete."""
        ...


def digest(part: Part) -> str:
    """A short name for the samples of a part: of their number, the first and the last of them."""
    ends = [part.tensors(index) for index in (0, len(part) - 1)]
    content = b"".join(tensor.contiguous().numpy().tobytes() for tensors in ends for tensor in tensors)
    return hashlib.sha256(f"{len(part)} ".encode() + content).hexdigest()[:12]


def data_of(surrogate: ScaledSpec, path: str) -> DataSpec[Any]:
    """The data at `path` as a surrogate takes them."""
    for kind in DataSpec.__subclasses__():
        if isinstance(surrogate, kind.surrogate_kind):
            return kind.of_surrogate(surrogate, path)
    raise ValueError(f"surrogate={type(surrogate).__name__} belongs to no kind of data")
