"""Meshes in files: they come back as they went, in their parts, and what is wrong with them is named."""

import pytest
import torch

from mondrian import Boxes, Grid
from mondrian.data.meshes import MeshFiles, MeshSplits
from mondrian.data.meshes.files import channels
from mondrian.points import Mesh, MetisParts, read_mesh, write_mesh

SQUARE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
TRIANGLES = torch.tensor([[0, 1, 2], [1, 2, 3]])


def with_flow() -> Mesh:
    flow = torch.arange(8.0).view(4, 2)
    return Mesh(SQUARE, TRIANGLES, {"p": torch.arange(4.0), "flow": flow})


@pytest.mark.parametrize("name", ["a.vtu", "a.xdmf"])
def test_a_mesh_is_read_as_it_was_written(tmp_path, name):
    write_mesh(tmp_path / name, with_flow())
    mesh = read_mesh(tmp_path / name)
    torch.testing.assert_close(mesh.vertices, SQUARE)
    assert torch.equal(mesh.simplices, TRIANGLES)
    torch.testing.assert_close(channels(mesh, ("p", "flow"), name), channels(with_flow(), ("p", "flow"), name))


@pytest.mark.parametrize("dim", [1, 3])
def test_lines_and_tetrahedra_are_written_too(tmp_path, dim):
    vertices = torch.cat([torch.zeros(1, dim), torch.eye(dim)]).double()
    write_mesh(tmp_path / "a.vtu", Mesh(vertices, torch.arange(dim + 1)[None], {"u": torch.arange(dim + 1.0)}))
    mesh = read_mesh(tmp_path / "a.vtu")
    torch.testing.assert_close(mesh.vertices, vertices)
    assert mesh.fields["u"].tolist() == list(range(dim + 1))


def test_an_unknown_format_is_named_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"path='.*a\.nope' cannot be written"):
        write_mesh(tmp_path / "a.nope", with_flow())
    assert not list(tmp_path.iterdir())


def test_parts_have_their_channels_points_and_cells(splits):
    train = splits.meshes("train", partition=Boxes((2, 2)))
    assert (len(train), train.in_channels, train.out_channels, train.dim) == (6, ("source", "distance"), ("u",), 2)
    sample = train[2]
    assert sample.x.shape == (2, sample.points.size)
    assert sample.partition is not None
    assert sample.partition.cells == 4
    assert sample.points.weights.sum().item() == pytest.approx(sample.mesh.volumes().sum().item())
    assert train[2] is sample  # kept
    assert splits.meshes("train", memory=0)[2] is not splits.meshes("train", memory=0)[2]
    assert splits.parts("test") == ("test", "test_fine")


def test_a_field_of_several_components_is_several_channels(tmp_path):
    for number in range(10):
        write_mesh(tmp_path / f"{number}.vtu", with_flow())
    splits = MeshSplits(files=MeshFiles(path=str(tmp_path)), input=("flow",), target=("p",))
    meshes = splits.meshes("train")
    assert meshes.in_channels == ("flow.0", "flow.1")
    assert meshes[0].x.tolist() == [[0.0, 2.0, 4.0, 6.0], [1.0, 3.0, 5.0, 7.0]]


def test_files_without_parts_are_dealt_out_once_each(tmp_path):
    for number in range(10):
        write_mesh(tmp_path / f"{number}.vtu", with_flow())
    splits = MeshSplits(files=MeshFiles(path=str(tmp_path)), input=("p",), target=("p",), fractions=(0.6, 0.2, 0.2))
    dealt = [path for split in ("train", "valid", "test") for path in splits.meshes(split).files]
    assert sorted(dealt) == sorted(tmp_path.iterdir())
    assert [len(splits.meshes(split)) for split in ("train", "valid", "test")] == [6, 2, 2]


