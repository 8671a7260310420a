"""Predictions on meshes: the same mesh with the predicted fields at its vertices."""

from __future__ import annotations

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.meshes.files import channel_names, channels, components_of
from mondrian.points.mesh import Mesh, naming, read_mesh, write_fields
from mondrian.prediction.outputs import Prediction, check_output
from mondrian.surrogate import MeshSurrogate, inference


def predict_mesh(surrogate: MeshSurrogate, source: Path, target: Path) -> Prediction:
    """Write the file `source` to `target` with the predicted fields at its vertices.

    Everything else in the file is kept, except fields that have the name of a predicted one.
    """
    check_output(source, target)
    mesh = read_mesh(source)
    prediction = predict_on(surrogate, mesh, name=str(source))
    write_fields(source, target, prediction)
    finite = all(bool(torch.isfinite(values).all()) for values in prediction.values())
    return Prediction(1, surrogate.spec.out_names, (len(mesh.vertices),), 0 if finite else 1)


def predict_on(
    surrogate: MeshSurrogate, mesh: Mesh, *, name: str = "mesh"
) -> dict[str, Float[Tensor, "vertex *component"]]:
    """The predicted fields at the vertices of a mesh, by name."""
    spec = surrogate.spec
    x = channels(mesh, spec.inputs, name)
    if (given := channel_names(mesh, spec.inputs)) != spec.in_names:
        raise ValueError(f"{name} gives the channels {', '.join(given)}; needed {', '.join(spec.in_names)}")
    with naming(name):
        points = mesh.point_set(spec.box)
    with inference(surrogate):
        y = surrogate.predict(x[None], points, name=name)[0].cpu().clone()
    components = components_of(spec.out_names, spec.targets)
    return {field: y[rows[0]] if len(rows) == 1 else y[rows].mT for field, rows in components.items()}


def describe_on_meshes(surrogate: MeshSurrogate) -> list[str]:
    """The inputs, outputs and domain of a model of functions on meshes, a line for each."""
    spec, inner = surrogate.spec, surrogate.points_model.spec
    box = "the bounding box of each mesh"
    if spec.box is not None:
        box = " x ".join(f"{length:g}" for length in spec.box.extent)
    return [
        f"in     {', '.join(spec.in_names)} at the vertices of meshes with {inner.dim} axes",
        f"out    {', '.join(spec.out_names)}",
        f"box    {box}, cells {inner.partition}",
    ]
