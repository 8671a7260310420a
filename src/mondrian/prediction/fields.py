"""From a file of fields on grids to a file of predictions, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from mondrian.artefact import OperatorModel
from mondrian.grid import Grid
from mondrian.prediction.arrays import ARRAYS
from mondrian.prediction.inputs import HDF5, Samples, open_samples
from mondrian.prediction.outputs import Append, Prediction, check_output, open_array
from mondrian.prediction.predictor import Predictor, answer_dtype, as_numpy, as_tensor
from mondrian.prediction.simulations import Frames, Simulated, open_simulations
from mondrian.surrogate import evaluating


def predict_fields(
    model: OperatorModel,
    source: Path,
    target: Path,
    *,
    grid: Grid | None = None,
    out_grid: Callable[[Grid], Grid] | None = None,
    steps: int = 1,
    batch_size: int = 32,
    split: str | None = None,
    points: tuple[int, ...] = (),
    progress: bool = False,
) -> Prediction:
    """`predict_file` for fields of which memory holds `batch_size` samples."""
    check_files(source, target, (*ARRAYS, *HDF5), batch_size=batch_size)
    samples, predictor = opened(model, source, grid=grid, out_grid=out_grid, steps=steps, split=split, points=points)
    dtype = answer_dtype(samples.dtype, predictor.dtype)
    wanted = torch.tensor(np.empty(0, dtype=dtype)).dtype
    not_finite = 0
    bar = tqdm(total=len(samples), desc="predict", unit="sample", delay=1, leave=False, disable=not progress or None)
    with evaluating(model), bar, _open(target, samples, predictor, dtype) as append:
        for start in range(0, len(samples), batch_size):
            stop = min(start + batch_size, len(samples))
            y = predictor(as_tensor(samples.read(start, stop)), first=start).to(wanted)
            not_finite += int((~torch.isfinite(y.flatten(1)).all(dim=1)).sum())
            append(as_numpy(y, dtype))
            bar.update(stop - start)
    return Prediction(len(samples), predictor.out_names, predictor.out_shape(samples.shape)[2:], not_finite)


def check_files(source: Path, target: Path, kinds: Sequence[str], *, batch_size: int) -> None:
    """Refuse an output that cannot be written before anything is read."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    if target.suffix not in kinds:
        raise ValueError(f"output {target} ends in {target.suffix!r}; needed one of {', '.join(kinds)}")
    check_output(source, target)


def opened(
    model: OperatorModel,
    source: Path,
    *,
    grid: Grid | None = None,
    out_grid: Callable[[Grid], Grid] | None = None,
    steps: int = 1,
    split: str | None = None,
    points: tuple[int, ...] = (),
) -> tuple[Samples, Predictor]:
    """The samples of a file, and the predictor on their box."""
    predictor = _predictor(model, grid, out_grid, steps)
    samples = open_samples(source, predictor, split=split, points=points)
    if samples.grid is None:
        return samples, predictor
    if grid is not None:
        raise ValueError(f"{samples.name} names its own box {samples.grid}; grid={grid} is for arrays")
    return samples, _predictor(model, samples.grid, out_grid, steps)


def _predictor(
    model: OperatorModel, grid: Grid | None, out_grid: Callable[[Grid], Grid] | None, steps: int
) -> Predictor:
    predictor = Predictor(model, grid=grid, applications=steps)
    if out_grid is None:
        return predictor
    return Predictor(model, grid=grid, out_grid=out_grid(predictor.box), applications=steps)


def _open(
    target: Path, samples: Samples, predictor: Predictor, dtype: np.dtype[np.floating]
) -> AbstractContextManager[Append]:
    if target.suffix not in HDF5:
        shape = predictor.out_shape(samples.shape)
        return open_array(target, shape[1:] if samples.single else shape, dtype)
    return open_simulations(target, simulated(target, samples, predictor, dtype))


def simulated(target: Path, samples: Samples, predictor: Predictor, dtype: np.dtype[np.floating]) -> Simulated:
    """The content of an HDF5 file with the predictions for some samples."""
    if not predictor.named:
        raise ValueError(
            f"output {target} needs the names of fields, which this model does not know; needed {', '.join(ARRAYS)}"
        )
    frames = Frames(predictor.out_names)
    return Simulated(
        count=len(samples),
        grid=predictor.out_grid or predictor.box.with_points(samples.shape[2:]),
        frames=frames,
        times=frames.times(samples.times, samples.present),
        scalars=samples.scalars,
        dtype=dtype,
        identity={"predicted": list(predictor.out_names), "applications": predictor.applications},
    )
