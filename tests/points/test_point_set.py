"""Points and their weights: what they integrate, and what is refused."""

import itertools
import math

import pytest
import torch

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


def test_coincident_points_share_their_cell():
    x = torch.rand(20, 2, dtype=torch.float64)
    twice = torch.cat([x, x[:3], x[:1]])
    single, double = voronoi_weights(x, UNIT), voronoi_weights(twice, UNIT)
    torch.testing.assert_close(double[3:20], single[3:])
    torch.testing.assert_close(double[:3] + double[20:23] + torch.tensor([1.0, 0, 0]) * double[23], single[:3])
    assert double[0] == double[20] == double[23]


def test_voronoi_weights_converge_faster_than_equal_ones():
    def errors(n):
        found = []
        for seed in range(8):
            points = cloud(n, seed=seed)
            values = torch.exp(points.coordinates).prod(dim=1)
            truth = (math.e - 1) ** 2
            found.append([((values * points.weights).sum() - truth).item(), (values.mean() - truth).item()])
        return torch.tensor(found).square().mean(dim=0).sqrt()

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
        (lambda: PointSet(torch.tensor([[0.0, 1.0], [math.nan, 0.0]])), "1 points that are not finite; the first is 1"),
        (lambda: PointSet(torch.tensor([[0.0], [1.2]]), box=Grid((1.0,))), r"1 points outside the box; the first is 1"),
        (lambda: PointSet(torch.rand(3, 2), box=Grid((1.0,))), "has 2 axes; the box has 1"),
        (lambda: PointSet(torch.rand(3)), r"coordinates has shape \(3,\)"),
        (lambda: PointSet(torch.zeros(0, 2)), r"coordinates has shape \(0, 2\)"),
        (lambda: PointSet(torch.ones(3, 2, dtype=torch.long)), "dtype torch.int64; needed .* floating-point"),
        (lambda: PointSet(torch.tensor([[0.0, 1.0], [1.0, 1.0]])), "they span no box; give one as box"),
        (lambda: PointSet(torch.rand(3, 2), torch.rand(4), UNIT), r"weights has shape \(4,\)"),
        (lambda: PointSet(torch.rand(2, 2), torch.tensor([0.5, -0.1]), UNIT), "not negative; the smallest is -0.1"),
        (lambda: PointSet(torch.rand(2, 2), torch.tensor([0.5, math.nan]), UNIT), "weights must be finite"),
        (lambda: PointSet(torch.rand(2, 2), torch.zeros(2), UNIT), "weights sum to 0; needed the measure"),
        (lambda: PointSet(torch.rand(9, 2), torch.ones(9), UNIT), "sum to 9; needed .* at most the box's 1"),
        (lambda: PointSet(torch.rand(2, 2), box=UNIT, edges=torch.tensor([[0, 2]])), "edges names points 0 to 2"),
        (lambda: PointSet.estimated(torch.rand(9, 4), Grid((1.0,) * 4)), "at most 3"),
        (lambda: PointSet.estimated(torch.rand(9, 2) * torch.tensor([1e-3, 1e3])), "too thin for a Voronoi diagram"),
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
