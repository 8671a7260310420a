"""The contract of data sets, which fields on grids and functions on meshes fulfil alike."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.data.meshes import MeshFiles, MeshSplits
from mondrian.data.protocol import DataSpec, data_of, digest
from mondrian.data.sources import WellFiles
from mondrian.data.splits import Splits
from mondrian.data.store import Simulations, write_shard
from mondrian.models import point_no, vit_no
from mondrian.points import Boxes, Mesh, write_mesh
from mondrian.support.spec import Spec
from mondrian.surrogate import Scale, SurrogateSpec, Window


def on_grids(folder: Path) -> tuple[Splits, Spec]:
    random = np.random.default_rng(0)
    for split in ("train", "valid", "test"):
        field = random.standard_normal((3, 2, 8)).astype(np.float32)
        simulations = Simulations(Grid(extent=(1.0,), points=(8,)), np.array([0.0, 1.0]), {"u": field}, {})
        write_shard(folder / "data" / split / "a.hdf5", simulations, name="test", identity={})
    model = vit_no(1, 1, subdomains=(2,), hidden_channels=4, n_layers=1).spec
    return Splits(files=WellFiles(path=str(folder)), window=Window(input=("u",), target=("u",))), model


def on_meshes(folder: Path) -> tuple[MeshSplits, Spec]:
    vertices = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    for part in ("train", "valid", "test"):
        for name in "abc":
            mesh = Mesh(vertices, torch.tensor([[0, 1, 2]]), {"f": torch.rand(3), "u": torch.rand(3)})
            write_mesh(folder / part / f"{name}.vtu", mesh)
    model = point_no(1, 1, partition=Boxes((2, 2)), hidden_channels=4, n_layers=1).spec
    return MeshSplits(files=MeshFiles(path=str(folder)), input=("f",), target=("u",)), model


@pytest.fixture(params=[on_grids, on_meshes])
def described(request, tmp_path):
    return request.param(tmp_path / "data_set")


def test_each_part_has_samples_with_the_channels_that_it_names(described):
    data, _ = described
    for name in ("train", "valid", "test"):
        assert data.parts(name) == (name,)
        part = data.part(name)
        x, y = part.tensors(0)
        assert (len(part), len(x), len(y)) == (3, len(part.in_channels), len(part.out_channels))


def test_values_are_those_of_all_samples_in_order(described):
    part = described[0].part("train")
    chunks = list(part.values())
    assert sum(chunk.samples for chunk in chunks) == len(part)
    values = torch.cat([chunk.y[0].flatten() for chunk in chunks]).float()
    torch.testing.assert_close(values, torch.cat([part.tensors(n)[1][0].flatten() for n in range(len(part))]))


def test_the_digest_names_the_samples(described):
    data, _ = described
    assert digest(data.part("train")) == digest(data.part("train")) != digest(data.part("valid"))


def test_a_surrogate_leads_back_to_its_kind_of_data(described):
    data, model = described
    train = data.part("train")
    surrogate = data.surrogate(model, train, [Scale()] * len(train.in_channels), [Scale()] * len(train.out_channels))
    assert isinstance(surrogate, data.surrogate_kind)
    assert data_of(surrogate, data.path) == data


def test_it_stands_in_a_file(described):
    data, _ = described
    read = DataSpec.from_json(data.pinned().to_json())
    assert read == data.pinned()
    assert read.of_other_data("elsewhere").path == "elsewhere"


def test_a_surrogate_without_a_window_does_not_say_which_fields_it_takes(tmp_path):
    _, model = on_grids(tmp_path)
    surrogate = SurrogateSpec(model, ("u",), ("v",), (Scale(),), (Scale(),))
    with pytest.raises(ValueError, match="needed a window"):
        data_of(surrogate, "elsewhere")
