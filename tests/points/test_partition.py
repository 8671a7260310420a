"""Boxes and parts: every point in one cell, boxes that fit, and what happens to empty and tiny cells."""

import sys

import numpy as np
import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from skfem import MeshTri

from mondrian import Decomposition, Grid
from mondrian.points import Boxes, Mesh, MetisParts, PointSet, parts_of, with_neighbours
from tests.points.cases import UNIT, cloud, square_mesh
from tests.unchecked import unchecked


def lshape(refinements=3):
    peer = MeshTri.init_lshaped().refined(refinements)
    return Mesh(torch.from_numpy(peer.p.T.copy()), torch.from_numpy(peer.t.T.copy()))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_boxes_of_a_grid_are_the_cells_of_its_decomposition(dim):
    grid = Grid(extent=(1.0, 2.0, 0.5)[:dim], points=(6, 4, 4)[:dim], origin=(3.0, 0.0, -1.0)[:dim])
    counts = (3, 2, 2)[:dim]
    partition = Boxes(counts).cut(PointSet.of_grid(grid))
    number = torch.arange(partition.cells, dtype=torch.float64)[None, :, None, None]
    points_a_cell = partition.points.size // partition.cells
    expected = Decomposition(grid, counts).join(number.expand(1, -1, 1, points_a_cell)).flatten()
    assert torch.equal(partition.members.double(), expected)
    local = partition.local(partition.points, partition.members)
    assert local.abs().max() < 1


def test_a_point_on_a_border_belongs_to_the_upper_box_and_the_last_wall_to_the_last_box():
    points = PointSet(torch.tensor([[0.0], [0.5], [1.0]]))
    assert Boxes((2,)).cut(points).members.tolist() == [0, 1, 1]


def test_metis_parts_are_alike_in_size_and_mostly_coherent():
    mesh = square_mesh(20, jitter=0.2)
    partition = MetisParts(parts=16).cut(mesh.point_set())
    assert partition.counts.min() >= 0.8 * 441 / 16
    assert partition.counts.max() <= 1.2 * 441 / 16
    edges = mesh.edges()
    cut = (partition.members[edges[:, 0]] != partition.members[edges[:, 1]]).sum()
    numbers = torch.randperm(441)  # parts that know nothing of the graph
    blind = (partition.members[numbers][edges[:, 0]] != partition.members[numbers][edges[:, 1]]).sum()
    assert cut < 0.4 * blind


@pytest.mark.parametrize("parts", [9, 25, 50])
def test_metis_parts_are_coherent_however_small(parts):
    """Into many parts at once METIS scattered parts of a dozen points over their neighbours: 6 of 10 edges were cut."""
    mesh = square_mesh(17, jitter=0.2)
    members = MetisParts(parts).cut(mesh.point_set()).members
    edges = mesh.edges()
    inner = edges[members[edges[:, 0]] == members[edges[:, 1]]]
    size = 324 / parts
    # a square of n points has 3 n - 4 sqrt(n) + 1 edges inside (two sides and a diagonal a square of the mesh)
    assert len(inner) > 0.75 * parts * (3 * size - 4 * size**0.5 + 1)
    graph = coo_array((np.ones(len(inner)), inner.numpy().T), shape=(324, 324))
    pieces, _ = connected_components(graph, directed=False)
    assert pieces <= 1.1 * parts


def test_metis_parts_are_the_same_again():
    points = lshape().point_set()
    first, second = (MetisParts(parts=7, seed=3).cut(points) for _ in range(2))
    assert torch.equal(first.members, second.members)


@pytest.mark.parametrize("parts", [1, 2, 9, 60])
def test_every_point_lies_in_the_box_of_its_part(parts):
    points = lshape(2).point_set()
    partition = MetisParts(parts).cut(points)
    assert partition.members.shape == (points.size,)
    assert partition.local(points, partition.members).abs().max() <= 1
    assert (partition.sizes > 0).all()


def test_the_box_of_a_part_of_a_grid_is_the_part():
    grid = Grid(extent=(2.0, 1.0), points=(8, 4))
    boxes = Boxes((2, 2)).cut(PointSet.of_grid(grid))
    parts = parts_of(PointSet.of_grid(Grid(extent=(2.0, 2.0), points=(8, 8))), torch.arange(64) // 32, 2)
    torch.testing.assert_close(parts.sizes, torch.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=torch.float64))
    again = parts_of(boxes.points, boxes.members, 4)  # spacing 1/4 along both axes
    torch.testing.assert_close(again.sizes, boxes.sizes)
    torch.testing.assert_close(again.centres, boxes.centres)


