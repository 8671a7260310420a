"""Plain arrays: `.npy`, `.npz`, `.pt`, `.mat`, and neuraloperator's `.pt` pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import scipy.io
import torch
from jaxtyping import Shaped

from mondrian.data.arrays import ContiguousArray, Handles, MemoryArray, StoredArray
from mondrian.data.sources.base import Axis, Field, Files, Segment, Source, spatial
from mondrian.grid import Grid

ZIP = b"PK\x03\x04"  # how the files of `torch.save` begin since version 1.6


@dataclass(frozen=True)
class ArrayFile(Files):
    """Arrays with given axes on a given box.

    All arrays of `keys` (default: every array of the file) have the same `axes`. A `.npy` file has one array, called
    `u` unless `keys` names it; it is read in parts, other files as a whole (`.pt` files are mapped into memory).
    `.mat` files may be of any version; axes are in MATLAB's order.

    >>> ArrayFile(path="burgers.mat", axes=(Axis.SIMULATION, Axis.SPACE), keys=("a", "u"), extent=(1.0,)).axes
    (<Axis.SIMULATION: 'simulation'>, <Axis.SPACE: 'space'>)
    """

    axes: tuple[Axis | str, ...]
    keys: tuple[str, ...] = ()
    extent: tuple[float, ...] = ()
    periodic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "axes", tuple(_axis(axis) for axis in self.axes))
        for axis in (Axis.SIMULATION, Axis.TIME):
            if self.axes.count(axis) > 1:
                raise ValueError(
                    f"axes={[str(name) for name in self.axes]} name {axis.value!r} more than once; needed once"
                )
        if Axis.SPACE not in self.axes:
            raise ValueError(f"axes={[str(name) for name in self.axes]} name no 'space'; needed one for each axis")

    def open(self) -> Source:
        arrays = read_arrays(Path(self.path), self.keys)
        fields = {}
        for key, array in arrays.items():
            if len(array.shape) != len(self.axes):
                names = ", ".join(self.axes)
                raise ValueError(f"{array} has rank {len(array.shape)}; needed axes ({names})")
            fields[key] = _field(key, array, spatial([Axis(axis) for axis in self.axes]))
        return _source(self.path, fields, self.extent, self.periodic)


@dataclass(frozen=True)
class PairFile(Files):
    """neuraloperator's `.pt` files: `x` and `y`, `(sample, *space)` or `(sample, channel, *space)`.

    The length of `extent` is the number of spatial axes; any other axis after the first is the channel axis.
    """

    extent: tuple[float, ...] = (1.0, 1.0)
    periodic: tuple[bool, ...] = ()

    def open(self) -> Source:
        dim = len(self.extent)
        fields = {}
        for key, array in read_arrays(Path(self.path), ("x", "y")).items():
            channel = {1 + dim: (), 2 + dim: (Axis.CHANNEL,)}.get(len(array.shape))
            if channel is None:
                raise ValueError(
                    f"{array} has rank {len(array.shape)}; needed {1 + dim} (sample, *space) or "
                    f"{2 + dim} (sample, channel, *space) for extent={self.extent}"
                )
            fields[key] = _field(key, array, (Axis.SIMULATION, *channel, *range(dim)))
        return _source(self.path, fields, self.extent, self.periodic)


def read_arrays(path: Path, keys: tuple[str, ...] = ()) -> dict[str, StoredArray]:
    """The arrays of a file by name; `ValueError` for missing names."""
    readers: dict[str, Callable[[Path], Mapping[str, Shaped[np.ndarray, "..."]]]] = {
        ".npz": _read_npz,
        ".pt": read_tensors,
        ".pth": read_tensors,
        ".mat": _read_mat,
    }
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; needed an array file")
    if path.suffix == ".npy":
        name = keys[0] if keys else "u"
        if len(keys) > 1:
            raise ValueError(f"keys={keys} name {len(keys)} arrays; {path} holds one")
        return {name: _read_npy(path, name)}
    if path.suffix not in readers:
        raise ValueError(f"{path} ends in {path.suffix!r}; needed .npy or one of {sorted(readers)}")
    arrays = readers[path.suffix](path)
    for key in keys:
        if key not in arrays:
            raise ValueError(f"{path} has no key {key!r}; it has {sorted(arrays)}")
    if not arrays:
        raise ValueError(f"{path} holds no arrays; needed at least one")
    return {key: MemoryArray(arrays[key], file=str(path), key=key) for key in keys or arrays}


def _read_npy(path: Path, name: str) -> StoredArray:
    with reading(path):
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(mapped, np.lib.npyio.NpzFile):
            mapped.close()
            raise ValueError("it holds named arrays, as .npz does")
    if not (isinstance(mapped, np.memmap) and mapped.flags.c_contiguous and mapped.dtype.isnative):
        return MemoryArray(mapped, file=str(path), key=name)
    return ContiguousArray(
        Handles(),
        file=str(path.resolve()),
        key=name,
        offset=mapped.offset,
        shape=mapped.shape,
        dtype=mapped.dtype,
    )


def _read_npz(path: Path) -> dict[str, Shaped[np.ndarray, "..."]]:
    with reading(path), open(path, "rb") as file:
        content = np.load(file, allow_pickle=False)
        if not isinstance(content, np.lib.npyio.NpzFile):
            raise ValueError("it holds one array, as .npy does")
        return {key: content[key] for key in content.files}


def read_tensors(path: Path, *, alone: str = "u") -> dict[str, Shaped[np.ndarray, "..."]]:
    """The tensors of a file of `torch.save` by name; a single tensor without a name is called `alone`."""
    with reading(path):
        with open(path, "rb") as file:
            zipped = file.read(len(ZIP)) == ZIP
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)  # older files cannot be mapped
    tensors = {alone: content} if isinstance(content, torch.Tensor) else content
    if not isinstance(tensors, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}; needed a tensor or a dictionary of tensors")
    return {str(key): _numpy(value) for key, value in tensors.items() if isinstance(value, torch.Tensor)}


def _numpy(tensor: torch.Tensor) -> Shaped[np.ndarray, "..."]:
    tensor = tensor.detach()
    return np.asarray((tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy())


def _read_mat(path: Path) -> dict[str, Shaped[np.ndarray, "..."]]:
    with reading(path):
        if h5py.is_hdf5(path):  # version 7.3 is HDF5 with MATLAB's axes reversed
            with h5py.File(path, "r") as file:
                return {key: node[()].T for key, node in file.items() if isinstance(node, h5py.Dataset)}
        content = scipy.io.loadmat(path)
    return {key: value for key, value in content.items() if not key.startswith("__")}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn any error about the content of a file into a `ValueError` in one line that names the file."""
    try:
        yield
    except Exception as error:  # damaged files raise errors of any kind
        if isinstance(error, OSError) and error.errno:  # the system's own, such as a lack of permission
            raise
        reason = (str(error) or repr(error)).splitlines()[0]
        raise ValueError(f"{path} cannot be read as {path.suffix}: {reason}") from error


