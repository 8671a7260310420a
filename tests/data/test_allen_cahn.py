"""Allen-Cahn: against py-pde, its orders, its energy, its bounds, and a sample's independence of its batch."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.data.peers import Case, solve_by_py_pde
from tests.unchecked import unchecked

from mondrian import Grid
from mondrian.data.solvers import allen_cahn
from mondrian.data.solvers.allen_cahn import DOUBLE, SINGLE, Schedule
from mondrian.data.solvers.diffusion import AxisDiffusion, PlaneDiffusion
from mondrian.evaluation.spectra import energy_spectrum

LINE, BOX, CUBE = (Grid(extent=(2.0,) * dim) for dim in (1, 2, 3))
F64 = torch.float64


def smooth(grid):
    """A smooth field with zero flux, samples of one function whatever the grid."""
    x = grid.coordinates(dtype=F64)
    waves = [torch.cos(torch.pi * (axis + 1) * x[axis] / 2) for axis in range(grid.dim)]
    return (0.4 * torch.stack(waves).prod(dim=0) + 0.2 * torch.cos(torch.pi * x[0]))[None]


# Oblong, so that swapped axes would show.
PEERS = (
    Grid(extent=(2.0,), points=(48,)),
    Grid(extent=(2.0, 1.5), points=(32, 24)),
    Grid(extent=(2.0, 1.5, 1.0), points=(12, 10, 9)),
)
GAMMA = torch.tensor([2e-4, 5e-3], dtype=F64)


@pytest.fixture(scope="module")
def by_py_pde(tmp_path_factory):
    equations = [f"{gamma!r} * laplace(u) + u - u**3" for gamma in GAMMA.tolist()]
    cases = [Case(grid, allen_cahn.initial_condition([1, 2], grid, dtype=F64), equations, 6.0) for grid in PEERS]
    return list(zip(cases, solve_by_py_pde(cases, tmp_path_factory.mktemp("py_pde")), strict=True))


@pytest.mark.process
@pytest.mark.parametrize("dtype, tolerance", [(F64, 1e-6), (torch.float32, 1e-4)])
def test_agrees_with_py_pde(dtype, tolerance, by_py_pde):
    for case, expected in by_py_pde:
        u = allen_cahn.solve(case.u0.to(dtype), GAMMA.to(dtype), case.grid)
        assert u.dtype == dtype
        assert (u - expected).abs().max() < tolerance, case.grid


# In a plane even axes are folded, odd ones not.
@pytest.mark.parametrize("points", [(9,), (8, 8), (6, 10), (7, 8), (8, 5), (5, 7), (6, 5, 4)])
def test_steps_are_those_of_the_definition(points):
    grid, schedule = Grid(extent=(2.0, 1.5, 1.0)[: len(points)], points=points), Schedule((2, 1), (1,), last=(1,))
    u0, gamma = allen_cahn.initial_condition([3, 4], grid, dtype=F64), torch.tensor([2e-2, 5e-2], dtype=F64)
    u = u0
    for length in (1.2, 1.2, 2.4, 1.2):
        u = reaction(u, length / 2)
        flow = torch.linalg.matrix_exp(gamma[:, None, None] * length * laplacian(grid))
        u = reaction((flow @ u.flatten(1)[..., None]).view_as(u), length / 2)
    assert (allen_cahn.solve(u0, gamma, grid, schedule=schedule) - u).abs().max() < 1e-12


@pytest.mark.parametrize("points", [(16, 16), (12, 10), (9, 14), (11, 7)])
def test_diffusion_in_quarters_is_diffusion_axis_by_axis(points):
    grid = Grid(extent=(2.0, 1.5), points=points)
    u0, gamma = torch.randn(3, *points, dtype=F64), torch.tensor([1e-3, 1e-2, 1e-1], dtype=F64)
    fields = []
    for form in (AxisDiffusion(gamma, grid, u0), PlaneDiffusion(gamma, grid, u0)):
        form.load_(u0)
        for time in (0.3, 0.1, 0.3):
            form.advance_(time)
        fields.append(form.field(form.u))
    assert torch.allclose(*fields, rtol=0, atol=1e-13)
    assert torch.allclose(fields[0].mean(dim=(1, 2)), u0.mean(dim=(1, 2)), atol=1e-14)  # no flux: nothing is lost


def reaction(u, time):
    return u / (u.square() + (1 - u.square()) * math.exp(-2 * time)).sqrt()


def laplacian(grid):
    """Second differences of cell averages with no flux through the ends, as one matrix for all points."""
    total = torch.zeros(math.prod(grid.points), math.prod(grid.points), dtype=F64)
    for axis in range(grid.dim):
        flux = torch.eye(grid.points[axis], dtype=F64).diff(dim=0) / grid.spacing[axis]
        before, after = (torch.eye(math.prod(n), dtype=F64) for n in (grid.points[:axis], grid.points[axis + 1 :]))
        total -= torch.kron(before, torch.kron(flux.T @ flux, after))
    return total


def test_mirror_images_add_no_rounding_error():
    """Where u is near 0 an error grows by e^6; sums with the mirror images of u would bring in 6e-5."""
    grid = BOX.with_points((32, 32))
    u0, gamma = allen_cahn.initial_condition(range(60), grid), torch.linspace(1e-4, 5e-3, 60)
    exact = allen_cahn.solve(u0.double(), gamma.double(), grid, schedule=SINGLE)
    assert (allen_cahn.solve(u0, gamma, grid) - exact).abs().max() < 1e-5


@pytest.mark.parametrize("schedule, tolerance", [(SINGLE, 5e-5), (DOUBLE, 2e-7)])
def test_schedules_keep_their_promise_at_full_size(schedule, tolerance):
    grid = BOX.with_points((128, 128))
    u0 = allen_cahn.initial_condition([11, 12], grid, dtype=F64)
    gamma = torch.tensor([1e-4, 5e-3], dtype=F64)
    exact = allen_cahn.solve(u0, gamma, grid, schedule=Schedule((16,) * 5, (1, 2, 3), last=(16,) * 4))
    error = (allen_cahn.solve(u0, gamma, grid, schedule=schedule) - exact).abs().max()
    assert error < tolerance


@pytest.mark.parametrize("schedule, tolerance", [(SINGLE, 5e-5), (DOUBLE, 2e-7)])
@pytest.mark.parametrize("grid", [LINE.with_points((128,)), CUBE.with_points((24,) * 3)], ids=["1-D", "3-D"])
def test_schedules_keep_their_promise_in_other_dimensions(grid, schedule, tolerance):
    u0 = allen_cahn.initial_condition([11, 12], grid, dtype=F64)
    gamma = torch.tensor([1e-4, 5e-3], dtype=F64)
    exact = allen_cahn.solve(u0, gamma, grid, schedule=Schedule((8,) * 5, (1, 2, 3), last=(8,) * 4))
    assert (allen_cahn.solve(u0, gamma, grid, schedule=schedule) - exact).abs().max() < tolerance


@pytest.mark.parametrize("box", [LINE, BOX, CUBE], ids=["1-D", "2-D", "3-D"])
@pytest.mark.parametrize("extrapolation", [(1,), (1, 2), (1, 2, 3)])
def test_order_in_time(extrapolation, box):
    grid = box.with_points((12,) * box.dim)
    u0, gamma = smooth(grid), torch.tensor([5e-3], dtype=F64)

    def solution(n, refinements=extrapolation):
        return allen_cahn.solve(u0, gamma, grid, time=2.0, schedule=Schedule((n,), refinements))

    exact = solution(64, (1, 2, 3))
    errors = [(solution(n) - exact).abs().max() for n in (8, 16)]
    order = torch.log2(errors[0] / errors[1]).item()
    assert order == pytest.approx(Schedule((1,), extrapolation).order, abs=0.2)


@pytest.mark.parametrize("box, sizes", [(LINE, (9, 27, 81, 243)), (BOX, (9, 27, 81, 243)), (CUBE, (7, 21, 63))])
def test_order_in_space(box, sizes):
    gamma = torch.tensor([5e-3], dtype=F64)

    def solution(n):
        grid = box.with_points((n,) * box.dim)
        u = allen_cahn.solve(smooth(grid), gamma, grid, time=2.0, schedule=Schedule((16,)))
        stride = n // sizes[0]  # the coarse points are points of every grid refined by three
        return u[:, *(slice(stride // 2, None, stride) for _ in range(box.dim))]

    exact = solution(sizes[-1])
    errors = [(solution(n) - exact).abs().max() for n in sizes[:-1]]
    orders = [math.log(a / b, 3) for a, b in pairwise(errors)]
    # What the finest one lacks itself makes the last order a little larger.
    assert orders == pytest.approx([2.0] * len(orders), abs=0.15)


@pytest.mark.parametrize("grid", [LINE.with_points((64,)), BOX.with_points((32, 32)), CUBE.with_points((12,) * 3)])
def test_energy_falls_and_values_stay_within_one(grid):
    u0 = allen_cahn.initial_condition(range(8), grid, dtype=F64)
    gamma = torch.logspace(-4, math.log10(5e-3), 8, dtype=F64)
    times = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 6.0, 9.0)
    path = [u0] + [allen_cahn.solve(u0, gamma, grid, time=t) for t in times]
    energies = torch.stack([allen_cahn.energy(u, gamma, grid) for u in path])
    assert (energies.diff(dim=0) < 0).all()
    assert all((u.abs() <= 1).all() for u in path)


def test_without_diffusion_every_point_follows_the_reaction():
    grid = BOX.with_points((8, 8))
    u0 = torch.full((1, 8, 8), 0.1, dtype=F64)
    exact = 0.1 / math.sqrt(0.01 + 0.99 * math.exp(-6.0))
    u = allen_cahn.solve(u0, torch.tensor([1e-3], dtype=F64), grid, time=3.0)  # a constant doesn't diffuse
    assert torch.allclose(u, torch.full_like(u, exact), atol=1e-13)


def test_values_beyond_one_fall_back_and_are_not_cut_off():
    grid = BOX.with_points((8, 8))
    u0 = torch.full((1, 8, 8), 1.5, dtype=F64)
    u = allen_cahn.solve(u0, torch.tensor([1e-3], dtype=F64), grid, time=0.1)
    exact = 1.5 / math.sqrt(2.25 - 1.25 * math.exp(-0.2))
    assert torch.allclose(u, torch.full_like(u, exact), atol=1e-13)


def test_the_gradient_of_the_energy_is_the_right_hand_side():
    """In 3-D, where gradient and Laplacian have all their axes: u_t = -dE/du."""
    grid, gamma, step = CUBE.with_points((5, 6, 4)), torch.tensor([0.3], dtype=F64), 1e-6
    u = torch.randn(1, *grid.points, dtype=F64, requires_grad=True)
    (slope,) = torch.autograd.grad(allen_cahn.energy(u, gamma, grid).sum(), u)
    later = allen_cahn.solve(u.detach(), gamma, grid, time=step, schedule=Schedule((1,), (1,)))
    rate = (later - u.detach()) / step
    assert torch.allclose(rate, -slope / math.prod(grid.spacing), rtol=1e-3, atol=1e-3)


def test_a_solution_that_depends_on_one_axis_is_that_of_a_line():
    line, gamma = LINE.with_points((24,)), torch.tensor([1e-3], dtype=F64)
    u0 = allen_cahn.initial_condition([5], line, dtype=F64)
    alone = allen_cahn.solve(u0, gamma, line)
    for axis in range(3):
        points = [4, 4, 4]
        points[axis] = 24
        shape = [1, 1, 1, 1]
        shape[1 + axis] = 24
        spread = u0.view(shape).expand(1, *points)
        solution = allen_cahn.solve(spread, gamma, CUBE.with_points(tuple(points)))
        assert torch.allclose(solution, alone.view(shape).expand_as(solution), atol=1e-12)


def test_initial_data_are_the_clipped_field():
    u0 = allen_cahn.initial_condition(range(50), BOX.with_points((32, 32)))
    assert u0.abs().max() == 0.5
    assert 0.2 < (u0.abs() == 0.5).float().mean() < 0.45


@pytest.mark.parametrize("box", [LINE, BOX, CUBE], ids=["1-D", "2-D", "3-D"])
def test_the_energy_of_initial_data_falls_alike_in_every_dimension(box):
    grid = box.with_points((32,) * box.dim)
    u0 = allen_cahn.initial_condition(range(400 if box.dim == 1 else 60), grid, bound=math.inf, dtype=F64)
    k, energy = energy_spectrum(u0[:, None], grid)
    shells = slice(8, 28)
    slope = np.polyfit(k[shells].log().numpy(), energy.mean(dim=(0, 1))[shells].log().numpy(), 1)[0]
    assert slope == pytest.approx(-2.0, abs=0.2)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize(
    "points", [(16, 16), (32, 32), (12, 20), (16, 17), (15, 15), (128, 128), (64,), (45,), (16, 16, 16), (7, 6, 5)]
)
def test_a_sample_is_the_same_to_the_last_bit_in_any_batch(points, dtype):
    grid = Grid(extent=(2.0,) * len(points), points=points)
    schedule = Schedule((1, 2), (1, 2))
    u0 = allen_cahn.initial_condition(range(11), grid, dtype=dtype)
    gamma = torch.linspace(1e-4, 5e-3, 11, dtype=dtype)
    together = allen_cahn.solve(u0, gamma, grid, schedule=schedule, chunk=11)
    for chunk in (1, 3, 8):
        assert torch.equal(together, allen_cahn.solve(u0, gamma, grid, schedule=schedule, chunk=chunk))
    for part in (slice(0, 1), slice(3, 5), slice(4, 11), slice(10, 11)):
        assert torch.equal(together[part], allen_cahn.solve(u0[part], gamma[part], grid, schedule=schedule))
    back = torch.arange(10, -1, -1)
    assert torch.equal(together[back], allen_cahn.solve(u0[back], gamma[back], grid, schedule=schedule))


def test_schedule_fills_the_time_and_reads_back():
    schedule = Schedule((4, 8, 18), last=(2, 0))
    assert sum(length * count for length, count in schedule.levels(6.0)) == pytest.approx(6.0)
    assert sum(schedule.weights()) == pytest.approx(1.0)
    assert schedule.work == 96
    assert schedule.levels(6.0)[0][0] == schedule.levels(6.0)[-1][0]
    assert Schedule.from_json(schedule.to_json()) == schedule


@pytest.mark.parametrize(
    "change, message",
    [
        ({"grid": Grid(extent=(2.0, 2.0), points=(8, 8), periodic=(True, False))}, "periodic"),
        ({"grid": BOX.with_points((8, 9))}, r"points \(8, 8\)"),
        ({"gamma": torch.ones(2)}, "gamma has shape"),
        ({"u0": torch.zeros(1, 8, 8, dtype=torch.bfloat16)}, "bfloat16"),
        ({"time": -1.0}, "time=-1.0"),
        ({"chunk": 0}, "chunk=0"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"u0": torch.zeros(1, 8, 8), "gamma": torch.ones(1), "grid": BOX.with_points((8, 8))} | change
    with unchecked(), pytest.raises(ValueError, match=message):
        allen_cahn.solve(**arguments)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (((), (1,)), "steps="),
        (((0,), (1,)), "steps="),
        (((4,), ()), "extrapolation="),
        (((4,), (2, 1)), "extrapolation="),
        (((4,), (0,)), "extrapolation="),
        (((4,), (1,), (2, -1)), "last="),
    ],
)
def test_bad_schedules_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Schedule(*arguments)
