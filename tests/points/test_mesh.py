"""Meshes: volumes, masses, graphs, boundaries, files."""

import math

import meshio
import numpy as np
import pytest
import torch
from skfem import Basis, ElementTetP1, ElementTriP1, MeshTet, MeshTri
from skfem.models.poisson import mass

from mondrian import Grid
from mondrian.points import Mesh, lumped_masses, read_mesh
from tests.points.cases import square_mesh
from tests.unchecked import unchecked


@pytest.mark.parametrize(("make", "element"), [(MeshTri, ElementTriP1), (MeshTet, ElementTetP1)], ids=["2d", "3d"])
def test_masses_are_the_row_sums_of_scikit_fems_mass_matrix(make, element):
    peer = make().refined(2)
    expected = np.asarray(mass.assemble(Basis(peer, element())).sum(axis=1)).ravel()
    masses = lumped_masses(torch.from_numpy(peer.p.T.copy()), torch.from_numpy(peer.t.T.copy()))
    np.testing.assert_allclose(masses.numpy(), expected, rtol=1e-12)


def test_boundary_and_edges_are_those_of_scikit_fem():
    peer = MeshTri.init_lshaped().refined(2)
    mesh = Mesh(torch.from_numpy(peer.p.T.copy()), torch.from_numpy(peer.t.T.copy()))
    assert mesh.boundary().tolist() == sorted(peer.boundary_nodes().tolist())
    assert {tuple(edge) for edge in mesh.edges().tolist()} == {tuple(sorted(edge)) for edge in peer.facets.T.tolist()}


def test_lumped_masses_integrate_at_second_order():
    def error(n):
        points = square_mesh(n, jitter=0.2).point_set()
        values = torch.exp(points.coordinates).prod(dim=1)
        return abs((values * points.weights).sum().item() - (math.e - 1) ** 2)

    assert math.log2(error(16) / error(32)) == pytest.approx(2.0, abs=0.15)


def test_masses_are_exact_for_linear_functions():
    points = square_mesh(5, jitter=0.3).point_set()
    linear = 2 + 3 * points.coordinates[:, 0] - points.coordinates[:, 1]
    assert (linear * points.weights).sum().item() == pytest.approx(3.0, rel=1e-12)


@pytest.mark.parametrize("extension", ["vtk", "msh", "xdmf"])
def test_a_mesh_survives_a_file(tmp_path, extension):
    mesh = square_mesh(3, jitter=0.2)
    flat = np.pad(mesh.vertices.numpy(), ((0, 0), (0, 1)))
    path = tmp_path / f"mesh.{extension}"
    # a lone vertex first (as Gmsh leaves the centres of circles), and the lines of the boundary, which do not count
    points = np.concatenate([[[9.0, 9.0, 0.0]], flat])
    cells = [("line", np.array([[1, 2]])), ("triangle", mesh.simplices.numpy() + 1)]
    form = {"msh": "gmsh22"}.get(extension, extension)  # .msh is also the name of files of Ansys
    meshio.write_points_cells(
        path, points, cells, point_data={"u": np.arange(len(points), dtype=float)}, file_format=form
    )
    restored = read_mesh(path)
    torch.testing.assert_close(restored.vertices, mesh.vertices)
    assert torch.equal(restored.simplices, mesh.simplices)
    assert restored.fields["u"].flatten().tolist() == list(range(1, len(points)))


@pytest.mark.parametrize(
    ("kind", "corners"),
    [
        ("quad", [[0, 0], [2, 0], [3, 1], [0, 1]]),
        ("wedge", [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2], [1, 0, 2], [0, 1, 2]]),
        ("pyramid", [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 0.5, 3]]),
        ("hexahedron", [[0, 0, 0], [1, 0, 0], [1, 2, 0], [0, 2, 0], [0, 0, 3], [1, 0, 3], [1, 2, 3], [0, 2, 3]]),
    ],
)
def test_other_elements_are_cut_into_simplices_of_the_same_volume(tmp_path, kind, corners):
    corners = np.array(corners, dtype=float)
    path = tmp_path / "one.vtk"
    points = np.pad(corners, ((0, 0), (0, 3 - corners.shape[1])))
    meshio.write_points_cells(path, points, [(kind, np.arange(len(corners))[None])])
    volume = {"quad": 2.5, "wedge": 1.0, "pyramid": 1.0, "hexahedron": 6.0}[kind]
    assert read_mesh(path).volumes().sum().item() == pytest.approx(volume, rel=1e-12)


