"""Interpolation from grid to grid: exact on polynomials, of the declared order, local, the same however computed."""

import math
from dataclasses import fields
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.interpolate import RegularGridInterpolator

from mondrian import Grid
from mondrian.resampling import ORDER, grid_to_grid, resample

pytestmark = pytest.mark.usefixtures("float64")

WALLS = {"cells": (0,), "vertices": (2,)}
RINGS = {"cells": (0,), "vertices": (1,), "repeated": (2,)}


def on(grid: Grid, function) -> torch.Tensor:
    """A function of the coordinates at the points, `(1, 1, *points)`."""
    return function(*grid.coordinates())[None, None]


def orders(errors: list[float]) -> list[float]:
    return [math.log2(a / b) for a, b in pairwise(errors)]


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("here", WALLS)
@pytest.mark.parametrize("there", WALLS)
def test_polynomials_below_the_order_are_carried_exactly(order, here, there):
    source = Grid((2.0,), points=(9,), origin=(-0.7,), ends=WALLS[here])
    target = Grid((2.0,), points=(13,), origin=(-0.7,), ends=WALLS[there])
    for degree in range(order):
        u = on(source, lambda x, degree=degree: (x - 0.2) ** degree)
        expected = on(target, lambda x, degree=degree: (x - 0.2) ** degree)
        torch.testing.assert_close(resample(u, source, target, order=order), expected, rtol=0, atol=1e-12)
    wrong = resample(on(source, lambda x: x**order), source, target, order=order) - on(target, lambda x: x**order)
    assert wrong.abs().amax() > 1e-4


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("periodic", [False, True], ids=["walls", "ring"])
@pytest.mark.parametrize(("here", "there"), [("cells", "cells"), ("cells", "vertices"), ("vertices", "cells")])
def test_the_error_on_smooth_functions_falls_with_the_declared_order(order, periodic, here, there):
    kinds = RINGS if periodic else WALLS

    def function(x):
        return torch.sin(2 * torch.pi * x) * torch.exp(torch.cos(2 * torch.pi * x)) if periodic else torch.exp(2 * x)

    def error(n):
        source = Grid((1.0,), points=(n,), periodic=(periodic,), ends=kinds[here])
        target = Grid((1.0,), points=(31 * n // 16,), periodic=(periodic,), ends=kinds[there])
        return (resample(on(source, function), source, target, order=order) - on(target, function)).abs().amax().item()

    assert orders([error(n) for n in (64, 128, 256)]) == pytest.approx([order, order], abs=0.35)


@pytest.mark.parametrize("points", [85, 33, 421, 30])
def test_to_the_reference_points_of_eight_cells_and_back_is_of_fourth_order(points):
    def error(n):
        source = Grid((2.0,), points=(n,))
        inner = source.with_points((8 * math.ceil(n / 8),))
        u = on(source, lambda x: torch.sin(3 * x) + x**2)
        back = resample(resample(u, source, inner), inner, source)
        return (back - u).abs().amax().item()

    assert error(points) < 1000 * points**-4.0
    # 8k + 5 again: the places of the points in their cells are of the same kind
    assert math.log(error(points) / error(points + 8 * points), 9) == pytest.approx(ORDER, abs=0.6)


@pytest.mark.parametrize("kind", RINGS)
def test_a_periodic_axis_wraps(kind):
    source = Grid((1.0,), points=(24,), periodic=(True,), ends=RINGS[kind])
    target = Grid((1.0,), points=(32,), periodic=(True,))
    u = torch.randn(2, 3, 24)
    if kind == "repeated":
        u[..., -1] = u[..., 0]
        u = u[..., :22]  # 21 different points, of which 3 are a seventh of the ring
        source = source.with_points((22,))
        u[..., -1] = u[..., 0]
        turned = torch.cat([u[..., :-1].roll(3, -1), u[..., :-1].roll(3, -1)[..., :1]], dim=-1)
        target = target.with_points((28,))
        step = 4
    else:
        turned, step = u.roll(3, -1), 4
    torch.testing.assert_close(resample(turned, source, target), resample(u, source, target).roll(step, -1))


def test_an_end_that_repeats_the_start_counts_once():
    once = Grid((1.0,), points=(20,), periodic=(True,), ends=(1,))
    twice = Grid((1.0,), points=(21,), periodic=(True,), ends=(2,))
    target = Grid((1.0,), points=(33,), periodic=(True,), ends=(2,))
    u = torch.randn(1, 1, 20)
    closed = torch.cat([u, u[..., :1]], dim=-1)
    expected = resample(u, once, target)
    torch.testing.assert_close(resample(closed, twice, target), expected)
    torch.testing.assert_close(expected[..., -1], expected[..., 0])
    torch.testing.assert_close(resample(u, once, twice), closed)
    apart = closed.clone()
    apart[..., 0] += 1
    apart[..., -1] -= 1
    torch.testing.assert_close(resample(apart, twice, target), expected)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_axes_are_independent_and_each_is_one_matrix(dim):
    source = Grid((1.0, 2.0, 0.5)[:dim], points=(7, 6, 5)[:dim], periodic=(False, True, False)[:dim])
    target = Grid(
        (1.0, 2.0, 0.5)[:dim], points=(9, 11, 6)[:dim], periodic=(False, True, False)[:dim], ends=(2, 1, 0)[:dim]
    )
    u = torch.randn(2, 3, *source.points)
    expected = u
    for axis in range(dim):
        identity = torch.eye(source.points[axis])[:, None]
        line, other = (
            Grid(
                g.extent[axis : axis + 1],
                g.points[axis : axis + 1],
                g.periodic[axis : axis + 1],
                ends=g.ends[axis : axis + 1],
            )
            for g in (source, target)
        )
        matrix = resample(identity, line, other)[:, 0].mT  # target source
        torch.testing.assert_close(matrix.sum(dim=1), torch.ones(other.points[0]))
        expected = torch.movedim(torch.movedim(expected, 2 + axis, -1) @ matrix.mT, -1, 2 + axis)
    torch.testing.assert_close(resample(u, source, target), expected)


def _only(grid: Grid, axis: int) -> Grid:
    """One axis as a grid of its own."""
    return Grid(**{field.name: getattr(grid, field.name)[axis : axis + 1] for field in fields(grid)})


def test_of_second_order_it_is_scipys_multilinear_interpolation():
    source = Grid((1.0, 3.0), points=(6, 8), ends=(2, 2))
    target = Grid((1.0, 3.0), points=(11, 7))
    u = torch.randn(1, 1, 6, 8)
    axes = [source.axis(a).numpy() for a in (0, 1)]
    peer = RegularGridInterpolator(axes, u[0, 0].numpy(), method="linear")
    there = np.moveaxis(target.coordinates().numpy(), 0, -1)
    np.testing.assert_allclose(resample(u, source, target, order=2)[0, 0].numpy(), peer(there), atol=1e-12)


CASES = {
    "finer, walls": (Grid((1.0,), points=(1000,)), Grid((1.0,), points=(1300,))),
    "finer, ring": (
        Grid((1.0,), points=(1000,), periodic=(True,)),
        Grid((1.0,), points=(1301,), periodic=(True,), ends=(2,)),
    ),
    "coarser, walls": (Grid((1.0,), points=(1000,)), Grid((1.0,), points=(777,), ends=(2,))),
    "means, walls": (Grid((1.0,), points=(1000,)), Grid((1.0,), points=(333,))),
    "means, ring": (Grid((1.0,), points=(1000,), periodic=(True,), ends=(1,)), Grid((1.0,), points=(301,))),
    "means of vertices": (Grid((1.0,), points=(1001,), ends=(2,)), Grid((1.0,), points=(417,))),
    "a part": (Grid((1.0,), points=(1000,)), Grid((0.25,), points=(300,), origin=(0.6,), ends=(2,))),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize("order", [1, 4, 6])
def test_stretches_of_a_long_axis_give_what_the_whole_matrix_gives(case, where, order):
    source, target = CASES[case]
    u = torch.randn(2, 2, source.points[0], 3) if where == "first" else torch.randn(2, 2, 3, source.points[0])
    wide = [_beside(grid, first=where == "first") for grid in (source, target)]
    u.requires_grad_()
    fast, plain = (resample(u, *wide, order=order, plain=plain) for plain in (False, True))
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-12)
    slopes = [torch.autograd.grad(v.sin().sum(), u)[0] for v in (fast, plain)]
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)


def _beside(grid: Grid, *, first: bool) -> Grid:
    """A grid with a second axis of three points, after or before the first."""
    pairs = zip(("extent", "points", "periodic", "origin", "ends"), (1.0, 3, False, 0.0, 0), strict=True)
    return Grid(**{name: (getattr(grid, name)[0], more)[:: 1 if first else -1] for name, more in pairs})


def test_long_axes_are_taken_in_stretches(monkeypatch):
    """Or the comparison above compares nothing."""
    monkeypatch.setattr(grid_to_grid, "whole_matrix", None)
    for source, target in CASES.values():
        resample(torch.zeros(1, 1, *source.points), source, target)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_a_point_depends_on_its_nearest_points_alone(order):
    source, target = Grid((1.0,), points=(12,), periodic=(True,)), Grid((1.0,), points=(17,), periodic=(True,))
    u = torch.randn(1, 1, 12, requires_grad=True)
    v = resample(u, source, target, order=order)
    for point, place in enumerate(target.axis(0)):
        slope = torch.autograd.grad(v[0, 0, point], u, retain_graph=True)[0].flatten()
        far = (source.axis(0) - place + 0.5) % 1 - 0.5
        nearest = far.abs().argsort()[:order].sort().values
        assert torch.equal(slope.nonzero().flatten(), nearest)


def test_with_fewer_points_than_the_order_all_are_used():
    source, target = Grid((1.0,), points=(2,)), Grid((1.0,), points=(5,), ends=(2,))
    torch.testing.assert_close(resample(on(source, lambda x: 3 * x), source, target), on(target, lambda x: 3 * x))
    single = Grid((1.0, 1.0), points=(1, 1))
    assert resample(torch.full((1, 1, 1, 1), 2.0), single, single.with_points((3, 4))).eq(2).all()


def test_the_same_points_are_the_same_values():
    grid = Grid((2.0, 1.0), points=(6, 7), periodic=(True, False), ends=(2, 2))
    u = torch.randn(1, 1, 6, 7)
    assert resample(u, grid, grid) is u
    one = resample(u, grid, grid.with_points((6, 9)))
    for row in range(6):  # untouched along the first axis
        line = resample(u[:, :, row], _only(grid, 1), _only(grid.with_points((6, 9)), 1))
        torch.testing.assert_close(one[:, :, row], line, rtol=1e-14, atol=1e-14)


def test_a_part_of_the_box_can_be_asked_for():
    def wave(x, y):
        return torch.sin(2 * x + 3 * y)

    source = Grid((2.0, 1.0), points=(40, 30))
    part = Grid((0.5, 0.25), points=(16, 12), origin=(1.0, 0.5))
    torch.testing.assert_close(resample(on(source, wave), source, part), on(part, wave), rtol=0, atol=1e-4)


def test_round_the_end_of_a_ring_there_is_more_of_it():
    def wave(x):
        return torch.sin(2 * torch.pi * x)

    ring = Grid((1.0,), points=(64,), periodic=(True,))
    beyond = Grid((1.0,), points=(60,), origin=(0.75,))
    torch.testing.assert_close(resample(on(ring, wave), ring, beyond), on(beyond, wave), rtol=0, atol=1e-4)


def test_gradients_are_those_of_differences():
    source = Grid((1.0, 1.0), points=(5, 7), periodic=(False, True))
    target = Grid((1.0, 1.0), points=(6, 3), ends=(2, 0))
    u = torch.randn(1, 1, 5, 7, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: resample(v, source, target), u)


def test_autocast_does_not_lower_its_precision():
    source, target = Grid((1.0,), points=(32,)), Grid((1.0,), points=(40,))
    u = torch.randn(1, 1, 32, dtype=torch.float32)
    expected = resample(u, source, target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(resample(u, source, target), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("points", [(48, 65), (96, 20), (700, 901)], ids=["one matrix", "means", "stretches"])
def test_in_half_precision_constants_are_kept_and_all_else_is_rounded_once(dtype, points):
    here, there = points
    source = Grid((1.0, 1.0), points=(here, 9), periodic=(False, True), ends=(0, 2))
    target = Grid((1.0, 1.0), points=(there, 12))
    for value in (1.0, -0.1, 300.0):
        u = torch.full((1, 1, *source.points), value, dtype=dtype)
        assert torch.equal(resample(u, source, target), torch.full((1, 1, *target.points), value, dtype=dtype))
    u = torch.randn(1, 1, *source.points).to(dtype).requires_grad_()
    w = resample(u, source, target)
    assert torch.equal(w, resample(u.float(), source, target).to(dtype))
    (slope,) = torch.autograd.grad(w.sum(), u)
    assert slope.dtype == dtype


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": Grid((1.0, 1.0), points=(4, 4))}, r"target has 2 axes.*; the source has 1"),
        ({"target": Grid((1.0,))}, r"target has extent=\(1.0,\) and no points"),
        (
            {"target": Grid((1.5,), points=(4,))},
            r"reaches from 0.0 to 1.5 along axis 0; needed to stay within.* 1.0",
        ),
        ({"target": Grid((0.5,), points=(4,), origin=(-0.1,))}, r"reaches from -0.1"),
        ({"source": Grid((1.0,), points=(9,))}, r"u has shape \(1, 1, 8\); needed \(batch, channel, \*\(9,\)\)"),
        ({"order": 0}, "order=0 must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    settings = {"source": Grid((1.0,), points=(8,)), "target": Grid((1.0,), points=(5,)), **change}
    with pytest.raises(ValueError, match=message):
        resample(torch.zeros(1, 1, 8), settings.pop("source"), settings.pop("target"), **settings)
