"""Losses against values worked out by hand, their gradients, and the order of the derivatives in them."""

import math
from itertools import pairwise

import pytest
import torch

from mondrian import Grid, Spec
from mondrian.losses import Loss, MeanSquare, RelativeL2, Sobolev, derivative
from tests.unchecked import unchecked

F64 = torch.float64
LOSSES = [MeanSquare(), RelativeL2(), Sobolev(), Sobolev(weight=0.1)]
GRIDS = [
    Grid(extent=(2.0,), points=(5,)),
    Grid(extent=(2.0, 0.5), points=(4, 6), periodic=(True, False)),
    Grid(extent=(1.0, 2.0, 0.5), points=(3, 4, 3), periodic=(False, True, True)),
]
dims = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.dim}d")
each = pytest.mark.parametrize("loss", LOSSES, ids=str)


def pair(grid, batch=2, channels=3, dtype=F64):
    return torch.randn(2, batch, channels, *grid.points, dtype=dtype).unbind()


def line(*values):
    return torch.tensor(values, dtype=F64)[None, None]


# By hand


def test_mean_square_by_hand():
    # two samples, errors (1, -2) and (0, 3): (1 + 4 + 0 + 9) / 4
    p = torch.tensor([[[1.0, 2.0]], [[5.0, 6.0]]], dtype=F64)
    t = torch.tensor([[[0.0, 4.0]], [[5.0, 3.0]]], dtype=F64)
    assert MeanSquare()(p, t, Grid(extent=(1.0,))).item() == 3.5


def test_relative_l2_by_hand():
    # sample one: errors (3, 0; 0, 4) and targets (0, 0; 5, 12), so 5 / 13; sample two: error 2 of a target of 2
    p = torch.tensor([[[3.0, 0.0], [5.0, 16.0]], [[0.0, 0.0], [0.0, 0.0]]], dtype=F64)
    t = torch.tensor([[[0.0, 0.0], [5.0, 12.0]], [[1.0, 1.0], [1.0, 1.0]]], dtype=F64)
    assert RelativeL2()(p, t, Grid(extent=(1.0,))).item() == pytest.approx((5 / 13 + 1) / 2, rel=1e-15)


def test_sobolev_by_hand_between_walls():
    # e = (0, 1, 4, 9), h = 1/2 on [0, 2]: slopes (-3*0 + 4*1 - 4, 4 - 0, 9 - 1, 3*9 - 4*4 + 1) / (2h) = (0, 4, 8, 12)
    # mean e^2 = 98 / 4, mean slope^2 = 224 / 4, length = 2 / 2 pi
    e = line(0.0, 1.0, 4.0, 9.0)
    expected = 98 / 4 + 0.7 * 224 / 4 / math.pi**2
    assert Sobolev(weight=0.7)(e + 1, torch.ones_like(e), Grid(extent=(2.0,))).item() == pytest.approx(expected)


def test_sobolev_by_hand_on_a_ring():
    # the same e on a ring: slopes (1 - 9, 4 - 0, 9 - 1, 0 - 4) / (2h) = (-8, 4, 8, -4), mean square 160 / 4
    e = line(0.0, 1.0, 4.0, 9.0)
    expected = 98 / 4 + 160 / 4 / math.pi**2
    assert Sobolev()(e, 0 * e, Grid(extent=(2.0,), periodic=(True,))).item() == pytest.approx(expected)


def test_sobolev_counts_a_mode_as_its_number_says():
    """1 + w m^2 round a ring and 1 + w m^2 / 4 between walls, up to the second order of the derivative."""
    n, m, w = 512, 3, 0.5
    x = torch.arange(n, dtype=F64).add(0.5) / n
    ring = math.sqrt(2) * torch.sin(2 * math.pi * m * x)[None, None]
    walls = math.sqrt(2) * torch.cos(math.pi * m * x)[None, None]
    loss = Sobolev(weight=w)
    assert loss(ring, 0 * ring, Grid((7.0,), periodic=(True,))).item() == pytest.approx(1 + w * m**2, rel=1e-3)
    assert loss(walls, 0 * walls, Grid((7.0,))).item() == pytest.approx(1 + w * m**2 / 4, rel=1e-3)


