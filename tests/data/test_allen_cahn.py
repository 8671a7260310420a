"""Allen-Cahn: against py-pde, its orders, its energy, its bounds, and a sample's independence of its batch."""

import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unchecked import unchecked

from mondrian import Grid
from mondrian.data.solvers import allen_cahn
from mondrian.data.solvers.allen_cahn import DOUBLE, SINGLE, Schedule

BOX = Grid(extent=(2.0, 2.0))
F64 = torch.float64


def smooth(grid):
    """A smooth field with zero flux, samples of one function whatever the grid."""
    x, y = grid.coordinates(dtype=F64)
    return (0.4 * torch.cos(torch.pi * x / 2) * torch.cos(torch.pi * y) + 0.2 * torch.cos(torch.pi * x))[None]


@pytest.mark.parametrize("dtype, tolerance", [(F64, 1e-6), (torch.float32, 1e-4)])
def test_agrees_with_py_pde(dtype, tolerance, peer_solutions):
    grid, u0, gamma, expected = peer_solutions
    u = allen_cahn.solve(u0.to(dtype), gamma.to(dtype), grid)
    assert u.dtype == dtype
    assert (u - expected).abs().max() < tolerance


@pytest.fixture(scope="module")
def peer_solutions(tmp_path_factory):
    grid = Grid(extent=(2.0, 1.5), points=(32, 24))  # oblong, so that swapped axes would show
    u0 = allen_cahn.initial_condition([1, 2], grid, dtype=F64)
    gamma = torch.tensor([2e-4, 5e-3], dtype=F64)
    given, found = (tmp_path_factory.mktemp("py_pde") / name for name in ("in.npz", "out.npz"))
    np.savez(given, u0=u0.numpy(), gamma=gamma.numpy(), extent=grid.extent, time=6.0)
    script = Path(__file__).parent / "fixtures" / "solve_py_pde.py"
    subprocess.run([sys.executable, str(script), str(given), str(found)], check=True)
    return grid, u0, gamma, torch.from_numpy(np.load(found)["u"])


@pytest.mark.parametrize("points", [(8, 8), (6, 10), (7, 8), (8, 5), (5, 7)])  # even axes are folded, odd ones not
def test_steps_are_those_of_the_definition(points):
    grid, schedule = Grid(extent=(2.0, 1.5), points=points), Schedule((2, 1), (1,), last=(1,))
    u0, gamma = allen_cahn.initial_condition([3, 4], grid, dtype=F64), torch.tensor([2e-2, 5e-2], dtype=F64)
    u = u0
    for length in (1.2, 1.2, 2.4, 1.2):
        u = reaction(u, length / 2)
        left, right = (torch.linalg.matrix_exp(gamma[:, None, None] * length * laplacian(grid, a)) for a in (0, 1))
        u = reaction(left @ u @ right, length / 2)
    assert (allen_cahn.solve(u0, gamma, grid, schedule=schedule) - u).abs().max() < 1e-12


def reaction(u, time):
    return u / (u.square() + (1 - u.square()) * math.exp(-2 * time)).sqrt()


def laplacian(grid, axis):
    """Second differences of cell averages with no flux through the ends."""
    flux = torch.eye(grid.points[axis], dtype=F64).diff(dim=0) / grid.spacing[axis]
    return -flux.T @ flux


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


@pytest.mark.parametrize("extrapolation", [(1,), (1, 2), (1, 2, 3)])
def test_order_in_time(extrapolation):
    grid = BOX.with_points((12, 12))
    u0, gamma = smooth(grid), torch.tensor([5e-3], dtype=F64)

    def solution(n, refinements=extrapolation):
        return allen_cahn.solve(u0, gamma, grid, time=2.0, schedule=Schedule((n,), refinements))

    exact = solution(64, (1, 2, 3))
    errors = [(solution(n) - exact).abs().max() for n in (8, 16)]
    order = torch.log2(errors[0] / errors[1]).item()
    assert order == pytest.approx(Schedule((1,), extrapolation).order, abs=0.2)


def test_order_in_space():
    gamma = torch.tensor([5e-3], dtype=F64)

    def solution(n):
        grid = BOX.with_points((n, n))
        u = allen_cahn.solve(smooth(grid), gamma, grid, time=2.0)
        stride = n // 9  # the nine coarse points are points of every grid refined by three
        return u[:, stride // 2 :: stride, stride // 2 :: stride]

    errors = [(solution(n) - solution(243)).abs().max() for n in (9, 27, 81)]
    orders = [math.log(a / b, 3) for a, b in pairwise(errors)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.15)


def test_energy_falls_and_values_stay_within_one():
    grid = BOX.with_points((32, 32))
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


def test_initial_data_are_the_clipped_field():
    u0 = allen_cahn.initial_condition(range(50), BOX.with_points((32, 32)))
    assert u0.abs().max() == 0.5
    assert 0.2 < (u0.abs() == 0.5).float().mean() < 0.45


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("points", [(16, 16), (32, 32), (12, 20), (16, 17), (15, 15), (128, 128)])
def test_a_sample_is_the_same_to_the_last_bit_in_any_batch(points, dtype):
    grid = BOX.with_points(points)
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
