"""Coarser cells hold means: the integral is kept, blocks are averaged, the error has the declared order."""

import math
from itertools import pairwise

import pytest
import torch

from mondrian import Grid
from mondrian.data.restriction import block_average
from mondrian.resampling import ORDER, resample

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("points", [(4, 3), (12, 3), (6, 9)])
def test_where_cells_divide_each_other_means_are_block_averages(points):
    fine = Grid((1.0, 2.0), points=(12, 18), periodic=(False, True))
    u = torch.randn(2, 3, 12, 18)
    torch.testing.assert_close(resample(u, fine, fine.with_points(points)), block_average(u, points))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("periodic", [False, True], ids=["walls", "ring"])
@pytest.mark.parametrize("points", [1, 3, 7, 20])
def test_the_mean_of_cell_centred_data_is_kept(order, periodic, points):
    fine = Grid((1.0,), points=(41,), periodic=(periodic,))
    u = torch.randn(2, 3, 41)
    coarse = resample(u, fine, fine.with_points((points,)), order=order)
    torch.testing.assert_close(coarse.mean(dim=-1), u.mean(dim=-1), rtol=0, atol=1e-14)


def test_of_data_at_vertices_the_trapezoidal_mean_is_kept():
    fine, u = Grid((1.0,), points=(41,), ends=(2,)), torch.randn(2, 3, 41)
    trapezoids = (u[..., :-1] + u[..., 1:]).mean(dim=-1) / 2
    torch.testing.assert_close(resample(u, fine, Grid((1.0,), points=(7,))).mean(dim=-1), trapezoids)
    ring = Grid((1.0,), points=(41,), periodic=(True,), ends=(1,))
    torch.testing.assert_close(resample(u, ring, Grid((1.0,), points=(7,))).mean(dim=-1), u.mean(dim=-1))


@pytest.mark.parametrize("periodic", [False, True], ids=["walls", "ring"])
def test_means_of_means_are_of_the_declared_order(periodic):
    def mean(grid):  # of exp(2x) or sin(2 pi x) + cos(4 pi x) over each cell, exactly
        h = grid.spacing[0]
        low, high = grid.axis(0) - h / 2, grid.axis(0) + h / 2
        if not periodic:
            return ((torch.exp(2 * high) - torch.exp(2 * low)) / (2 * h))[None, None]
        first = (torch.cos(2 * torch.pi * low) - torch.cos(2 * torch.pi * high)) / (2 * torch.pi)
        second = (torch.sin(4 * torch.pi * high) - torch.sin(4 * torch.pi * low)) / (4 * torch.pi)
        return ((first + second) / h)[None, None]

    def error(n):
        fine = Grid((1.0,), points=(13 * n,), periodic=(periodic,))
        coarse = fine.with_points((6 * n,))  # cuts at every sixth part of a fine cell
        return (resample(mean(fine), fine, coarse) - mean(coarse)).abs().amax().item()

    errors = [error(n) for n in (4, 8, 16)]
    assert [math.log2(a / b) for a, b in pairwise(errors)] == pytest.approx([ORDER - 1] * 2, abs=0.3)


def test_what_is_finer_than_the_coarse_grid_does_not_alias():
    fine, coarse = (Grid((1.0,), points=(n,), periodic=(True,)) for n in (48, 16))
    x = fine.axis(0)
    high = torch.sin(2 * torch.pi * 17 * x)[None, None]  # at the coarse points the same as -sin(2 pi x)
    alias = -torch.sin(2 * torch.pi * coarse.axis(0))
    means, points = resample(high, fine, coarse)[0, 0], high[0, 0, 1::3]
    torch.testing.assert_close(points, alias)
    assert means.norm() < 0.1 * alias.norm()


def test_less_than_twice_as_coarse_is_interpolated():
    """Or the way back from reference points, which are up to twice as many, would not undo the way there."""
    fine = Grid((1.0,), points=(16,))
    x = fine.axis(0)
    cubic = resample((x**3)[None, None], fine, fine.with_points((9,)))
    torch.testing.assert_close(cubic[0, 0], fine.with_points((9,)).axis(0) ** 3)
    means = resample((x**3)[None, None], fine, fine.with_points((8,)))
    assert (means[0, 0] - fine.with_points((8,)).axis(0) ** 3).abs().amax() > 1e-4


def test_points_at_vertices_are_values_at_points_however_few():
    fine = Grid((1.0,), points=(40,))
    coarse = Grid((1.0,), points=(5,), ends=(2,))
    torch.testing.assert_close(resample((fine.axis(0) ** 3)[None, None], fine, coarse)[0, 0], coarse.axis(0) ** 3)
