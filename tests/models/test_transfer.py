"""From the points of a cell to half as many and back: what is kept, and to which order."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from mondrian import CrossAttentionTransfer, CrossIntegral, Grid, Midpoint, OperatorTransfer, SmoothTransfer
from mondrian.models.transfer import refinement_matrix
from mondrian.operators import use_definitions
from mondrian.quadrature import Cell
from mondrian.resampling import resample

pytestmark = pytest.mark.usefixtures("float64")
TRANSFERS = [SmoothTransfer(), CrossAttentionTransfer(), OperatorTransfer(), OperatorTransfer(skip=False)]
every_transfer = pytest.mark.parametrize("transfer", TRANSFERS, ids=["smooth", "attention", "operator", "no skip"])
every_order = pytest.mark.parametrize("order", [1, 3, 5])
sizes = pytest.mark.parametrize("points", [(1,), (2,), (5,), (8,), (4, 3), (6, 1), (2, 3, 4)])


def cells(points: tuple[int, ...]) -> tuple[Cell, Cell]:
    """The finer and the coarser sampling."""
    fine, coarse = (Cell.build(tuple(k * n for n in points), Midpoint()) for k in (2, 1))
    return fine, coarse


def perturbed(layer: torch.nn.Module) -> torch.nn.Module:
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return layer


# Smoothing and sampling


@every_order
@sizes
def test_the_mean_of_each_cell_is_kept_both_ways(order, points):
    fine, coarse = cells(points)
    layer = SmoothTransfer(order).build(2, 2, dim=len(points))
    v, w = torch.randn(2, 3, 2, fine.size), torch.randn(2, 3, 2, coarse.size)
    torch.testing.assert_close(layer(v, fine, coarse).mean(-1), v.mean(-1))
    torch.testing.assert_close(layer(w, coarse, fine).mean(-1), w.mean(-1))


@every_order
@sizes
def test_down_after_up_is_the_identity(order, points):
    fine, coarse = cells(points)
    layer = SmoothTransfer(order).build(2, 2, dim=len(points))
    w = torch.randn(2, 3, 2, coarse.size)
    torch.testing.assert_close(layer(layer(w, coarse, fine), fine, coarse), w)


@every_order
def test_up_after_down_is_the_identity_on_polynomials_below_the_order_and_on_no_others(order):
    fine, coarse = cells((6, 6))
    layer = SmoothTransfer(order).build(1, 1)
    x, y = fine.coordinates.unbind(1)
    for degree in range(order + 1):
        v = (x**degree * (1 + y) ** max(degree - 1, 0))[None, None, None]
        error = (layer(layer(v, fine, coarse), coarse, fine) - v).abs().amax()
        assert (error < 1e-12) == (degree < order)


@every_order
def test_up_after_down_is_the_identity_on_smooth_functions_to_its_order(order):
    layer = SmoothTransfer(order).build(1, 1, dim=1)

    def error(n: int) -> float:
        fine, coarse = cells((n,))
        v = torch.exp(1.5 * fine.coordinates[:, 0])[None, None, None]
        return (layer(layer(v, fine, coarse), coarse, fine) - v).abs().amax().item()

    orders = [math.log2(a / b) for a, b in pairwise(error(n) for n in (32, 64, 128))]
    assert orders == pytest.approx([order] * 2, abs=0.2)


def test_down_is_the_mean_that_resampling_takes():
    fine, coarse = cells((4, 3))
    box = Grid((1.0, 1.0))
    v = torch.randn(2, 1, 3, fine.size)
    whole = resample(v[:, 0].unflatten(-1, fine.points), box.with_points(fine.points), box.with_points(coarse.points))
    torch.testing.assert_close(SmoothTransfer().build(3, 3)(v, fine, coarse)[:, 0], whole.flatten(2))


@every_order
@pytest.mark.parametrize("points", [2, 3, 6, 9])
def test_refinement_gives_the_means_of_the_polynomial_that_has_the_given_means(order, points):
    """By the integrals of monomials, which are known."""

    def means(parts: int, degree: int) -> Tensor:
        cuts = torch.arange(parts + 1) / parts
        return parts * (cuts ** (degree + 1)).diff() / (degree + 1)

    matrix = refinement_matrix(points, order, 1, torch.float64, torch.device("cpu"))
    for degree in range(min(order, points)):
        torch.testing.assert_close(matrix @ means(points, degree), means(2 * points, degree))
    torch.testing.assert_close(matrix.flip(0, 1), matrix)  # no side is preferred


def test_pieces_are_refined_as_if_each_was_a_cell_of_its_own():
    (fine, coarse), (fine_piece, coarse_piece) = cells((6,)), cells((2,))
    layer = SmoothTransfer().build(1, 1, dim=1)
    w = torch.randn(1, 1, 1, 6)
    whole, apart = layer(w, coarse, fine, 3), layer(w.view(1, 3, 1, 2), coarse_piece, fine_piece)
    torch.testing.assert_close(whole.flatten(), apart.flatten())
    torch.testing.assert_close(layer(w, coarse, fine, 4), layer(w, coarse, fine, 2))  # as far as the points allow
    across = SmoothTransfer(across_cuts=True).build(1, 1, dim=1)
    torch.testing.assert_close(across(w, coarse, fine, 3), layer(w, coarse, fine))


def test_first_order_repeats_each_value():
    fine, coarse = cells((3, 2))
    w = torch.randn(1, 2, 2, coarse.size)
    repeated = w.unflatten(-1, coarse.points).repeat_interleave(2, dim=-2).repeat_interleave(2, dim=-1)
    torch.testing.assert_close(SmoothTransfer(1).build(2, 2)(w, coarse, fine), repeated.flatten(3))


@pytest.mark.parametrize("way", [0, 1], ids=["down", "up"])
def test_other_channels_are_made_at_the_points_of_the_coarser_side(way):
    pair = cells((2, 3))
    given, wanted = pair if way == 0 else pair[::-1]
    layer, same = SmoothTransfer().build(2, 5), SmoothTransfer().build(2, 2)
    v = torch.randn(1, 2, 2, given.size)
    expected = torch.einsum("oi,bcip->bcop", layer.mix.weight, same(v, given, wanted))
    torch.testing.assert_close(layer(v, given, wanted), expected)


# All three


@every_transfer
@pytest.mark.parametrize("points", [(3,), (2, 3), (2, 1, 2)], ids=["1d", "2d", "3d"])
@pytest.mark.parametrize("way", [0, 1], ids=["down", "up"])
def test_it_equals_its_plain_definition_and_has_its_gradient(transfer, points, way):
    pair = cells(points)
    given, wanted = pair if way == 0 else pair[::-1]
    layer = perturbed(transfer.build(2, 4, dim=len(points)))
    v = torch.randn(2, 3, 2, given.size, requires_grad=True)

    def value_and_slopes() -> tuple[Tensor, ...]:
        u = layer(v, given, wanted)
        assert u.shape == (2, 3, 4, wanted.size)
        return (u, *torch.autograd.grad(u.sin().sum(), [v, *layer.parameters()]))

    fast = value_and_slopes()
    use_definitions(layer)
    for ours, plain in zip(fast, value_and_slopes(), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


@every_transfer
@pytest.mark.parametrize("way", [0, 1], ids=["down", "up"])
def test_gradients_are_those_of_differences(transfer, way):
    pair = cells((2,))
    given, wanted = pair if way == 0 else pair[::-1]
    layer = perturbed(transfer.build(2, 2, dim=1))
    v = torch.randn(1, 2, 2, given.size, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: layer(v, given, wanted), v)


def test_attention_of_no_reach_is_the_mean_down_and_the_nearest_value_up():
    """A coarse point has as many fine ones at the same, least distance as there are corners of a box."""
    fine, coarse = cells((3, 2))
    layer = CrossAttentionTransfer().build(4, 4)
    attention, smooth = layer.resampler, SmoothTransfer(1).build(4, 4)
    with torch.no_grad():
        attention.log_reach.fill_(math.log(1e-3))
        attention.out.bias.zero_()
        for part in (attention.value.weight, attention.out.weight):
            part.copy_(torch.eye(4))
        for parameter in (*attention.query.parameters(), *attention.key.parameters()):
            parameter.zero_()
    for given, wanted in ((fine, coarse), (coarse, fine)):
        v = torch.randn(1, 2, 4, given.size)
        torch.testing.assert_close(layer(v, given, wanted), smooth(v, given, wanted))


def test_an_operator_without_kernel_is_its_skip():
    fine, coarse = cells((3, 2))
    layer = OperatorTransfer(CrossIntegral(ridges=2)).build(4, 4)
    with torch.no_grad():
        layer.resampler.matrices.zero_()
        layer.skip.weight.copy_(torch.eye(4))
    for given, wanted in ((fine, coarse), (coarse, fine)):
        v = torch.randn(1, 2, 4, given.size)
        torch.testing.assert_close(layer(v, given, wanted), SmoothTransfer().build(4, 4)(v, given, wanted))


# What is refused


@pytest.mark.parametrize("order", [0, 2, -1])
def test_an_order_without_a_middle_is_refused(order):
    with pytest.raises(ValueError, match=rf"order={order} must be odd and at least 1"):
        SmoothTransfer(order)


def test_other_ratios_than_two_are_refused():
    given, wanted = (Cell.build((n, 4), Midpoint()) for n in (6, 2))
    with pytest.raises(ValueError, match=r"wanted has \(2, 4\) points a cell, given \(6, 4\); needed half"):
        SmoothTransfer().build(1, 1)(torch.randn(1, 1, 1, given.size), given, wanted)