def _field(key: str, array: StoredArray, axes: tuple[Axis | int, ...]) -> Field:
    if array.dtype.kind not in "fiub":  # neuraloperator's Darcy files mark the medium by booleans
        raise ValueError(f"{array} has type {array.dtype}; needed real numbers")
    dim = sum(isinstance(axis, int) for axis in axes)
    simulations = array.shape[axes.index(Axis.SIMULATION)] if Axis.SIMULATION in axes else 1
    segment = Segment(array, axes, dim=dim, simulations=simulations)
    channels = tuple(f"{key}_{n}" for n in range(segment.channels)) if segment.channels > 1 else (key,)
    return Field(name=key, channels=channels, segments=(segment,))


def _source(path: str, fields: dict[str, Field], extent: tuple[float, ...], periodic: tuple[bool, ...]) -> Source:
    first = next(iter(fields.values())).segments[0]
    points = tuple(first.length(axis) or 1 for axis in range(first.dim))
    for field in fields.values():
        segment = field.segments[0]
        if segment.simulations != first.simulations or tuple(segment.length(a) for a in range(first.dim)) != points:
            raise ValueError(f"{segment.array} and {first.array} differ in simulations or points; needed the same")
    if extent and len(extent) != first.dim:
        raise ValueError(f"extent={extent} has {len(extent)} entries; {first.array} needs {first.dim}")
    steps = max(field.segments[0].length(Axis.TIME) or 1 for field in fields.values())
    return Source(
        name=path,
        grid=Grid(extent=extent or (1.0,) * first.dim, points=points, periodic=periodic),
        fields=fields,
        steps=(steps,) * first.simulations,
        times=np.arange(steps, dtype=np.float64),
    )


def _axis(value: Axis | str) -> Axis:
    try:
        return Axis(value)
    except ValueError:
        raise ValueError(f"axes name {value!r}; needed {[axis.value for axis in Axis]}") from None
