"""Models whose errors can be worked out by hand, and data made for them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from mondrian import Grid
from mondrian.artefact import ModelSpec, OperatorModel
from mondrian.data import AllenCahn, ArrayFile, Axis, Manifest, NavierStokes, Simulations, Splits, WellFiles, Window
from mondrian.data.store import write_shard
from mondrian.surrogate import Scale, Surrogate, SurrogateSpec


@dataclass(frozen=True)
class Moved(ModelSpec):
    """Output $k$ is `factor` times input `source`, moved by $(k + 1)$ `shift` points along each axis, plus `offset`."""

    in_channels: int = 1
    out_channels: int = 1
    shift: int = 0
    factor: float = 1.0
    offset: float = 0.0
    source: int = -1
    limit: int = 10**9

    @property
    def default_grid(self) -> Grid:
        return Grid(extent=(1.0,))

    def build(self) -> "MovedModel":
        return MovedModel(self)


class MovedModel(OperatorModel):
    """Remembers the sizes of its batches and the grids it was called with."""

    def __init__(self, spec: Moved) -> None:
        super().__init__()
        self.spec = spec
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.calls: list[tuple[tuple[int, ...], Grid | None, bool, bool]] = []

    def forward(self, x: Tensor, grid: Grid | None = None) -> Tensor:
        spec, axes = self.spec, tuple(range(1, x.ndim - 1))
        if max(x.shape[2:]) > spec.limit:
            raise ValueError(f"points={tuple(x.shape[2:])} are too many; needed at most {spec.limit} an axis")
        self.calls.append((tuple(x.shape), grid, self.training, torch.is_inference_mode_enabled()))
        u = x[:, spec.source] * self.weight
        moves = [torch.roll(u, ((k + 1) * spec.shift,) * len(axes), axes) for k in range(spec.out_channels)]
        return torch.stack(moves, dim=1) * spec.factor + spec.offset


def surrogate(
    in_names: tuple[str, ...] = ("u[0]",), out_names: tuple[str, ...] = ("u[1]",), window: Window | None = None, **model
) -> Surrogate:
    """A surrogate around `Moved`, without scales."""
    spec = Moved(in_channels=len(in_names), out_channels=len(out_names), **model)
    scales = (Scale(),) * len(in_names), (Scale(),) * len(out_names)
    return SurrogateSpec(spec, in_names, out_names, *scales, window).build().eval()


def array_splits(folder: Path, u: np.ndarray, window: Window | None = None, *, channels: bool = False) -> Splits:
    """Simulations `(simulation, time, [channel,] *space)` in one file, a fifth of them each to valid and test."""
    np.save(folder / "u.npy", u.astype(np.float32))
    lead = (Axis.SIMULATION, Axis.TIME, *((Axis.CHANNEL,) if channels else ()))
    dim = u.ndim - len(lead)
    files = ArrayFile(path=str(folder / "u.npy"), axes=(*lead, *(Axis.SPACE,) * dim), periodic=(True,) * dim)
    return Splits(files=files, window=window or Window(input=("u",), target=("u",)), fractions=(0.6, 0.2, 0.2))


def travelling(simulations: int, frames: int, points: tuple[int, ...], speed: int = 1) -> np.ndarray:
    """Random periodic fields that move by `speed` points a frame along each axis."""
    u = np.random.default_rng(0).standard_normal((simulations, *points))
    axes = tuple(range(1, u.ndim))
    return np.stack([np.roll(u, (step * speed,) * len(axes), axes) for step in range(frames)], axis=1)


def generated(
    folder: Path, u: dict[str, dict[tuple[int, ...], np.ndarray]], times: np.ndarray, *, phases: bool = False
) -> Splits:
    """A folder like that of `mondrian generate`: `u[split][points]` is `(simulation, time, *space)`."""
    dim = len(next(iter(next(iter(u.values())))))
    box = Grid(extent=(2.0,) * dim, periodic=(not phases,) * dim)
    checksums = {}
    for split, stored in u.items():
        for points, values in stored.items():
            data = Simulations(
                grid=box.with_points(points),
                times=times,
                fields={"u": values.astype(np.float32)},
                scalars={"gamma": np.full(len(values), 1e-3, dtype=np.float32)},
            )
            file = f"{'x'.join(map(str, points))}/data/{split}/shard_00000.hdf5"
            checksums[file] = write_shard(folder / file, data, name="by_hand", identity={})
    counts = {split: len(next(iter(stored.values()))) for split, stored in u.items()}
    Manifest(
        problem=AllenCahn() if phases else NavierStokes(),
        seed=0,
        simulations=counts,
        points={split: tuple(stored) for split, stored in u.items()},
        shard_size=max(counts.values()),
        version="by hand",
        checksums=checksums,
    ).save(folder)
    return Splits(files=WellFiles(path=str(folder)), window=Window(input=("u",), target=("u",)))
