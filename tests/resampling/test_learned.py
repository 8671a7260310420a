"""Learned resamplers: fast forms against the definition, convergence, symmetries, limit cases."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from mondrian import Decomposition, Grid, Midpoint
from mondrian.points import Boxes, Placement, PointSet, Tiles, parts_of
from mondrian.quadrature import Cell
from mondrian.resampling import CrossAttention, CrossIntegral
from tests.points.cases import RESAMPLERS, UNIT, cloud, square_mesh

pytestmark = pytest.mark.usefixtures("float64")
every_resampler = pytest.mark.parametrize("spec", RESAMPLERS.values(), ids=RESAMPLERS)


def built(spec, in_channels=3, out_channels=4, dim=2):
    resampler = spec.build(in_channels, out_channels, dim=dim)
    with torch.no_grad():
        for parameter in resampler.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return resampler


def ragged(dim=2, tile=None):
    """Cells of very different sizes, one of them empty, of two domains."""
    sets = [cloud(60, dim, seed=1), cloud(25, dim, seed=2)]
    squeezed = [PointSet(s.coordinates**3, s.weights, s.domain) for s in sets]
    return Placement.build(squeezed, Boxes(((12,), (3, 2), (3, 2, 2))[dim - 1]), tile=tile).tiles


def plain_and_fast(resampler, run):
    results = []
    for plain in (True, False):
        resampler.plain = plain
        resampler.zero_grad()
        out = run()
        out.square().sum().backward()
        results.append((out.detach(), [p.grad.clone() for p in resampler.parameters()]))
    return results


@every_resampler
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("tile", [None, 1, 5, 64])
def test_encoding_equals_its_definition_cell_by_cell(spec, dim, tile):
    resampler, tiles = built(spec, dim=dim), ragged(dim, tile)
    assert torch.bincount(tiles.cell, minlength=tiles.cells).min() == 0  # an empty cell is among them
    v = torch.randn(2, *tiles.filled.shape, 3, requires_grad=True)
    cell = Cell.build((3, 2, 2)[:dim], Midpoint())

    def run():
        v.grad = None
        return resampler.encode(v, tiles, cell)

    (plain, slopes), (fast, fast_slopes) = plain_and_fast(resampler, run)
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-12)
    for slope, fast_slope in zip(slopes, fast_slopes, strict=True):
        torch.testing.assert_close(fast_slope, slope, rtol=1e-8, atol=1e-10)
    assert (v.grad[:, ~tiles.filled] == 0).all()  # slots without a point have no say


@every_resampler
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize(("tile", "batch"), [(None, 2), (1, 2), (5, 2), (64, 2), (5, 1)])
def test_decoding_equals_its_definition_cell_by_cell(spec, dim, tile, batch):
    resampler, tiles = built(spec, dim=dim), ragged(dim, tile)
    cell = Cell.build((3, 2, 2)[:dim], Midpoint())
    v = torch.randn(batch, tiles.cells, 3, cell.size, requires_grad=True)

    def run():
        return resampler.decode(v, cell, tiles).masked_fill(~tiles.filled[..., None], 0.0)

    (plain, slopes), (fast, fast_slopes) = plain_and_fast(resampler, run)
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-12)
    for slope, fast_slope in zip(slopes, fast_slopes, strict=True):
        torch.testing.assert_close(fast_slope, slope, rtol=1e-8, atol=1e-10)


@every_resampler
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_between_regular_points_equals_its_definition(spec, dim):
    resampler = built(spec, dim=dim)
    coarse, fine = (Cell.build((n,) * dim, Midpoint()) for n in (2, 3))
    for source, target in ((coarse, fine), (fine, coarse)):
        v = torch.randn(2, 5, 3, source.size)
        (plain, slopes), (fast, fast_slopes) = plain_and_fast(
            resampler, lambda v=v, source=source, target=target: resampler.between(v, source, target)
        )
        assert fast.shape == (2, 5, 4, target.size)
        torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-12)
        for slope, fast_slope in zip(slopes, fast_slopes, strict=True):
            torch.testing.assert_close(fast_slope, slope, rtol=1e-8, atol=1e-10)


@every_resampler
def test_points_that_lie_regularly_give_what_the_regular_cell_gives(spec):
    """One operator: encode and decode on the points of a grid are `between`."""
    resampler = built(spec)
    grid = Grid(extent=(2.0, 1.0), points=(8, 6))
    points = PointSet.of_grid(grid)
    partition = Boxes((2, 3)).cut(points)
    tiles = Placement.of([partition]).tiles
    given, other = Cell.build((4, 2), Midpoint()), Cell.build((2, 3), Midpoint())
    u = torch.randn(2, 3, 8, 6)
    cells = Decomposition(grid, (2, 3)).cut(u)
    encoded = resampler.encode(tiles.spread(u.flatten(2)), tiles, other)
    torch.testing.assert_close(encoded, resampler.between(cells, given, other), rtol=1e-10, atol=1e-12)
    v = torch.randn(2, 6, 3, other.size)
    decoded = tiles.collect(resampler.decode(v, other, tiles)).unflatten(2, (8, 6))
    expected = Decomposition(grid, (2, 3)).join(resampler.between(v, other, given))
    torch.testing.assert_close(decoded, expected, rtol=1e-10, atol=1e-12)


def functions(x):
    return torch.stack([torch.sin(3 * x[:, 0]), torch.exp(x[:, 1]), x[:, 0] * x[:, 1]])[None]


@every_resampler
def test_refining_regular_points_converges_at_second_order(spec):
    resampler, target = built(spec), Cell.build((3, 3), Midpoint())

    def encoded(n):
        points = PointSet.of_grid(Grid((1.0, 1.0), points=(2 * n, 2 * n)))
        tiles = Placement.build([points], Boxes((2, 2))).tiles
        return resampler.encode(tiles.spread(functions(points.coordinates)), tiles, target)

    truth = encoded(128)
    errors = [(encoded(n) - truth).norm().item() for n in (8, 16, 32)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.2)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2.0, abs=0.2)
    assert errors[2] < 0.01 * truth.norm()


@every_resampler
def test_refining_a_mesh_converges_to_the_same_limit(spec):
    """One cell: no triangle is cut, and lumped masses are of second order."""
    resampler, target = built(spec), Cell.build((3, 3), Midpoint())

    def encoded(points):
        tiles = Placement.build([points], Boxes((1, 1))).tiles
        return resampler.encode(tiles.spread(functions(points.coordinates)), tiles, target)

    truth = encoded(PointSet.of_grid(Grid((1.0, 1.0), points=(200, 200))))
    errors = [(encoded(square_mesh(n, jitter=0.2).point_set()) - truth).norm().item() for n in (12, 24, 48)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.35)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2.0, abs=0.35)


@every_resampler
def test_refining_points_that_the_cuts_ignore_converges_at_first_order(spec):
    resampler, target = built(spec), Cell.build((2, 2), Midpoint())

    def encoded(points):
        tiles = Placement.build([points], Boxes((2, 2))).tiles
        return resampler.encode(tiles.spread(functions(points.coordinates)), tiles, target)

    truth = encoded(PointSet.of_grid(Grid((1.0, 1.0), points=(200, 200))))
    errors = [sum((encoded(cloud(n, seed=seed)) - truth).norm().item() for seed in range(6)) / 6 for n in (100, 1600)]
    assert math.log(errors[0] / errors[1]) / math.log(4) > 0.9


@every_resampler
def test_weights_are_what_makes_uneven_points_converge(spec):
    """Points crowded to one side, with the weights of what they stand for, and with equal ones."""
    resampler, target = built(spec, dim=1), Cell.build((3,), Midpoint())

    def encoded(x, weights):
        points = PointSet(x[:, None], weights, Grid((1.0,)))
        tiles = Placement.build([points], Boxes((1,))).tiles
        values = torch.stack([torch.sin(3 * x), torch.exp(x), x])[None]
        return resampler.encode(tiles.spread(values), tiles, target)

    ends = torch.linspace(0, 1, 2001) ** 3
    crowded, measure = (ends[1:] + ends[:-1]) / 2, ends.diff()
    even = (torch.arange(2000) + 0.5) / 2000
    truth = encoded(even, torch.full((2000,), 1 / 2000))
    assert (encoded(crowded, measure) - truth).norm() < 1e-4 * truth.norm()
    assert (encoded(crowded, torch.full((2000,), 1 / 2000)) - truth).norm() > 1e-2 * truth.norm()


@every_resampler
def test_splitting_a_point_into_two_of_half_the_weight_changes_nothing(spec):
    resampler, target = built(spec), Cell.build((2, 2), Midpoint())
    points = cloud(20)
    split = PointSet(
        torch.cat([points.coordinates, points.coordinates]),
        torch.cat([points.weights, points.weights]) / 2,
        points.domain,
    )
    values = torch.randn(1, 3, 20)
    single, double = (Placement.build([p], Boxes((2, 1))).tiles for p in (points, split))
    torch.testing.assert_close(
        resampler.encode(double.spread(values.repeat(1, 1, 2)), double, target),
        resampler.encode(single.spread(values), single, target),
        rtol=1e-10,
        atol=1e-12,
    )


@every_resampler
def test_a_point_without_weight_has_no_say(spec):
    resampler, target = built(spec), Cell.build((2, 2), Midpoint())
    points = cloud(20)
    weights = points.weights.clone()
    weights[3] = 0
    tiles = Placement.build([PointSet(points.coordinates, weights, points.domain)], Boxes((1, 2))).tiles
    values = torch.randn(1, 3, 20)
    other = values.clone()
    other[..., 3] += 5
    first, second = (resampler.encode(tiles.spread(v), tiles, target) for v in (values, other))
    torch.testing.assert_close(first, second)


def test_attention_resamples_constants_exactly_and_stays_within_bounds():
    resampler = built(CrossAttention(n_heads=2), in_channels=2, out_channels=2)
    with torch.no_grad():
        resampler.value.weight.copy_(torch.eye(2))
        resampler.out.weight.copy_(torch.eye(2))
        resampler.out.bias.zero_()
    tiles, target = Placement.build([cloud(50)], Boxes((2, 2))).tiles, Cell.build((3, 3), Midpoint())
    constant = torch.tensor([2.0, -3.0])[None, :, None].expand(1, 2, 50)
    encoded = resampler.encode(tiles.spread(constant), tiles, target)
    torch.testing.assert_close(encoded, constant[:, :, :1][:, None].expand_as(encoded))
    torch.testing.assert_close(
        tiles.collect(resampler.decode(encoded, target, tiles)), constant, rtol=1e-10, atol=1e-10
    )
    values = torch.rand(1, 2, 50)
    within = resampler.encode(tiles.spread(values), tiles, target)
    assert within.min() >= values.min()
    assert within.max() <= values.max()


def test_attention_of_vanishing_reach_is_the_value_of_the_nearest_point():
    resampler = CrossAttention(n_heads=2, reach=1e-4).build(2, 2)
    with torch.no_grad():
        resampler.value.weight.copy_(torch.eye(2))
        resampler.out.weight.copy_(torch.eye(2))
        resampler.out.bias.zero_()
    points, target = cloud(50), Cell.build((3, 3), Midpoint())
    tiles = Placement.build([points], Boxes((1, 1))).tiles
    values = torch.rand(1, 2, 50)
    places = (target.coordinates + 1) / 2
    nearest = torch.cdist(places, points.coordinates).argmin(dim=1)
    encoded = resampler.encode(tiles.spread(values), tiles, target)
    torch.testing.assert_close(encoded[:, 0], values[..., nearest])


def test_the_integral_is_linear_and_knows_how_much_of_the_cell_there_is():
    resampler = built(CrossIntegral(ridges=5))
    with torch.no_grad():
        resampler.matrices[:-1].zero_()  # the constant kernel: the integral over the cell
        resampler.bias.zero_()
    grid = PointSet.of_grid(Grid((1.0, 1.0), points=(8, 8)))
    half = PointSet(grid.coordinates[:32], grid.weights[:32], grid.domain)  # half of the square is no domain
    target = Cell.build((2, 2), Midpoint())
    for points, measure in ((grid, 1.0), (half, 0.5)):
        tiles = Placement.build([points], Boxes((1, 1))).tiles
        ones = torch.ones(1, 3, points.size)
        encoded = resampler.encode(tiles.spread(ones), tiles, target)
        expected = measure * resampler.matrices[-1].sum(dim=0)
        torch.testing.assert_close(encoded[0, 0], expected[:, None].expand(4, 4))


@every_resampler
def test_the_order_of_points_does_not_matter_and_outputs_move_with_them(spec):
    resampler, cell = built(spec), Cell.build((2, 3), Midpoint())
    points = cloud(40)
    order = torch.randperm(40)
    moved = PointSet(points.coordinates[order], points.weights[order], points.domain)
    first, second = (Placement.build([p], Boxes((2, 2))).tiles for p in (points, moved))
    values = torch.randn(2, 3, 40)
    encoded = resampler.encode(first.spread(values), first, cell)
    torch.testing.assert_close(encoded, resampler.encode(second.spread(values[..., order]), second, cell))
    v = torch.randn(2, 4, 3, 6)
    decoded, again = (tiles.collect(resampler.decode(v, cell, tiles)) for tiles in (first, second))
    torch.testing.assert_close(again, decoded[..., order])


@every_resampler
def test_moving_and_stretching_the_domain_changes_nothing(spec):
    resampler, cell = built(spec), Cell.build((2, 2), Midpoint())
    points = cloud(40)
    stretch, move = torch.tensor([10.0, 0.1]), torch.tensor([-3.0, 7.0])
    box = Grid(extent=(10.0, 0.1), origin=(-3.0, 7.0))
    elsewhere = PointSet(points.coordinates * stretch + move, points.weights, box)
    values = torch.randn(1, 3, 40)
    first, second = (
        resampler.encode(tiles.spread(values), tiles, cell)
        for tiles in (Placement.build([p], Boxes((3, 2))).tiles for p in (points, elsewhere))
    )
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


@every_resampler
def test_a_cell_without_points_holds_the_constant_of_the_resampler(spec):
    resampler, cell = built(spec), Cell.build((2, 2), Midpoint())
    partition = parts_of(cloud(10), torch.zeros(10, dtype=torch.long), 2)
    tiles = Placement.of([partition]).tiles
    constant = resampler.out.bias if isinstance(spec, CrossAttention) else resampler.bias
    for plain in (False, True):
        resampler.plain = plain
        encoded = resampler.encode(tiles.spread(torch.randn(1, 3, 10)), tiles, cell)
        torch.testing.assert_close(encoded[0, 1], constant[:, None].expand(4, 4))


@every_resampler
def test_gradients_in_the_values_are_those_of_finite_differences(spec):
    resampler, cell = built(spec, 2, 2), Cell.build((2, 1), Midpoint())
    tiles = Placement.build([cloud(9)], Boxes((1, 2)), tile=3).tiles
    values = torch.randn(1, 2, 9, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: resampler.encode(tiles.spread(v), tiles, cell), values)
    v = torch.randn(1, 2, 2, 2, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: resampler.decode(v, cell, tiles)[:, tiles.filled], v)


@every_resampler
def test_scores_far_apart_do_not_overflow(spec):
    resampler, cell = built(spec), Cell.build((2, 2), Midpoint())
    tiles = Placement.build([cloud(30)], Boxes((1, 1)), tile=4).tiles.to(torch.float32, torch.device("cpu"))
    low = resampler.float()
    values = 1e4 * torch.randn(1, 3, 30, dtype=torch.float32)
    cell = Cell.build((2, 2), Midpoint(), dtype=torch.float32)
    assert low.encode(tiles.spread(values), tiles, cell).isfinite().all()


@every_resampler
def test_autocast_and_low_precision_stay_near(spec):
    resampler = built(spec).float()
    tiles = ragged().to(torch.float32, torch.device("cpu"))
    cell = Cell.build((2, 2), Midpoint(), dtype=torch.float32)
    v = torch.randn(2, *tiles.filled.shape, 3, dtype=torch.float32)
    exact = resampler.encode(v, tiles, cell)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        near = resampler.encode(v, tiles, cell)
        back = resampler.decode(near[:, :, :3], cell, tiles)
    assert (near.float() - exact).norm() < 0.03 * exact.norm()
    assert back.isfinite().all()


@every_resampler
def test_work_is_linear_in_the_points_for_a_fixed_number_of_cells(spec):
    resampler, cell = built(spec), Cell.build((4, 4), Midpoint())

    def work(n):
        tiles = Placement.build([PointSet(cloud(n).coordinates, torch.full((n,), 1 / n), UNIT)], Boxes((2, 2))).tiles
        with FlopCounterMode(display=False) as counter:
            encoded = resampler.encode(torch.randn(1, *tiles.filled.shape, 3), tiles, cell)
            resampler.decode(encoded[:, :, :3], cell, tiles)
        return counter.get_total_flops()

    assert work(2000) / work(500) == pytest.approx(4.0, rel=0.15)


@every_resampler
def test_wrong_shapes_are_named(spec):
    resampler, cell = built(spec), Cell.build((2, 2), Midpoint())
    with pytest.raises(ValueError, match=r"v has shape \(1, 1, 2, 4\); needed 3 channels along axis 2 and 4 points"):
        resampler.between(torch.randn(1, 1, 2, 4), cell, cell)
    tiles = Tiles.build(torch.zeros(4, dtype=torch.long), torch.zeros(4, 2), torch.ones(4), cells=1)
    with pytest.raises(ValueError, match=r"needed 3 channels along axis 3"):
        resampler.encode(torch.randn(1, 1, 4, 2), tiles, cell)
    with pytest.raises(ValueError, match=r"v has shape \(1, 2, 4, 3\); needed \(1, 4\) tiles and slots"):
        resampler.encode(torch.randn(1, 2, 4, 3), tiles, cell)
    with pytest.raises(ValueError, match=r"v has shape \(1, 2, 3, 4\); needed 1 cells"):
        resampler.decode(torch.randn(1, 2, 3, 4), cell, tiles)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CrossAttention(n_heads=0), "n_heads=0 must be at least 1"),
        (lambda: CrossAttention(reach=0.0), "reach=0.0 must be finite and positive"),
        (lambda: CrossAttention(reach=torch.inf), "reach=inf must be finite and positive"),
        (lambda: CrossIntegral(ridges=0), "ridges=0 must be at least 1"),
    ],
)
def test_impossible_resamplers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