def blocks_of(kind, n):
    """A cube of n x n x n smaller ones, each an element, or two wedges, or six pyramids round its centre."""
    numbers = np.arange((n + 1) ** 3).reshape(n + 1, n + 1, n + 1)
    ends = (slice(None, -1), slice(1, None))
    place = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)]
    cubes = np.stack([numbers[ends[a], ends[b], ends[c]].ravel() for a, b, c in place], axis=1)
    points = np.stack(np.meshgrid(*[np.arange(n + 1) / n] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    if kind == "wedge":
        return points, np.concatenate([cubes[:, [0, 1, 2, 4, 5, 6]], cubes[:, [0, 2, 3, 4, 6, 7]]])
    if kind == "pyramid":
        sides = [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 5, 4], [1, 2, 6, 5], [2, 3, 7, 6], [3, 0, 4, 7]]
        centres = len(points) + np.arange(len(cubes))
        elements = np.concatenate([np.column_stack([cubes[:, side], centres]) for side in sides])
        return np.concatenate([points, points[cubes].mean(axis=1)]), elements
    return points, cubes


@pytest.mark.parametrize("kind", ["wedge", "pyramid", "hexahedron"])
def test_neighbours_agree_on_the_face_between_them(tmp_path, kind):
    """Whatever the numbers of the vertices: the boundary of the simplices is that of the cube."""
    points, elements = blocks_of(kind, 3)
    numbers = np.random.default_rng(0).permutation(len(points))
    shuffled = np.empty_like(points)
    shuffled[numbers] = points
    path = tmp_path / "cube.vtk"
    meshio.write_points_cells(path, shuffled, [(kind, numbers[elements])])
    mesh = read_mesh(path)
    outside = ((mesh.vertices == 0) | (mesh.vertices == 1)).any(dim=1)
    assert torch.equal(mesh.boundary(), outside.nonzero().flatten())
    assert mesh.volumes().sum().item() == pytest.approx(1.0, rel=1e-12)
    assert mesh.volumes().min().item() > 0


def test_files_that_hold_no_mesh_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.vtk does not exist"):
        read_mesh(tmp_path / "nowhere.vtk")
    (tmp_path / "text.vtk").write_text("hello")
    with pytest.raises(ValueError, match="not a mesh that meshio can read"):
        read_mesh(tmp_path / "text.vtk")
    (tmp_path / "text.what").write_text("hello")
    with pytest.raises(ValueError, match="not a mesh that meshio can read"):
        read_mesh(tmp_path / "text.what")
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0]])
    meshio.write_points_cells(tmp_path / "curved.vtk", points, [("triangle6", np.arange(6)[None])])
    with pytest.raises(ValueError, match=r"elements \['triangle6'\]; needed "):
        read_mesh(tmp_path / "curved.vtk")
    surface = np.array([[0.0, 0, 0], [1, 0, 1], [0, 1, 0]])
    meshio.write_points_cells(tmp_path / "surface.vtk", surface, [("triangle", np.arange(3)[None])])
    with pytest.raises(ValueError, match="dimension 2 in a space of 3"):
        read_mesh(tmp_path / "surface.vtk")
    nowhere = np.array([[0.0, 0, 0], [1, 0, 0], [0, np.nan, 0]])
    meshio.write_points_cells(tmp_path / "nan.vtk", nowhere, [("triangle", np.arange(3)[None])])
    with pytest.raises(
        ValueError, match=r"nan\.vtk' holds 1 points that are not finite; the first is point 2 at \[0.0, nan"
    ):
        read_mesh(tmp_path / "nan.vtk")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Mesh(torch.rand(3, 2), torch.tensor([[0, 1]])),
            r"simplices has shape \(1, 2\) and .* needed \(simplex, 3",
        ),
        (lambda: Mesh(torch.rand(3, 2), torch.zeros(0, 3, dtype=torch.long)), "at least one"),
        (lambda: Mesh(torch.rand(3, 2), torch.tensor([[0, 1, 3]])), "names vertices 0 to 3; needed 0 to 2"),
        (
            lambda: Mesh(torch.rand(3, 2), torch.tensor([[0.0, 1.0, 2.0]])),
            "dtype torch.float32; needed .* whole numbers",
        ),
        (
            lambda: Mesh(torch.tensor([[0.0, 0.0], [1.0, torch.nan], [0.0, 1.0]]), torch.tensor([[0, 1, 2]])),
            "vertices holds 1 points that are not finite; the first is point 1",
        ),
        (lambda: Mesh(torch.rand(3), torch.tensor([[0, 1]])), r"vertices has shape \(3,\)"),
        (lambda: square_mesh(2).point_set(Grid((0.5, 0.5))), "outside the box"),
    ],
)
def test_bad_meshes_are_refused(make, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        make()
