"""From file to file, for models of fields on grids and of functions on meshes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mondrian.artefact import CONFIG, OperatorModel, from_pretrained
from mondrian.grid import Grid
from mondrian.parallel import Processes
from mondrian.prediction.fields import predict_fields
from mondrian.prediction.meshes import describe_on_meshes, predict_mesh
from mondrian.prediction.outputs import Prediction
from mondrian.prediction.predictor import Predictor
from mondrian.prediction.slabs import predict_slabs
from mondrian.support.device import chosen_device
from mondrian.surrogate import MeshSurrogate


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
            raise ValueError(f"{folder} holds no model yet: training has not reached a finite validation loss")
    return from_pretrained(artefact).to(chosen_device(device))


def predict_file(
    model: OperatorModel,
    input: str | Path,
    output: str | Path,
    *,
    grid: Grid | Callable[[Grid], Grid] | None = None,
    out_grid: Callable[[Grid], Grid] | None = None,
    steps: int = 1,
    batch_size: int = 32,
    split: str | None = None,
    points: tuple[int, ...] = (),
    rows: int | None = None,
    processes: Processes | None = None,
    progress: bool = False,
) -> Prediction:
    """Write the predictions for all samples of `input` to `output`; the suffixes say what the files are.

    A model of functions on meshes takes a mesh in any format that meshio reads and none of the options. For fields on
    grids, arrays (`.npy`, `.npz`, `.pt`) are `(batch, channel, *space)`, or one sample without the batch axis. HDF5 is
    read as simulations, whose first steps are the input, and written as the frames that follow; `split` and `points`
    choose among the files of a folder.

    `grid` is the box of arrays, or makes it from the model's own box. The predictions are at the points of the samples,
    or on the grid that `out_grid` makes from the box: `lambda box: box.with_points((85, 85))`. At most `batch_size`
    samples are in memory at a time; with `rows` of subdomains, or spread over `processes`, only slabs of them (see
    `predict_slabs`). `output` appears when it is complete.
    """
    source, target = Path(input), Path(output)
    if isinstance(model, MeshSurrogate):
        _check_only_for_grids(grid=grid, out_grid=out_grid, split=split, points=points, rows=rows)
        if steps != 1:
            raise ValueError(f"steps={steps} is for fields on grids; on meshes needed 1")
        if processes is not None:
            raise ValueError("a mesh cannot be spread over several processes; needed one")
        return predict_mesh(model, source, target)
    options: dict[str, Any] = {
        "grid": grid(_own_box(model)) if callable(grid) else grid,
        "steps": steps,
        "batch_size": batch_size,
        "split": split,
        "points": points,
        "progress": progress,
    }
    if processes is None and rows is None:
        return predict_fields(model, source, target, out_grid=out_grid, **options)
    if out_grid is not None:
        raise ValueError("out_grid (--out-points) needs whole fields, not slabs; needed one process and no rows")
    return predict_slabs(model, source, target, processes=processes, rows=rows or 0, **options)


def describe(model: OperatorModel) -> str:
    """The inputs, outputs and domain of a model, as text."""
    parameters = f"{sum(parameter.numel() for parameter in model.parameters()):,} parameters"
    if isinstance(model, MeshSurrogate):
        return "\n".join([f"model  PointOperator, {parameters}", *describe_on_meshes(model)])
    predictor = Predictor(model)
    spec: Any = model.spec
    kind = type(spec.model if predictor.named else spec).__name__.removesuffix("Spec")
    box = zip(predictor.box.extent, predictor.box.periodic, strict=True)
    axes = [f"{length:g}{' periodic' if ring else ''}" for length, ring in box]
    names = "" if predictor.named else " (by number: the model was saved without names)"
    return "\n".join(
        [
            f"model  {kind}, {parameters}, {str(predictor.dtype).removeprefix('torch.')}",
            f"in     {', '.join(predictor.in_names)}{names}",
            f"out    {', '.join(predictor.out_names)}",
            f"box    {' x '.join(axes)}",
        ]
    )


def _own_box(model: OperatorModel) -> Grid:
    return Predictor(model).box


def _check_only_for_grids(**options: Any) -> None:
    for name, value in options.items():
        if value:
            shown = "" if callable(value) else f"={value}"
            raise ValueError(f"{name}{shown} is for fields on grids, not meshes")
