"""Errors on meshes: integrals over each domain, in the parts of a folder."""

from __future__ import annotations

import shutil

import pytest
import torch

from mondrian.data.meshes import MeshFiles, MeshSplits
from mondrian.evaluation import evaluate
from mondrian.evaluation.baselines import training_mean
from mondrian.evaluation.meshes import MeshPart
from mondrian.models import point_no
from mondrian.points import Boxes, Mesh, write_mesh
from mondrian.surrogate import MeshSurrogateSpec, Scale
from tests.meshes.cases import small_surrogate


def test_several_fields_have_errors_of_their_own_over_all_components(tmp_path):
    """The errors of a model that predicts zero are integrals of the truth, in the units of each field."""
    mesh = Mesh(torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([[0, 1, 2], [1, 2, 3]]))
    flow, p = torch.tensor([[3.0, 4.0]]).expand(4, 2), torch.full((4,), 1000.0)
    for part in ("train", "test"):
        write_mesh(tmp_path / part / "a.vtu", Mesh(mesh.vertices, mesh.simplices, {"p": p, "flow": flow}))
    model = point_no(1, 3, partition=Boxes((2, 2)), hidden_channels=4, n_layers=1, reference=(2, 2))
    spec = MeshSurrogateSpec(
        model.spec, ("p",), ("flow.0", "flow.1", "p"), (Scale(),), (Scale(),) * 3, ("p",), ("flow", "p")
    )
    zero = spec.build()
    with torch.no_grad():
        for parameter in zero.parameters():
            parameter.zero_()
    splits = MeshSplits(files=MeshFiles(path=str(tmp_path)), input=("p",), target=("flow", "p"))
    (entry,) = evaluate(zero, splits).one_step
    assert list(entry.by_field) == ["flow", "p"]
    assert [errors.model["mae"].mean for errors in entry.by_field.values()] == pytest.approx([3.5, 1000])
    assert entry.by_field["p"].model["relative_l2"].mean == pytest.approx(1)
    assert entry.by_field["flow"].training_mean["mae"].mean == pytest.approx(0, abs=1e-6)  # the same mesh is trained on
    assert entry.model["mae"].mean == pytest.approx(1007 / 3)


def test_meshes_without_a_training_part_have_no_training_mean(folder, splits, tmp_path):
    shutil.copytree(folder / "test", tmp_path / "test")
    (entry,) = evaluate(small_surrogate(), splits.of_other_data(str(tmp_path))).one_step
    assert entry.training_mean is None
    assert entry.part == "test"
    assert entry.by_field is None  # there is one field


def test_a_part_is_its_first_meshes_and_grids_are_asked_for_in_vain(splits):
    results = evaluate(small_surrogate(), splits, simulations=2)
    assert [(entry.part, entry.samples) for entry in results.one_step] == [("test", 2), ("test_fine", 2)]
    assert results.simulations == 4
    assert all(entry.spectrum is None and entry.persistence is None for entry in results.one_step)
    assert {name.rpartition("/")[0] for name in results.fields} == {
        "test/0", "test/1", "test_fine/0", "test_fine/1"
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"simulations=3 are wanted; test_fine of .* has 2"):
        evaluate(small_surrogate(), splits, simulations=3)
    for options in ({"points": [(8, 8)]}, {"horizon": 3}, {"batch_size": 2}, {"interface": True}):
        with pytest.raises(ValueError, match=r"is for fields on grids; .* holds meshes"):
            evaluate(small_surrogate(), splits, **options)


def test_the_training_mean_is_the_integral_over_all_domains_by_their_measure(splits):
    meshes = splits.meshes("train")
    samples = [meshes[number] for number in range(len(meshes))]
    integral = sum((sample.y[0].double() * sample.points.weights).sum().item() for sample in samples)
    measure = sum(sample.points.weights.sum().item() for sample in samples)
    mean = training_mean(MeshPart("train", meshes))
    assert mean.at(None).item() == pytest.approx(integral / measure)


def test_channels_of_other_names_are_refused(splits):
    spec = MeshSurrogateSpec(small_surrogate().spec.model, ("source", "height"), ("u",), (Scale(),) * 2, (Scale(),))
    with pytest.raises(ValueError, match=r"gives input channels \(source, distance\); needed \(source, height\)"):
        evaluate(spec.build(), splits)