def test_a_mesh_that_cannot_be_cut_is_named(tmp_path):
    write_mesh(tmp_path / "train/small.vtu", with_flow())
    splits = MeshSplits(files=MeshFiles(path=str(tmp_path)), input=("flow",), target=("p",))
    with pytest.raises(ValueError, match=r"small\.vtu: parts=9 must be at most the number of points, 4"):
        splits.meshes("train", partition=MetisParts(parts=9))


def test_a_mesh_with_other_channels_than_the_first_is_named(tmp_path):
    write_mesh(tmp_path / "train/a.vtu", with_flow())
    write_mesh(tmp_path / "train/b.vtu", Mesh(SQUARE, TRIANGLES, {"p": torch.arange(4.0), "flow": torch.zeros(4, 3)}))
    meshes = MeshSplits(files=MeshFiles(path=str(tmp_path)), input=("flow",), target=("p",)).meshes("train")
    with pytest.raises(
        ValueError, match=r"b\.vtu has the channels flow\.0, flow\.1, flow\.2, p on 2 axes; needed flow\.0"
    ):
        meshes[1]


def test_files_that_came_later_are_other_samples_unless_they_are_for_testing(tmp_path):
    for part in ("train", "valid", "test"):
        write_mesh(tmp_path / f"{part}/a.vtu", with_flow())
    pinned = MeshFiles(path=str(tmp_path)).pinned()
    write_mesh(tmp_path / "test_more/a.vtu", with_flow())
    assert set(pinned.parts()) == {"train", "valid", "test", "test_more"}
    write_mesh(tmp_path / "train/b.vtu", with_flow())
    with pytest.raises(ValueError, match="holds other files than when the run began"):
        pinned.parts()


def test_hidden_and_other_folders_are_no_parts(tmp_path):
    for name in (".killed/a.vtu", "old/a.vtu", "a.vtu", "b.vtu"):
        write_mesh(tmp_path / name, with_flow())
    (tmp_path / "picture.svg").write_text("<svg/>")
    assert [path.name for path in MeshFiles(path=str(tmp_path)).parts()[""]] == ["a.vtu", "b.vtu"]


def test_what_is_wrong_is_named(splits, tmp_path, folder):
    def of(**settings):
        return MeshSplits(**{"files": MeshFiles(path=str(folder)), "input": ("source",), "target": ("u",), **settings})

    with pytest.raises(ValueError, match=r"00000\.vtu has no field 'nope' .* it has \['distance', 'source', 'u'\]"):
        of(input=("nope",)).meshes("train")
    with pytest.raises(ValueError, match=r"split='other' is not in .*; it has test, test_fine, train, valid"):
        splits.meshes("other")
    with pytest.raises(ValueError, match=r"simulations=7 is more than the 6 of "):
        of(simulations=7).meshes("train")
    with pytest.raises(ValueError, match=r"00000\.vtu: .*outside"):
        of(box=Grid(extent=(0.5, 0.5))).meshes("train")
    with pytest.raises(FileNotFoundError, match="is no folder"):
        of(files=MeshFiles(path=str(tmp_path / "nothing"))).meshes("train")
    with pytest.raises(ValueError, match="holds no file that meshio reads"):
        of(files=MeshFiles(path=str(tmp_path))).meshes("train")
    write_mesh(tmp_path / "train/a.vtu", Mesh(SQUARE, TRIANGLES, {"u": torch.tensor([0.0, 1.0, torch.nan, 0.0])}))
    with pytest.raises(ValueError, match=r"a\.vtu holds values of 'u' that are not finite"):
        of(files=MeshFiles(path=str(tmp_path)), input=("u",)).meshes("train")
    with pytest.raises(ValueError, match="names a field twice"):
        of(input=("u", "u"))
    with pytest.raises(ValueError, match="must have a share for each of train, valid, test"):
        of(fractions=(0.5, 0.5))
    (tmp_path / "broken.vtu").write_text("<VTKFile/>")
    with pytest.raises(ValueError, match=r"broken\.vtu' is not a mesh that meshio can read"):
        read_mesh(tmp_path / "broken.vtu")
