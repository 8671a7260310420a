"""Metrics against values worked out by hand, and what they say where they are undefined."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from mondrian import Grid
from mondrian.metrics import (
    correlation,
    correlation_time,
    interface_error,
    maximum_error,
    mean_absolute_error,
    mean_square_error,
    near_interface,
    relative_l2_error,
)
from tests.unchecked import unchecked

F64 = torch.float64
NAN, INF = math.nan, math.inf
POINTWISE = [mean_absolute_error, mean_square_error, maximum_error, relative_l2_error]
SHAPES = [(2, 3, 7), (2, 3, 4, 6), (2, 3, 3, 4, 5)]
each = pytest.mark.parametrize("metric", POINTWISE, ids=lambda metric: metric.__name__)
shapes = pytest.mark.parametrize("shape", SHAPES, ids=["1d", "2d", "3d"])


def box(shape, periodic=False):
    dim = len(shape) - 2
    return Grid(extent=(1.0,) * dim, periodic=(periodic,) * dim)


def interface(prediction, truth):
    return interface_error(prediction, truth, box(truth.shape))


def line(*values):
    return torch.tensor(values, dtype=F64)[None, None]


# By hand


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (mean_absolute_error, [[(3 + 1) / 2, (0 + 2) / 2]]),
        (mean_square_error, [[(9 + 1) / 2, (0 + 4) / 2]]),
        (maximum_error, [[3.0, 2.0]]),
        (relative_l2_error, [[math.sqrt(10) / 5, 2 / 13]]),  # |(3, 4)| = 5, |(5, 12)| = 13
    ],
)
def test_by_hand(metric, expected):
    truth = torch.tensor([[[3.0, 4.0], [5.0, 12.0]]])
    prediction = torch.tensor([[[0.0, 5.0], [5.0, 10.0]]])  # errors (-3, 1) and (0, -2)
    error = metric(prediction, truth)
    assert error.dtype == F64
    torch.testing.assert_close(error, torch.tensor(expected, dtype=F64), rtol=1e-15, atol=0)


def test_with_weights_means_are_integrals_over_the_measure_of_the_domain():
    truth = torch.tensor([[[1.0, 2.0, 2.0], [0.0, 0.0, 0.0]]])
    prediction = torch.tensor([[[2.0, 2.0, 0.0], [1.0, 1.0, 1.0]]])
    weights = torch.tensor([2.0, 1.0, 1.0])
    assert mean_absolute_error(prediction, truth, weights).tolist() == [[(2 * 1 + 1 * 2) / 4, 1.0]]
    assert mean_square_error(prediction, truth, weights).tolist() == [[(2 * 1 + 1 * 4) / 4, 1.0]]
    relative = relative_l2_error(prediction, truth, weights)
    assert relative[0, 0].item() == pytest.approx((6 / 10) ** 0.5)
    assert relative[0, 1].isnan()


@pytest.mark.parametrize("metric", [mean_absolute_error, mean_square_error, relative_l2_error])
def test_equal_weights_change_nothing_and_points_of_weight_zero_hide_no_infinity(metric):
    generator = torch.Generator().manual_seed(0)
    truth, prediction = (torch.randn(2, 3, 4, 6, generator=generator, dtype=F64) for _ in range(2))
    torch.testing.assert_close(metric(prediction, truth, torch.full((4, 6), 0.3)), metric(prediction, truth))
    weights = torch.ones(4, 6)
    weights[0, 0], prediction[1, 2, 0, 0] = 0, NAN
    assert metric(prediction, truth, weights)[1, 2] == INF


def test_correlation_by_hand():
    # less the means (2, 5): p = (-1, 0, 1), t = (-2, 1, 1), product 3, norms sqrt 2 and sqrt 6
    value = correlation(line(1.0, 2.0, 3.0), line(3.0, 6.0, 6.0))
    assert value.tolist() == pytest.approx([3 / math.sqrt(12)])


def test_interface_error_by_hand():
    # near 0: the 0.5, and the -1 on the other side of the change of sign; no further, with a distance of 0
    truth = line(-1.0, -1.0, -1.0, 0.5, 1.0, 1.0)
    prediction = line(9.0, 9.0, -0.6, 0.7, 9.0, 9.0)
    error = interface_error(prediction, truth, Grid(extent=(1.0,)), distance=0.0)
    assert error.tolist() == [[pytest.approx((0.4 + 0.2) / 2)]]


# What they have in common


@shapes
@each
def test_against_numpy(metric, shape):
    p, t = torch.randn(2, *shape, dtype=F64).unbind()
    space = tuple(range(2, len(shape)))
    e, oracle = (p - t).numpy(), t.numpy()
    expected = {
        "mean_absolute_error": abs(e).mean(space),
        "mean_square_error": (e**2).mean(space),
        "maximum_error": abs(e).max(space),
        "relative_l2_error": np.sqrt((e**2).sum(space) / (oracle**2).sum(space)),
    }
    np.testing.assert_allclose(metric(p, t).numpy(), expected[metric.__name__], rtol=1e-13)


@shapes
@pytest.mark.parametrize("metric", [*POINTWISE, interface, correlation], ids=lambda metric: metric.__name__)
def test_samples_do_not_see_each_other_and_inputs_stay_as_they_are(metric, shape):
    p, t = torch.randn(2, *shape, dtype=F64).unbind()
    before = p.clone(), t.clone()
    alone = torch.cat([metric(p[b : b + 1], t[b : b + 1]) for b in range(2)])
    torch.testing.assert_close(metric(p, t), alone, rtol=1e-14, atol=0)
    assert torch.equal(p, before[0])
    assert torch.equal(t, before[1])


@pytest.mark.parametrize("metric", [*POINTWISE, interface, correlation], ids=lambda metric: metric.__name__)
def test_sums_are_in_float64_whatever_the_fields(metric):
    p, t = torch.randn(2, 2, 1, 64, 64).bfloat16().unbind()
    torch.testing.assert_close(metric(p, t), metric(p.double(), t.double()), rtol=0, atol=0)


def test_many_small_errors_are_not_lost():
    t = torch.zeros(1, 1, 2**20)
    p = torch.full_like(t, 0.1)
    assert mean_absolute_error(p, t).item() == pytest.approx(p[0, 0, 0].item(), rel=1e-14)


@each
def test_a_prediction_that_is_not_finite_has_an_infinite_error(metric):
    t = torch.ones(3, 1, 4)
    p = torch.zeros(3, 1, 4)
    p[0, 0, 1], p[1, 0, 2] = NAN, -INF
    assert metric(p, t)[:, 0].isinf().tolist() == [True, True, False]
    assert not metric(p, t).isnan().any()


@pytest.mark.parametrize("metric", [*POINTWISE, interface, correlation], ids=lambda metric: metric.__name__)
def test_a_truth_that_is_not_finite_is_refused(metric):
    truth = line(1.0, NAN, INF)
    with pytest.raises(ValueError, match="truth has 2 of 3 values that are not finite"):
        metric(line(1.0, 1.0, 1.0), truth)


@pytest.mark.parametrize("metric", [*POINTWISE, interface, correlation], ids=lambda metric: metric.__name__)
@pytest.mark.parametrize("shape", [(1, 3, 4), (2, 1, 4), (2, 3, 1), (3, 4)])
@unchecked()
def test_fields_that_would_broadcast_are_refused(metric, shape):
    with pytest.raises(ValueError, match=r"prediction has shape \(.*\) and truth \(2, 3, 4\)"):
        metric(torch.zeros(shape), torch.zeros(2, 3, 4))


# Relative error


@shapes
def test_the_relative_error_does_not_know_the_scale(shape):
    p, t = torch.randn(2, *shape, dtype=F64).unbind()
    torch.testing.assert_close(relative_l2_error(1e6 * p, 1e6 * t), relative_l2_error(p, t), rtol=1e-14, atol=0)


def test_relative_to_nothing_there_is_no_error_whatever_was_predicted():
    t = torch.zeros(3, 1, 4)
    p = torch.stack([torch.zeros(1, 4), torch.ones(1, 4), torch.full((1, 4), NAN)])
    assert relative_l2_error(p, t).isnan().all()


# Interface


def tanh_profile(points, gamma, periodic=False):
    grid = Grid(extent=(2.0, 2.0), points=points, periodic=(periodic, periodic))
    x = grid.coordinates(dtype=F64)[0][None, None]
    return torch.tanh((x - 1) / math.sqrt(2 * gamma)), x, grid


def test_the_layer_is_as_wide_as_its_profile_says():
    gamma = 5e-3
    u, x, grid = tanh_profile((256, 8), gamma)
    inside = (x - 1).abs() < math.atanh(0.9) * math.sqrt(2 * gamma)
    assert torch.equal(near_interface(u, grid, distance=0.0), inside)


def test_a_layer_thinner_than_the_spacing_has_the_points_on_either_side():
    u, x, grid = tanh_profile((32, 4), 1e-5)
    assert u.abs().min() > 0.99
    assert torch.equal(near_interface(u, grid, distance=0.0), (x - 1).abs() < 2 / 32)


@pytest.mark.parametrize("points", [(32, 32), (64, 16), (128, 128)])
def test_the_distance_is_a_length_at_every_resolution(points):
    """A sharp interface is dilated by 2/32 on each side: the same strip but for one point of its own."""
    u, x, grid = tanh_profile(points, 1e-6)
    expected = (x - 1).abs() < 2 / 32 + 2 / points[0]
    assert torch.equal(near_interface(u, grid), expected)


def test_on_a_ring_the_ends_have_an_interface_too():
    u, x, grid = tanh_profile((32, 4), 1e-5, periodic=True)
    near = ((x - 1).abs() < 2 / 32) | ((x - 1).abs() > 1 - 2 / 32)
    assert torch.equal(near_interface(u, grid, distance=0.0), near)
    wider = ((x - 1).abs() < 6 / 32) | ((x - 1).abs() > 1 - 6 / 32)
    assert torch.equal(near_interface(u, grid, distance=4 / 32), wider)


@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_dilation_against_all_distances(dim, periodic):
    points = (5, 6, 4)[:dim]
    grid = Grid(extent=(1.0, 3.0, 2.0)[:dim], points=points, periodic=(periodic,) * dim)
    u = torch.where(torch.rand(2, 1, *points, dtype=F64) < 0.1, 0.0, 1.0)
    core = near_interface(u, grid, distance=0.0).flatten(2)
    x = grid.coordinates(dtype=F64).flatten(1).T
    apart = (x[:, None] - x[None]).abs()
    length = torch.tensor(grid.extent, dtype=F64)
    apart = torch.minimum(apart, length - apart) if periodic else apart
    within = (apart <= 0.51).all(dim=-1)
    expected = (core[:, :, None] & within).any(dim=-1).reshape(u.shape)
    assert torch.equal(near_interface(u, grid, distance=0.51), expected)


def test_errors_away_from_the_interface_do_not_count():
    u, x, grid = tanh_profile((64, 8), 1e-3)
    far = ~near_interface(u, grid)
    assert interface_error(torch.where(far, 7.0, u), u, grid).item() == 0
    assert interface_error(torch.where(far, NAN, u), u, grid).item() == 0
    assert interface_error(torch.where(far, u, u + 0.25), u, grid).item() == pytest.approx(0.25)
    assert interface_error(torch.where(x < 1, NAN, u), u, grid).item() == INF


def test_without_an_interface_there_is_no_error_whatever_was_predicted():
    t = torch.ones(2, 2, 4, 4)
    t[0, 0, :2] = -1
    for p in (t, torch.zeros_like(t), torch.full_like(t, NAN)):
        assert interface_error(p, t, box(t.shape)).isnan().tolist() == [[False, True], [True, True]]


@unchecked()
def test_interfaces_that_cannot_be_told_are_refused():
    u = torch.ones(1, 1, 4)
    with pytest.raises(ValueError, match="level=-1"):
        near_interface(u, box(u.shape), level=-1.0)
    with pytest.raises(ValueError, match="distance=nan"):
        near_interface(u, box(u.shape), distance=NAN)
    with pytest.raises(ValueError, match=r"truth has shape \(1, 1, 4\); a grid with extent=\(1.0, 1.0\)"):
        near_interface(u, Grid(extent=(1.0, 1.0)))


# Correlation


@shapes
def test_correlation_is_scipys(shape):
    p, t = torch.randn(2, *shape, dtype=F64).unbind()
    expected = [scipy.stats.pearsonr(a.flatten(), b.flatten()).statistic for a, b in zip(p, t, strict=True)]
    assert correlation(p, t).tolist() == pytest.approx(expected, rel=1e-12)


def test_correlation_knows_neither_scale_nor_offset_but_the_sign():
    p, t = torch.randn(2, 4, 2, 8, 8, dtype=F64).unbind()
    expected = correlation(p, t)
    torch.testing.assert_close(correlation(3 * p + 5, 1e-3 * t - 2), expected, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(correlation(-p, t), -expected)
    assert correlation(t, t).tolist() == pytest.approx([1.0] * 4, abs=1e-15)
    assert (correlation(t, t) <= 1).all()


@pytest.mark.parametrize("scale", [1e-250, 1e250])
def test_correlation_of_very_small_or_large_predictions(scale):
    p, t = torch.randn(2, 1, 1, 8, dtype=F64).unbind()
    torch.testing.assert_close(correlation(scale * p, t), correlation(p, t))


def test_correlation_with_a_constant():
    u, constant = torch.randn(1, 1, 9, dtype=F64), torch.full((1, 1, 9), 0.1, dtype=F64)
    assert correlation(u, constant).isnan().all()
    assert correlation(u, 0 * constant).isnan().all()
    assert correlation(constant, constant).isnan().all()
    assert correlation(constant, u).tolist() == [0.0]
    assert correlation(0 * constant, u).tolist() == [0.0]
    assert correlation(torch.full_like(u, NAN), u).tolist() == [0.0]
    assert correlation(torch.full_like(u, INF), u).tolist() == [0.0]


@pytest.mark.parametrize(
    ("correlations", "expected"),
    [
        ([1.0, 0.9, 0.6, 0.1], 2 + 1 / 3 * 2),  # a third of the way from t = 2 to t = 4
        ([1.0, 1.0, 1.0, 1.0], 7.0),
        ([0.5, 0.9, 0.9, 0.9], 0.0),
        ([1.0, 0.8, 0.8, 0.8], 7.0),  # not below
        ([1.0, 0.6, 0.9, 0.6], 1.0),  # the first time counts
        ([1.0, 1.0, 1.0, -1.0], 4 + 0.1 * 3),
        ([1.0, NAN, 0.1, 0.1], NAN),
        ([NAN, NAN, NAN, NAN], NAN),
        ([1.0, 0.6, NAN, NAN], 1.0),
    ],
)
def test_correlation_time(correlations, expected):
    times = torch.tensor([0.0, 2.0, 4.0, 7.0], dtype=F64)
    both = torch.tensor([correlations, [1.0] * 4], dtype=F64)
    assert correlation_time(both, times).tolist() == pytest.approx([expected, 7.0], rel=1e-14, nan_ok=True)


def test_correlation_time_of_one_frame():
    assert correlation_time(torch.tensor([[1.0], [0.0]]), torch.tensor([3.0])).tolist() == [3.0, 3.0]


@unchecked()
def test_times_that_do_not_fit_are_refused():
    c = torch.ones(2, 3)
    for times in (torch.ones(2), torch.ones(1, 3)):
        with pytest.raises(ValueError, match=r"times has shape .* and correlations \(2, 3\)"):
            correlation_time(c, times)
    for bad in ([0.0, 1.0, 1.0], [0.0, 2.0, 1.0], [0.0, 1.0, NAN]):
        with pytest.raises(ValueError, match="must be finite and increase"):
            correlation_time(c, torch.tensor(bad))
    with pytest.raises(ValueError, match="threshold=80"):
        correlation_time(c, torch.arange(3.0), threshold=80)
