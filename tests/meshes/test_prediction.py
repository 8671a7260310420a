"""Predictions on meshes: everything else in the file is kept."""

from __future__ import annotations

import meshio
import numpy as np
import pytest
import torch

from mondrian.data.meshes.files import channels
from mondrian.models import point_no
from mondrian.points import Boxes, Mesh, MetisParts, read_mesh
from mondrian.prediction import predict_file, predict_on
from mondrian.surrogate import MeshSurrogateSpec, Scale
from tests.meshes.cases import small_surrogate


def test_a_file_with_quadrilaterals_in_another_plane_stays_as_it_is(tmp_path):
    points = np.array([[x, 5.0, z] for x in (0.0, 1.0, 2.0) for z in (0.0, 1.0)] + [[9.0, 5.0, 9.0]])
    quads = np.array([[0, 2, 3, 1], [2, 4, 5, 3]])
    fields = {"source": np.arange(7.0), "distance": np.ones(7)}
    meshio.write(tmp_path / "in.vtu", meshio.Mesh(points, [("quad", quads)], fields, {"kind": [np.array([3, 4])]}))
    predict_file(small_surrogate(), tmp_path / "in.vtu", tmp_path / "out.vtu")
    made = meshio.read(tmp_path / "out.vtu")
    np.testing.assert_array_equal(made.points, points)
    np.testing.assert_array_equal(made.cells_dict["quad"], quads)
    np.testing.assert_array_equal(made.cell_data["kind"][0], [3, 4])
    answer = predict_on(small_surrogate(), read_mesh(tmp_path / "in.vtu"))["u"].numpy()
    np.testing.assert_allclose(made.point_data["u"], [*answer, np.nan])


def test_a_prediction_is_on_the_mesh_of_its_input(folder, tmp_path):
    model = small_surrogate()
    source = folder / "test_fine/00000.vtu"
    made = predict_file(model, source, tmp_path / "answer.vtu")
    mesh, answer = read_mesh(source), read_mesh(tmp_path / "answer.vtu")
    assert (made.samples, made.points, made.not_finite) == (1, (len(mesh.vertices),), 0)
    torch.testing.assert_close(answer.fields["u"], predict_on(model, mesh)["u"])
    assert torch.equal(answer.fields["source"], mesh.fields["source"])
    x = channels(mesh, ("source", "distance"), "mesh")
    with torch.no_grad():
        torch.testing.assert_close(answer.fields["u"][None], model(x[None], mesh.point_set())[0])
    bare = Mesh(mesh.vertices, mesh.simplices, {"u": mesh.fields["u"]})
    with pytest.raises(ValueError, match=r"bare\.vtu has no field 'source'"):
        predict_on(model, bare, name="bare.vtu")


def test_a_field_that_is_called_like_a_component_of_another_is_a_field():
    model = point_no(1, 2, partition=Boxes((2, 2)), hidden_channels=4, n_layers=1, reference=(2, 2))
    spec = MeshSurrogateSpec(model.spec, ("f",), ("u", "u.1"), (Scale(),), (Scale(), Scale(7.0)))
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    mesh = Mesh(corners, torch.tensor([[0, 1, 2]]), {"f": torch.arange(3.0)})
    surrogate = spec.build()
    answer = predict_on(surrogate, mesh)
    with torch.no_grad():
        rows = surrogate(mesh.fields["f"][None, None], mesh.point_set())[0]
    torch.testing.assert_close(answer["u"], rows[0])
    torch.testing.assert_close(answer["u.1"], rows[1])


def test_a_mesh_that_is_too_small_for_the_parts_of_a_model_is_named():
    model = point_no(1, 1, partition=MetisParts(parts=4), hidden_channels=4, n_layers=1, reference=(2, 2))
    spec = MeshSurrogateSpec(model.spec, ("f",), ("u",), (Scale(),), (Scale(),))
    corners = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    mesh = Mesh(corners, torch.tensor([[0, 1, 2]]), {"f": torch.arange(3.0)})
    with pytest.raises(ValueError, match=r"^tiny\.vtu: parts=4 must be at most the number of points, 3"):
        predict_on(spec.build(), mesh, name="tiny.vtu")


@pytest.mark.parametrize(
    "options",
    [{"steps": 3}, {"split": "test"}, {"points": (8, 8)}, {"rows": 2}, {"grid": lambda box: box}],
    ids=lambda options: next(iter(options)),
)
def test_options_for_fields_on_grids_are_refused(options, folder, tmp_path):
    with pytest.raises(ValueError, match="is for fields on grids"):
        predict_file(small_surrogate(), folder / "test/00000.vtu", tmp_path / "answer.vtu", **options)