# What losses have in common


@dims
@each
def test_zero_at_the_target_where_the_gradient_is_zero_too(loss, grid):
    _, t = pair(grid)
    p = t.clone().requires_grad_()
    value = loss(p, t, grid)
    value.backward()
    assert value.item() == 0
    assert torch.equal(p.grad, torch.zeros_like(p))


@dims
@each
def test_gradients_are_those_of_the_values(loss, grid):
    p, t = pair(grid, batch=1 if grid.dim == 3 else 2, channels=1)
    assert torch.autograd.gradcheck(lambda p, t: loss(p, t, grid), (p.requires_grad_(), t.requires_grad_()))


@dims
@each
def test_the_batch_is_averaged(loss, grid):
    p, t = pair(grid, batch=3)
    alone = [loss(p[b : b + 1], t[b : b + 1], grid) for b in range(3)]
    torch.testing.assert_close(loss(p, t, grid), torch.stack(alone).mean())


@dims
@each
def test_axes_may_be_renamed(loss, grid):
    p, t = pair(grid)
    turned = Grid(grid.extent[::-1], periodic=grid.periodic[::-1])
    order = (0, 1, *range(1 + grid.dim, 1, -1))
    torch.testing.assert_close(loss(p.permute(order), t.permute(order), turned), loss(p, t, grid))


@each
def test_the_unit_of_length_does_not_matter(loss):
    p, t = pair(GRIDS[1])
    metres = Grid(extent=(2.0, 0.5), periodic=(True, False))
    millimetres = Grid(extent=(2000.0, 500.0), periodic=(True, False))
    torch.testing.assert_close(loss(p, t, metres), loss(p, t, millimetres))


