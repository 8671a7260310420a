"""A trained model on a mesh of a file: the same mesh with the answer at its vertices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mondrian.meshes.files import channels, field_of, points_of
from mondrian.meshes.surrogate import MeshSurrogate
from mondrian.points.mesh import Mesh, read_mesh, write_mesh


@dataclass(frozen=True)
class Predicted:
    """What was written: the number of vertices, and whether all of the answer is finite."""

    vertices: int
    finite: bool


def predict_mesh(surrogate: MeshSurrogate, source: str | Path, target: str | Path) -> Predicted:
    """Read a mesh with its input fields, write it with the predicted ones.

    Fields that came with the mesh stay, but for one that has the name of a predicted field.
    """
    mesh = read_mesh(source)
    answer = predict_on(surrogate, mesh, name=str(source))
    write_mesh(target, Mesh(mesh.vertices, mesh.simplices, {**mesh.fields, **answer}))
    finite = all(bool(torch.isfinite(values).all()) for values in answer.values())
    return Predicted(len(mesh.vertices), finite)


def predict_on(surrogate: MeshSurrogate, mesh: Mesh, *, name: str = "mesh") -> dict[str, Tensor]:
    """The predicted fields at the vertices, by name."""
    spec = surrogate.spec
    x = channels(mesh, tuple(dict.fromkeys(map(field_of, spec.in_names))), name)
    if len(x) != len(spec.in_names):
        raise ValueError(
            f"{name} gives {len(x)} input channels; needed {len(spec.in_names)}: {', '.join(spec.in_names)}"
        )
    weight = surrogate.points_model.project.skip.weight
    with torch.no_grad():
        answer = surrogate(x[None].to(weight), points_of(mesh, spec.box, name))
    assert isinstance(answer, Tensor)
    rows: dict[str, list[Tensor]] = {}
    for channel, values in zip(spec.out_names, answer[0].cpu(), strict=True):
        rows.setdefault(field_of(channel), []).append(values)
    return {field: parts[0] if len(parts) == 1 else torch.stack(parts, dim=1) for field, parts in rows.items()}
