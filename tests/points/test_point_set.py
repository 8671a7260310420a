"""Points and their weights: what they integrate, and what is refused."""

import itertools
import math

import pytest
import torch
from scipy.spatial import QhullError

from mondrian import Grid
from mondrian.points import PointSet, voronoi_weights
from tests.points.cases import UNIT, cloud
from tests.unchecked import unchecked


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("extent", [1.0, 3.0], ids=["unit", "stretched"])
def test_voronoi_weights_are_shares_of_the_box(dim, extent):
    box = Grid(extent=(extent, 0.5, 2.0)[:dim], origin=(-1.0, 4.0, 0.0)[:dim])
    x = torch.rand(60, dim, dtype=torch.float64) * torch.tensor(box.extent) + torch.tensor(box.origin)
    weights = voronoi_weights(x, box)
    assert (weights > 0).all()
    assert weights.sum().item() == pytest.approx(math.prod(box.extent), rel=1e-12)
    # each share against the number of random places that are nearest to its point
    places = torch.rand(200_000, dim, dtype=torch.float64) * torch.tensor(box.extent) + torch.tensor(box.origin)
    counted = torch.bincount(torch.cdist(places, x).argmin(dim=1), minlength=60) / len(places)
    deviation = (counted * (1 - counted) / len(places)).sqrt()
    assert ((weights / weights.sum() - counted).abs() < 5 * deviation + 1e-5).all()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_voronoi_weights_of_a_grid_are_the_midpoint_rule(dim):
    points = PointSet.of_grid(Grid(extent=(1.0, 2.0, 0.5)[:dim], points=(5, 4, 3)[:dim]))
    torch.testing.assert_close(voronoi_weights(points.coordinates, points.domain), points.weights, rtol=1e-5, atol=0)


