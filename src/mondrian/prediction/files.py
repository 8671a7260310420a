"""From a file of samples to a file of predictions, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from mondrian.artefact import CONFIG, OperatorModel, from_pretrained
from mondrian.grid import Grid
from mondrian.prediction.arrays import ARRAYS
from mondrian.prediction.inputs import HDF5, Samples, open_samples
from mondrian.prediction.outputs import Append, open_array
from mondrian.prediction.predictor import Predictor, answer_dtype, as_numpy, as_tensor
from mondrian.prediction.simulations import Frames, Simulated, open_simulations
from mondrian.support.device import chosen_device
from mondrian.surrogate import evaluating


@dataclass(frozen=True)
class Prediction:
    """What `predict_file` wrote: how many samples, their channels, and how many came out NaN or infinite."""

    samples: int
    channels: tuple[str, ...]
    points: tuple[int, ...]
    not_finite: int


def load_model(folder: str | Path, *, device: str = "cpu") -> OperatorModel:
    """The model in an artefact, or the best one of a training run."""
    folder = Path(folder)
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist; needed an artefact or a training run")
    if folder.is_file():
        raise ValueError(f"{folder} is a file; needed the folder of an artefact or of a training run")
    artefact = folder
    if not (folder / CONFIG).exists() and ((folder / "artefact").exists() or (folder / "run.json").exists()):
        artefact = folder / "artefact"
        if not artefact.exists():
            raise ValueError(f"{folder} holds no model yet: training has not come to a finite validation loss")
    return from_pretrained(artefact).to(chosen_device(device))


def predict_file(
    model: OperatorModel,
    input: str | Path,
    output: str | Path,
    *,
    grid: Grid | None = None,
    out_grid: Callable[[Grid], Grid] | None = None,
    steps: int = 1,
    batch_size: int = 32,
    split: str | None = None,
    points: tuple[int, ...] = (),
    progress: bool = False,
) -> Prediction:
    """Write the predictions for all samples of `input` to `output`; both are called by what they hold.

    Arrays (`.npy`, `.npz`, `.pt`) are `(batch, channel, *space)`, or one sample without the batch axis. HDF5 goes in
    as simulations, of which the first steps are taken, and comes out as the frames that follow; `split` and
    `points` choose among the files of a folder. The answers stand at the points of the samples, or
    on the grid that `out_grid` makes of the samples' box: `lambda box: box.with_points((85, 85))`. At most `batch_size`
    samples are in memory at a time, and `output` exists only when it is whole.
    """
    source, target = Path(input), Path(output)
    check_files(source, target, (*ARRAYS, *HDF5), batch_size=batch_size)
    samples, predictor = opened(model, source, grid=grid, out_grid=out_grid, steps=steps, split=split, points=points)
    dtype = answer_dtype(samples.dtype, predictor.dtype)
    wanted = torch.tensor(np.empty(0, dtype=dtype)).dtype
    bad = 0
    bar = tqdm(total=len(samples), desc="predict", unit="sample", delay=1, leave=False, disable=not progress or None)
    with evaluating(model), bar, _open(target, samples, predictor, dtype) as append:
        for start in range(0, len(samples), batch_size):
            stop = min(start + batch_size, len(samples))
            y = predictor(as_tensor(samples.read(start, stop)), first=start).to(wanted)
            bad += int((~torch.isfinite(y.flatten(1)).all(dim=1)).sum())
            append(as_numpy(y, dtype))
            bar.update(stop - start)
    return Prediction(len(samples), predictor.out_names, predictor.out_shape(samples.shape)[2:], bad)


def check_files(source: Path, target: Path, kinds: Sequence[str], *, batch_size: int) -> None:
    """Refuse an output that cannot be written, before anything is read."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    if target.suffix not in kinds:
        raise ValueError(f"output {target} ends in {target.suffix!r}; needed one of {', '.join(kinds)}")
    if target.exists() and source.exists() and target.samefile(source):
        raise ValueError(f"output {target} is the input; needed another name")


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
    """The samples of a file, and the model on the box that they lie on."""
    predictor = _predictor(model, grid, out_grid, steps)
    samples = open_samples(source, predictor, split=split, points=points)
    if samples.grid is None:
        return samples, predictor
    if grid is not None:
        raise ValueError(f"{samples.name} says itself that it lies on {samples.grid}; grid={grid} is for arrays")
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
    """What an HDF5 file of predictions for some samples holds."""
    if not predictor.named:
        raise ValueError(f"output {target} needs names of fields, which this model has not; needed {', '.join(ARRAYS)}")
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
