"""PDEBench's HDF5 files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from mondrian.data.arrays import Handles, hdf5_array, open_hdf5
from mondrian.data.sources.base import Axis, Field, Files, Segment, Source
from mondrian.data.sources.grids import grid_from_axes
from mondrian.data.store import AXES
from mondrian.grid import Grid

STATES = ("tensor", "density", "pressure", "Vx", "Vy", "Vz")


@dataclass(frozen=True)
class PDEBenchFile(Files):
    """One file of PDEBench, in any of its layouts.

    - One array for all simulations: `tensor` `(simulation, time, *space)`, or one key for each state (`density`,
      `pressure`, `Vx`, ...), with `x-coordinate`, `t-coordinate`. A time axis of length 1 (Darcy flow) does not
      count, and `nu` is a field that does not change in time.
    - One group for each seed: `0000/data` `(time, *space, channel)` with `0000/grid/x`, `0000/grid/t`; the
      field is called `data`.
    - Incompressible Navier-Stokes: `velocity` `(simulation, time, *space, component)`, `particles` with one
      channel, `force` without time, `t` `(simulation, time)`. There are no coordinates: the box has length 1 along each
      axis.

    The files do not store periodicity: `periodic` gives it, one entry for each axis.
    """

    periodic: tuple[bool, ...] = ()

    def open(self) -> Source:
        path = Path(self.path)
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; needed a PDEBench file")
        with open_hdf5(path) as file:
            if any(key in file for key in STATES):
                return self._one_array(file)
            if any(isinstance(node, h5py.Group) and "data" in node for node in file.values()):
                return self._seeds(file)
            if "velocity" in file:
                return self._flow(file)
            raise ValueError(
                f"{path} has keys {sorted(file)}; needed 'tensor', 'density', 'velocity' or groups with 'data'"
            )

    def _one_array(self, file: h5py.File) -> Source:
        handles = Handles()
        states = [key for key in STATES if key in file]
        main = file[states[0]]
        if main.ndim < 3:
            raise ValueError(f"{self.path}: {states[0]} {main.shape} has rank {main.ndim}; needed (b, t, x, ...)")
        dim = main.ndim - 2
        simulations, steps = main.shape[:2]
        fields = {}
        for key in [*states, *(["nu"] if "nu" in file else [])]:
            dataset = file[key]
            if key != "nu" and dataset.shape[:2] != main.shape[:2]:
                raise ValueError(
                    f"{self.path}: {key} {dataset.shape} must have simulations and steps as {states[0]} {main.shape}"
                )
            axes: tuple[Axis | int, ...] = (Axis.SIMULATION, Axis.TIME, *range(dim))
            if key == "nu":
                axes = (Axis.SIMULATION, *range(dim))
            elif steps == 1:
                # A solution without time: the axis of length 1 counts as a channel.
                axes = (Axis.SIMULATION, Axis.CHANNEL, *range(dim))
            segment = Segment(hdf5_array(handles, dataset), axes, dim=dim, simulations=simulations)
            fields[key] = Field(name=key, channels=(key,), segments=(segment,))
        keys = [f"{axis}-coordinate" for axis in AXES[:dim]]
        coordinates = [np.asarray(self._dataset(file, key)) for key in keys]
        grid = grid_from_axes(coordinates, self._periodic(dim), file=self.path, keys=keys)
        # Its t-coordinate is often one longer than the data.
        times = np.asarray(file["t-coordinate"][:steps] if "t-coordinate" in file else range(steps), dtype=np.float64)
        return Source(name=self.path, grid=grid, fields=fields, steps=(steps,) * simulations, times=times)

    def _seeds(self, file: h5py.File) -> Source:
        handles = Handles()
        seeds = sorted(key for key, node in file.items() if isinstance(node, h5py.Group))
        shape = self._dataset(file, f"{seeds[0]}/data").shape
        if len(shape) < 3:
            raise ValueError(f"{self.path}: {seeds[0]}/data {shape} has rank {len(shape)}; needed (t, x, ..., channel)")
        dim = len(shape) - 2
        segments, steps = [], []
        for seed in seeds:
            dataset = self._dataset(file, f"{seed}/data")
            if dataset.shape[1:] != shape[1:]:
                raise ValueError(
                    f"{self.path}: {seed}/data {dataset.shape} differs from {seeds[0]}/data {shape}; needed one shape"
                )
            axes = (Axis.TIME, *range(dim), Axis.CHANNEL)
            segments.append(Segment(hdf5_array(handles, dataset), axes, dim=dim, simulations=1))
            steps.append(dataset.shape[0])
        channels = tuple(f"data_{n}" for n in range(shape[-1])) if shape[-1] > 1 else ("data",)
        keys = [f"{seeds[0]}/grid/{axis}" for axis in AXES[:dim]]
        coordinates = [np.asarray(self._dataset(file, key)) for key in keys]
        return Source(
            name=self.path,
            grid=grid_from_axes(coordinates, self._periodic(dim), file=self.path, keys=keys),
            fields={"data": Field(name="data", channels=channels, segments=tuple(segments))},
            steps=tuple(steps),
            times=np.asarray(self._dataset(file, f"{seeds[0]}/grid/t")[: steps[0]], dtype=np.float64),
        )

    def _flow(self, file: h5py.File) -> Source:
        handles = Handles()
        shape = file["velocity"].shape
        dim = len(shape) - 3
        if dim < 1 or shape[-1] != dim:
            raise ValueError(f"{self.path}: velocity {shape} must be (b, t, x, ..., component), one per axis")
        simulations, steps, *points = shape[:-1]
        vector, space = AXES[:dim], tuple(range(dim))
        fields = {}
        for key, parts, leading in (
            ("velocity", vector, (Axis.SIMULATION, Axis.TIME)),
            ("particles", (), (Axis.SIMULATION, Axis.TIME)),
            ("force", vector, (Axis.SIMULATION,)),
        ):
            if key in file:
                array = hdf5_array(handles, file[key])
                segment = Segment(array, (*leading, *space, Axis.CHANNEL), dim=dim, simulations=simulations)
                channels = tuple(f"{key}_{part}" for part in parts) or (key,)
                fields[key] = Field(name=key, channels=channels, segments=(segment,))
        return Source(
            name=self.path,
            grid=Grid(extent=(1.0,) * dim, points=tuple(points), periodic=self._periodic(dim)),
            fields=fields,
            steps=(steps,) * simulations,
            times=np.asarray(self._dataset(file, "t")[0], dtype=np.float64),
        )

    def _dataset(self, file: h5py.File, key: str) -> h5py.Dataset:
        if key not in file:
            raise ValueError(f"{self.path} has no key {key!r}; it has {sorted(file)[:8]}")
        return file[key]

    def _periodic(self, dim: int) -> tuple[bool, ...]:
        if self.periodic and len(self.periodic) != dim:
            raise ValueError(f"periodic={self.periodic} has {len(self.periodic)} entries; {self.path} needs {dim}")
        return self.periodic or (False,) * dim