def test_points_on_the_walls_have_half_and_quarter_cells():
    axis = torch.linspace(0, 1, 5, dtype=torch.float64)
    x = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), dim=-1).reshape(-1, 2)
    trapezoid = torch.tensor([0.5, 1, 1, 1, 0.5], dtype=torch.float64) / 4
    expected = torch.outer(trapezoid, trapezoid).flatten()
    torch.testing.assert_close(voronoi_weights(x, UNIT), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_round_a_ring_all_points_have_neighbours_on_both_sides(dim):
    """Moving all points round the rings changes no weight, and no vertex of a grid weighs more than another."""
    rings = (True, False, True)[:dim]
    box = Grid(extent=(3.0, 0.5, 2.0)[:dim], origin=(-1.0, 4.0, 0.0)[:dim], periodic=rings)
    low, extent = (torch.tensor(sides, dtype=torch.float64) for sides in (box.origin, box.extent))
    parts = torch.rand(40, dim, dtype=torch.float64)
    moved = torch.where(torch.tensor(rings), (parts + 0.37) % 1, parts)
    expected, weights = (voronoi_weights(low + x * extent, box) for x in (parts, moved))
    torch.testing.assert_close(weights, expected, rtol=1e-6, atol=0)
    for ends in (1, 2):  # of the two ends, which are one place, one or both
        vertices = PointSet.of_grid(
            Grid(box.extent, (5, 4, 6)[:dim], rings, box.origin, tuple(ends if ring else 0 for ring in rings))
        )
        weights = voronoi_weights(vertices.coordinates, vertices.domain)
        torch.testing.assert_close(weights, vertices.weights, rtol=1e-5, atol=0)


THIN = {
    "plane": ((1e3, 1.0), (9, 5)),
    "plane, many": ((1.0, 1e3), (60, 40)),
    "plate": ((1e3, 1e3, 1.0), (5, 4, 4)),
    "pipe": ((1.0, 1e3, 1.0), (4, 9, 4)),
    "slab": ((1.0, 1e3, 30.0), (4, 6, 5)),
}


@pytest.mark.parametrize(("extent", "points"), THIN.values(), ids=THIN)
def test_in_the_thinnest_box_the_vertices_of_a_grid_have_the_trapezoidal_rule(extent, points):
    vertices = PointSet.of_grid(Grid(extent, points, ends=(2,) * len(extent), origin=(3.0,) * len(extent)))
    weights = voronoi_weights(vertices.coordinates, vertices.domain)
    assert weights.sum().item() == pytest.approx(math.prod(extent), rel=1e-12)
    assert (weights - vertices.weights).abs().max() < 1e-5 * max(points) * vertices.weights.max()


@pytest.mark.parametrize(("extent", "points"), THIN.values(), ids=THIN)
def test_in_the_thinnest_box_irregular_points_on_all_faces_have_the_product_of_the_rules(extent, points):
    axes = [torch.rand(n, dtype=torch.float64).sort().values for n in points]
    for axis in axes:
        axis[0], axis[-1] = 0.0, 1.0
    places = [axis * length for axis, length in zip(axes, extent, strict=True)]
    x = torch.cartesian_prod(*places)
    expected = torch.ones(1, dtype=torch.float64)
    for along, length in zip(places, extent, strict=True):
        expected = torch.outer(expected, voronoi_weights(along[:, None], Grid((length,)))).flatten()
    weights = voronoi_weights(x, Grid(extent))
    assert (weights > 0).all()
    assert (weights - expected).abs().max() < 1e-5 * max(points) * expected.max()


@pytest.mark.parametrize("extent", [(1e3, 1.0), (1e3, 1e3, 1.0), (1e3, 1.0, 1.0)], ids=["plane", "plate", "pipe"])
def test_in_the_thinnest_box_a_cloud_that_touches_its_faces_is_counted_right(extent):
    dim = len(extent)
    x = torch.rand(60, dim, dtype=torch.float64)
    for number, (axis, face) in enumerate(itertools.product(range(dim), (0.0, 1.0))):
        x[8 * number : 8 * number + 8, axis] = face
    x = x * torch.tensor(extent)
    weights = voronoi_weights(x, Grid(extent))
    assert (weights > 0).all()
    places = torch.rand(200_000, dim, dtype=torch.float64) * torch.tensor(extent)
    counted = torch.bincount(torch.cdist(places, x).argmin(dim=1), minlength=60) / len(places)
    deviation = (counted * (1 - counted) / len(places)).sqrt()
    assert ((weights / weights.sum() - counted).abs() < 5 * deviation + 1e-4).all()


def test_a_diagram_that_rounding_has_spoilt_is_refused(monkeypatch):
    monkeypatch.setattr("mondrian.points.weights.THINNEST", 1e9)
    vertices = PointSet.of_grid(Grid((1e6, 1.0), (9, 5), ends=(2, 2)))
    with pytest.raises(
        ValueError, match=r"too close to each other .* of 45 cells have no volume, and all together fill .*; needed"
    ):
        voronoi_weights(vertices.coordinates, vertices.domain)


def test_points_that_qhull_gives_up_on_are_refused(monkeypatch):
    def give_up(points):
        raise QhullError("QH6154 Qhull precision error: initial simplex is flat\nand much more")

    monkeypatch.setattr("scipy.spatial.Voronoi", give_up)
    with pytest.raises(ValueError, match=r"coordinates, 9 of them .*extent=\(1\.0, 1\.0\), .*: QH6154 .* flat; needed"):
        voronoi_weights(torch.rand(9, 2, dtype=torch.float64), UNIT)


def test_coincident_points_share_their_cell():
    x = torch.rand(20, 2, dtype=torch.float64)
    twice = torch.cat([x, x[:3], x[:1]])
    single, double = voronoi_weights(x, UNIT), voronoi_weights(twice, UNIT)
    torch.testing.assert_close(double[3:20], single[3:])
    torch.testing.assert_close(double[:3] + double[20:23] + torch.tensor([1.0, 0, 0]) * double[23], single[:3])
    assert double[0] == double[20] == double[23]


def test_voronoi_weights_converge_faster_than_equal_ones():
    def errors(n):
        pairs = []
        for seed in range(8):
            points = cloud(n, seed=seed)
            values = torch.exp(points.coordinates).prod(dim=1)
            truth = (math.e - 1) ** 2
            pairs.append([((values * points.weights).sum() - truth).item(), (values.mean() - truth).item()])
        return torch.tensor(pairs).square().mean(dim=0).sqrt()

    coarse, fine = errors(100), errors(1600)
    orders = torch.log(coarse / fine) / math.log(4)  # four times finer in each direction
    assert orders[0] > 1.5  # random places, not the points of a rule
    assert fine[0] < 0.1 * fine[1]


def test_the_bounding_box_is_the_domain_if_none_is_given():
    points = PointSet(torch.tensor([[1.0, 2.0], [3.0, 2.5], [2.0, 7.0]]))
    assert (points.domain.origin, points.domain.extent) == ((1.0, 2.0), (2.0, 5.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: PointSet(torch.tensor([[0.0, 1.0], [math.nan, 0.0]])),
            "that are not finite; the first is point 1",
        ),
        (
            lambda: PointSet(torch.tensor([[0.0], [1.2]]), box=Grid((1.0,))),
            "outside the box; the first is point 1",
        ),
        (lambda: PointSet(torch.rand(3, 2), box=Grid((1.0,))), "has 2 axes; needed 1, as the box has"),
        (lambda: PointSet(torch.rand(3)), r"coordinates has shape \(3,\)"),
        (lambda: PointSet(torch.zeros(0, 2)), r"coordinates has shape \(0, 2\)"),
        (lambda: PointSet(torch.ones(3, 2, dtype=torch.long)), "dtype torch.int64; needed .* floating-point"),
        (lambda: PointSet(torch.tensor([[0.0, 1.0], [1.0, 1.0]])), "which is no box; needed box="),
        (lambda: PointSet(torch.rand(3, 2), torch.rand(4), UNIT), r"weights has shape \(4,\)"),
        (lambda: PointSet(torch.rand(2, 2), torch.tensor([0.5, -0.1]), UNIT), "at least 0; the smallest is -0.1"),
        (lambda: PointSet(torch.rand(2, 2), torch.tensor([0.5, math.nan]), UNIT), "weights must be finite"),
        (lambda: PointSet(torch.rand(2, 2), torch.zeros(2), UNIT), "weights sum to 0; needed the measure"),
        (lambda: PointSet(torch.rand(9, 2), torch.ones(9), UNIT), "sum to 9; needed .* at most the box's 1"),
        (lambda: PointSet(torch.rand(2, 2), box=UNIT, edges=torch.tensor([[0, 2]])), "edges names points 0 to 2"),
        (lambda: PointSet.estimated(torch.rand(9, 4), Grid((1.0,) * 4)), "at most 3"),
        (
            lambda: PointSet.estimated(torch.rand(9, 2, dtype=torch.float64), Grid((2e3, 1.0))),
            r"extent=\(2000\.0, 1\.0\) is too thin for a Voronoi diagram; needed aspect ratios up to 1000",
        ),
    ],
)
def test_bad_points_are_refused(make, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        make()


def test_rounding_may_carry_a_point_to_the_other_side_of_the_wall():
    assert PointSet(torch.tensor([[-1e-8], [1 + 1e-8]], dtype=torch.float64), box=Grid((1.0,))).size == 2


def test_pairs_of_dimensions_and_boxes_agree_with_the_product_rule():
    """The diagram of a product of two sets of places is the product of their diagrams."""
    along = [torch.rand(4, 1, dtype=torch.float64), torch.rand(5, 1, dtype=torch.float64)]
    x = torch.tensor([[a.item(), b.item()] for a, b in itertools.product(*along)], dtype=torch.float64)
    one, two = (voronoi_weights(part, Grid((1.0,))) for part in along)
    torch.testing.assert_close(voronoi_weights(x, UNIT), torch.outer(one, two).flatten(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("ends", [(0, 0), (2, 2), (2, 0)], ids=["centres", "vertices", "mixed"])
def test_the_points_of_a_grid_integrate_at_second_order(ends):
    def error(n):
        points = PointSet.of_grid(Grid(extent=(1.0, 1.0), points=(n, n), ends=ends))
        assert points.weights.sum().item() == pytest.approx(1.0, rel=1e-12)
        return abs((torch.exp(points.coordinates).prod(dim=1) * points.weights).sum().item() - (math.e - 1) ** 2)

    intervals = [(n - 1 if 2 in ends else n) for n in (17, 33)]
    assert math.log(error(17) / error(33)) / math.log(intervals[1] / intervals[0]) == pytest.approx(2.0, abs=0.15)