def test_empty_tiny_and_flat_parts_have_boxes_too():
    points = square_mesh(3).point_set()
    members = torch.zeros(16, dtype=torch.long)
    members[5] = 1  # a single point
    members[12:] = 2  # four in a line
    partition = parts_of(points, members, 4)  # and nothing in the last
    assert partition.counts.tolist() == [11, 1, 4, 0]
    assert (partition.sizes > 0).all()
    assert partition.sizes.isfinite().all()
    torch.testing.assert_close(partition.sizes[1], torch.full((2,), (1 / 9) ** 0.5, dtype=torch.float64))
    torch.testing.assert_close(partition.centres[3], torch.tensor([0.5, 0.5], dtype=torch.float64))


def test_other_points_belong_to_the_part_of_the_nearest_point():
    points = lshape().point_set()
    partition = MetisParts(parts=8).cut(points)
    assert torch.equal(partition.locate(PointSet(points.coordinates, box=points.domain)), partition.members)
    beside = points.coordinates + 0.01 * torch.randn_like(points.coordinates)
    low = torch.tensor(points.domain.origin)
    high = low + torch.tensor(points.domain.extent)
    beside = torch.minimum(torch.maximum(beside, low), high)
    cells = partition.locate(PointSet(beside, box=points.domain))
    nearest = torch.cdist(beside, points.coordinates).argmin(dim=1)
    assert torch.equal(cells, partition.members[nearest])


def test_a_cloud_gets_a_graph_of_neighbours():
    points = with_neighbours(cloud(200), neighbours=5)
    distances = torch.cdist(points.coordinates, points.coordinates)
    near = distances.argsort(dim=1)[:, 1:6]
    expected = {(i, j) for i, row in enumerate(near.tolist()) for j in row}
    assert {tuple(edge) for edge in points.edges.tolist()} == expected
    partition = MetisParts(parts=10).cut(points)
    assert partition.counts.min() > 10


def test_the_graph_of_coincident_points_has_no_loops():
    x = torch.rand(30, 2, dtype=torch.float64).repeat(2, 1)
    points = with_neighbours(PointSet.estimated(x, UNIT), neighbours=3)
    assert (points.edges[:, 0] != points.edges[:, 1]).all()
    assert MetisParts(parts=4).cut(points).counts.sum() == 60


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda: Boxes(()), "must hold a number of at least 1 for each axis"),
        (lambda: Boxes((2, 2.5)), r"subdomains=\(2, 2\.5\); needed tuple\[int, ...\]"),
        (lambda: Boxes((2, 0)), "must hold a number of at least 1"),
        (lambda: Boxes((2,)).cut(cloud(9)), r"subdomains=\(2,\) has 1 axes; needed 2"),
        (lambda: MetisParts(parts=0), "parts=0 must be at least 1"),
        (lambda: MetisParts(parts=2.5), "parts=2.5; needed int"),
        (lambda: MetisParts(parts=4).cut(cloud(9)), "edges=None; METIS needed"),
        (
            lambda: MetisParts(parts=17).cut(square_mesh(3).point_set()),
            "parts=17 must be at most the number of points, 16",
        ),
        (lambda: parts_of(cloud(9), torch.zeros(8, dtype=torch.long), 2), r"members has shape \(8,\)"),
        (lambda: parts_of(cloud(9), torch.full((9,), 2), 2), "names parts 2 to 2; needed one of 2 parts"),
        (lambda: parts_of(PointSet(torch.rand(3, 2)), torch.zeros(3, dtype=torch.long), 1), "points has weights=None"),
        (lambda: with_neighbours(cloud(5), 5), "neighbours=5 must be at least 1 and below the number of points, 5"),
        (
            lambda: Boxes((2, 2)).cut(cloud(9)).locate(PointSet(torch.tensor([[0.0, 0.0], [2.0, 2.0]]))),
            "1 points outside the box; the first is point 1",
        ),
    ],
)
def test_impossible_partitions_are_refused(run, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        run()


def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ImportError, match=r"needs the library pymetis: pip install -c constraints.txt -e '.\[mesh\]'"):
        MetisParts(parts=2).cut(square_mesh(3).point_set())


def test_boxes_of_the_missing_quadrant_of_an_l_are_empty():
    points = lshape().point_set()
    partition = Boxes((8, 8)).cut(points)
    empty = partition.centres[partition.counts == 0]
    inside = points.coordinates.abs().amax(dim=1) < 0.99
    missing = [  # the quadrant, by the signs of its coordinates, in which no vertex lies
        signs
        for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1))
        if not (points.coordinates[inside] * torch.tensor(signs) > 1e-9).all(dim=1).any()
    ]
    assert len(missing) == 1
    assert 9 <= len(empty) <= 16  # of its 16 boxes; those at the borders hold what lies on the border
    assert (empty * torch.tensor(missing[0]) > 0).all()
