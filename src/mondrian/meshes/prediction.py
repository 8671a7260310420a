"""A trained model on a mesh of a file: the same mesh with the answer at its vertices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from mondrian.data.meshes.files import channel_names, channels, places_of
from mondrian.evaluation.batches import at_rest
from mondrian.points.mesh import Mesh, naming, read_mesh, write_fields
from mondrian.surrogate import MeshSurrogate


@dataclass(frozen=True)
class Predicted:
    """What was written: the number of vertices, and whether all of the answer is finite."""

    vertices: int
    finite: bool


def predict_mesh(surrogate: MeshSurrogate, source: str | Path, target: str | Path) -> Predicted:
    """Read a mesh with its input fields, and write the same file with the predicted fields at its vertices.

    Whatever else the file holds stays, but for fields that have the name of a predicted one.
    """
    if Path(target).exists() and Path(target).samefile(source):
        raise ValueError(f"output {target} is the input; needed another name")
    mesh = read_mesh(source)
    answer = predict_on(surrogate, mesh, name=str(source))
    write_fields(source, target, answer)
    finite = all(bool(torch.isfinite(values).all()) for values in answer.values())
    return Predicted(len(mesh.vertices), finite)


def predict_on(
    surrogate: MeshSurrogate, mesh: Mesh, *, name: str = "mesh"
) -> dict[str, Float[Tensor, "vertex *component"]]:
    """The predicted fields at the vertices, by name."""
    spec = surrogate.spec
    x = channels(mesh, spec.inputs, name)
    if channel_names(mesh, spec.inputs) != spec.in_names:
        found = ", ".join(channel_names(mesh, spec.inputs))
        raise ValueError(f"{name} gives the channels {found}; needed {', '.join(spec.in_names)}")
    with naming(name):
        points = mesh.point_set(spec.box)
    with at_rest(surrogate):
        answer = surrogate.at_vertices(x, points, name=name).clone()
    parts = places_of(spec.out_names, spec.targets)
    return {field: answer[rows[0]] if len(rows) == 1 else answer[rows].mT for field, rows in parts.items()}