@each
def test_points_of_the_grid_are_those_of_the_fields(loss):
    p, t = pair(GRIDS[1])
    other = GRIDS[1].with_points((64, 64))
    assert loss(p, t, other) == loss(p, t, GRIDS[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@each
def test_half_precision_is_computed_in_float32(loss, dtype):
    p, t = (u.to(dtype) for u in pair(GRIDS[1]))
    value = loss(p, t, GRIDS[1])
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, loss(p.double(), t.double(), GRIDS[1]).float(), rtol=1e-5, atol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(p, t.float(), GRIDS[1]).dtype == torch.float32
        torch.testing.assert_close(loss(p, t, GRIDS[1]), value)


@each
def test_nothing_waits_for_the_device(loss):
    p = torch.empty(2, 3, *GRIDS[1].points, device="meta", requires_grad=True)  # a value asked for would raise
    value = loss(p, torch.empty_like(p), GRIDS[1])
    value.backward()
    assert value.shape == ()
    assert p.grad.device.type == "meta"


@pytest.mark.compiled
@dims
@each
def test_compiled_as_one_graph_it_is_the_same(loss, grid):
    torch.compiler.reset()
    p, t = pair(grid)
    p.requires_grad_()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    values = [f(p, t, grid) for f in (compiled, loss)]
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*(torch.autograd.grad(value, p)[0] for value in values))


@each
def test_json(loss):
    assert Spec.from_json(loss.to_json()) == loss


@pytest.mark.parametrize("shape", [(1, 3, 4, 6), (2, 1, 4, 6), (2, 3, 4, 1), (3, 4, 6)])
@each
@unchecked()
def test_fields_that_would_broadcast_are_refused(loss, shape):
    p = torch.zeros(2, 3, 4, 6)
    with pytest.raises(ValueError, match=r"prediction has shape \(2, 3, 4, 6\) and target \("):
        loss(p, torch.zeros(shape), GRIDS[1])


@each
def test_fields_of_another_dimension_or_without_values_are_refused(loss):
    with pytest.raises(ValueError, match=r"shape \(2, 3, 8\); a grid with extent=\(2.0, 0.5\)"):
        loss(torch.zeros(2, 3, 8), torch.zeros(2, 3, 8), GRIDS[1])
    with pytest.raises(ValueError, match=r"\(0, 3, 4, 6\)"):
        loss(torch.zeros(0, 3, 4, 6), torch.zeros(0, 3, 4, 6), GRIDS[1])


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_numbers_that_do_not_fit_are_refused(bad):
    with pytest.raises(ValueError, match=f"epsilon={bad}"):
        RelativeL2(epsilon=bad)
    if bad:
        with pytest.raises(ValueError, match=f"weight={bad}"):
            Sobolev(weight=bad)


def test_the_base_has_no_value():
    with pytest.raises(NotImplementedError):
        Loss()(torch.zeros(1, 1, 4), torch.zeros(1, 1, 4), Grid(extent=(1.0,)))


# Each on its own


@dims
def test_relative_l2_does_not_know_the_scale(grid):
    p, t = pair(grid)
    torch.testing.assert_close(RelativeL2()(1e3 * p, 1e3 * t, grid), RelativeL2()(p, t, grid), rtol=1e-14, atol=0)


def test_relative_l2_weighs_samples_alike_whatever_their_size():
    p, t = pair(GRIDS[1])
    scale = torch.tensor([1e-3, 1e3], dtype=F64)[:, None, None, None]
    torch.testing.assert_close(RelativeL2()(scale * p, scale * t, GRIDS[1]), RelativeL2()(p, t, GRIDS[1]))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_relative_l2_of_a_target_of_zero_is_relative_to_epsilon(dtype):
    loss = RelativeL2(epsilon=1e-2)
    p = torch.full((1, 2, 4, 6), 0.5, dtype=dtype, requires_grad=True)
    value = loss(p, torch.zeros_like(p), GRIDS[1])
    value.backward()
    assert value.item() == pytest.approx(50.0)
    assert p.grad.isfinite().all()


def test_relative_l2_has_a_finite_gradient_close_to_the_target():
    t = torch.ones(1, 1, 4, 6)
    p = (t + 1e-7 * torch.randn_like(t)).requires_grad_()
    RelativeL2()(p, t, GRIDS[1]).backward()
    assert torch.linalg.vector_norm(p.grad) == pytest.approx(1 / math.sqrt(24), rel=1e-5)


@dims
def test_sobolev_without_weight_is_the_mean_square(grid):
    p, t = pair(grid)
    torch.testing.assert_close(Sobolev(weight=0.0)(p, t, grid), MeanSquare()(p, t, grid))


@dims
def test_sobolev_of_a_constant_error_is_its_square(grid):
    _, t = pair(grid)
    assert Sobolev()(t + 3, t, grid).item() == pytest.approx(9.0)


def test_sobolev_of_a_turned_error_is_the_same_in_a_box_that_is_no_square():
    """One length for all axes: a plane wave of given wavelength counts the same along either."""
    grid = Grid(extent=(4.0, 1.0), points=(256, 64), periodic=(True, True))
    x, y = grid.coordinates(dtype=F64)
    along, across = (torch.sin(2 * math.pi * u)[None, None] for u in (x, y))
    value = Sobolev()(along, 0 * along, grid)
    torch.testing.assert_close(value, Sobolev()(across, 0 * across, grid))
    assert value.item() == pytest.approx(0.5 * (1 + 4**2), rel=1e-2)  # the fourth mode of the longest extent


# Derivative


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_derivatives_of_parabolas_are_exact_between_walls(axis):
    grid = Grid(extent=(1.0, 2.0, 3.0), points=(3, 4, 5), origin=(-0.3, 0.2, 1.0))
    x = grid.coordinates(dtype=F64)
    u = 2 + 3 * x[axis] - 5 * x[axis] ** 2 + x.prod(dim=0)
    expected = 3 - 10 * x[axis] + x.prod(dim=0) / x[axis]
    torch.testing.assert_close(derivative(u[None, None], grid, axis)[0, 0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("m", [0, 1, 3, 4])
def test_derivatives_of_fourier_modes_have_the_wavenumber_of_central_differences(m):
    """exp(ikx) is an eigenfunction on a ring, with i sin(kh) / h: zero for the sawtooth."""
    grid = Grid(extent=(3.0, 1.0), points=(8, 3), periodic=(True, False))
    k, h = 2 * math.pi * m / 3.0, 3.0 / 8
    x = grid.coordinates(dtype=F64)[0][None, None]
    expected = math.sin(k * h) / h * torch.cos(k * x)
    torch.testing.assert_close(derivative(torch.sin(k * x), grid, 0), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("periodic", [True, False])
def test_the_derivative_is_of_second_order_everywhere(periodic):
    def error(n):
        grid = Grid(extent=(2.0,), points=(n,), periodic=(periodic,))
        x = grid.axis(0, dtype=F64)
        u, slope = (
            (torch.sin(math.pi * x).exp(), math.pi * torch.cos(math.pi * x) * torch.sin(math.pi * x).exp())
            if periodic
            else (torch.exp(x), torch.exp(x))
        )
        return (derivative(u[None, None], grid, 0) - slope).abs().amax().item()

    errors = [error(n) for n in (64, 128, 256, 512)]
    assert [math.log2(a / b) for a, b in pairwise(errors)] == pytest.approx([2.0] * 3, abs=0.05)


@pytest.mark.parametrize("periodic", [True, False])
def test_the_derivative_is_numpys_or_that_of_rolls(periodic):
    grid = Grid(extent=(2.0, 3.0), points=(5, 7), periodic=(periodic, periodic))
    u, _ = pair(grid)
    for axis in range(2):
        step = grid.spacing[axis]
        rolled = (u.roll(-1, 2 + axis) - u.roll(1, 2 + axis)) / (2 * step)
        oracle = rolled if periodic else torch.gradient(u, spacing=step, dim=2 + axis, edge_order=2)[0]
        torch.testing.assert_close(derivative(u, grid, axis), oracle)


@unchecked()
def test_derivatives_that_cannot_be_taken_are_refused():
    with pytest.raises(ValueError, match="u has 2 points along axis 0"):
        derivative(torch.zeros(1, 1, 2), Grid(extent=(1.0,)), 0)
    with pytest.raises(ValueError, match="axis=1 is not an axis"):
        derivative(torch.zeros(1, 1, 4), Grid(extent=(1.0,)), 1)
    with pytest.raises(ValueError, match=r"u has shape \(4,\)"):
        derivative(torch.zeros(4), Grid(extent=(1.0,)), 0)


@pytest.mark.parametrize("loss", [MeanSquare(), RelativeL2()])
def test_at_points_with_equal_weights_it_is_the_loss_on_a_grid_of_as_many_points(loss):
    prediction, target = torch.randn(2, 3, 2, 12, dtype=torch.float64)
    weights = [torch.full((12,), 0.7)] * 3
    at_points = loss.at_points(list(prediction), list(target), weights)
    torch.testing.assert_close(at_points, loss(prediction, target, Grid(extent=(1.0,))))
    # a point of weight two is two points of weight one
    twice = [torch.cat([part, part[:, :1]], dim=1) for part in prediction]
    truth = [torch.cat([part, part[:, :1]], dim=1) for part in target]
    heavy = torch.ones(12).index_fill(0, torch.tensor([0]), 2.0)
    torch.testing.assert_close(
        loss.at_points(twice, truth, [torch.ones(13)] * 3),
        loss.at_points(list(prediction), list(target), [heavy] * 3),
    )


@pytest.mark.parametrize("loss", [MeanSquare(), RelativeL2()])
def test_at_points_a_perfect_prediction_has_a_finite_slope(loss):
    target = torch.randn(1, 5)
    prediction = target.clone().requires_grad_()
    loss.at_points([prediction], [target], [torch.ones(5)]).backward()
    assert prediction.grad.tolist() == [[0.0] * 5]
