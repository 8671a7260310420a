"""Kuramoto-Sivashinsky: against py-pde, its orders, what it keeps, its symmetries, and a sample's independence."""

import math
from itertools import pairwise

import pytest
import torch
from tests.data.peers import Case, solve_by_py_pde
from tests.unchecked import unchecked

from mondrian import Grid
from mondrian.data.problems import KuramotoSivashinsky
from mondrian.data.restriction import fourier_truncate
from mondrian.data.solvers.kuramoto_sivashinsky import RingModes, initial_condition, solve

RING = Grid(extent=(32.0,), periodic=(True,))
F64 = torch.float64


@pytest.fixture(scope="module")
def state():
    """A state after the waves have grown and met."""
    grid = RING.with_points((64,))
    return grid, solve(initial_condition([3], grid, dtype=F64), grid, dt=0.05, steps=600, frames=1)[:, 0]


@pytest.mark.process
def test_agrees_with_py_pde_to_its_order(state, tmp_path):
    """py-pde takes differences of second order: three times finer, nine times closer."""
    grids = [RING.with_points((n,)) for n in (48, 144)]
    fine = interpolated(state[1], grids[1])
    exact = solve(fine, grids[1], dt=0.01, steps=20, frames=1)[:, 0]
    equation = ["-laplace(laplace(u)) - laplace(u) - u * d_dx(u)"]
    cases = [Case(grid, u0, equation, 0.2) for grid, u0 in zip(grids, (fine[:, 1::3], fine), strict=True)]
    coarse, theirs = solve_by_py_pde(cases, tmp_path)
    errors = [(coarse - exact[:, 1::3]).abs().max(), (theirs - exact).abs().max()]
    assert (theirs - fine).abs().max() > 10 * errors[1]  # it has moved
    assert math.log(errors[0] / errors[1], 3) == pytest.approx(2.0, abs=0.3)


def interpolated(u, fine):
    """The trigonometric polynomial through cell-centred points, at finer ones."""
    n = u.shape[-1]
    k = torch.fft.rfftfreq(n, 1 / n, dtype=F64)
    shift = torch.exp(2j * torch.pi * k * (0.5 / fine.points[0] - 0.5 / n))
    return torch.fft.irfft(torch.fft.rfft(u) * shift, n=fine.points[0]) * (fine.points[0] / n)


def test_order_in_time(state):
    grid, start = state

    def solution(steps):
        return solve(start, grid, dt=1.0 / steps, steps=steps, frames=1)

    exact = solution(1280)
    errors = [(solution(steps) - exact).abs().max() for steps in (40, 80, 160, 320)]
    orders = [torch.log2(a / b).item() for a, b in pairwise(errors)]
    assert orders == sorted(orders)  # of long steps it is less than four: stiff modes follow the others
    assert orders[-1] == pytest.approx(4, abs=0.2)


def test_error_in_space_falls_faster_than_any_power(state):
    _, start = state

    def solution(n):
        grid = RING.with_points((n,))
        u0 = interpolated(start, grid) if n > 64 else fourier_truncate(start, (n,))
        return solve(u0, grid, steps=40, frames=1)[:, 0]

    exact = solution(192)
    errors = [(solution(n) - fourier_truncate(exact, (n,))).abs().max() for n in (32, 64, 128)]
    orders = [torch.log2(a / b).item() for a, b in pairwise(errors)]
    assert orders[1] > orders[0] > 8
    assert errors[-1] < 1e-9


def test_the_steps_of_the_problem_are_fine_enough():
    """At its defaults, over ten units of time, in which errors grow e-fold: shorter steps, and more points."""
    problem = KuramotoSivashinsky()
    u0 = initial_condition([1, 2], problem.grid, dtype=F64)
    u0 = solve(u0, problem.grid, dt=problem.dt, steps=1000, frames=1)[:, 0]
    steps = round(10 / problem.dt)
    coarse, fine = (solve(u0, problem.grid, dt=problem.dt / r, steps=steps * r, frames=1)[:, 0] for r in (1, 4))
    assert (coarse - fine).abs().max() < 1e-4
    finer = problem.grid.with_points((384,))
    there = solve(interpolated(u0, finer), finer, dt=problem.dt, steps=steps, frames=1)[:, 0]
    assert (fourier_truncate(there, (256,)) - coarse).abs().max() < 1e-8


def test_small_waves_grow_and_decay_at_their_rates():
    grid = RING.with_points((48,))
    for mode in (1, 3, 5, 8):
        k = 2 * math.pi * mode / 32
        wave = 1e-9 * torch.sin(k * grid.axis(0, dtype=F64))
        u = solve(wave[None], grid, dt=0.1, steps=10, frames=1)[0, 0]
        assert torch.allclose(u, wave * math.exp(k**2 - k**4), atol=1e-15)


def test_the_mean_is_kept_to_the_last_digits(state):
    grid, start = state
    u = solve(start + 0.7, grid, dt=0.05, steps=400, frames=4)
    assert (u.mean(dim=-1) - (start + 0.7).mean()).abs().max() < 1e-13


def test_the_nonlinear_term_moves_energy_and_makes_none(state):
    """Free of aliasing: the integral of u (u^2)_x vanishes for the modes that are kept."""
    grid, start = state
    modes = RingModes(grid, start)
    v = modes.coefficients(start)
    rate = modes.field(modes.nonlinear(v))
    assert (rate * modes.field(v)).sum().abs() < 1e-12 * rate.norm() * start.norm()
    assert rate.norm() > 0.1


def test_the_right_hand_side_is_that_of_the_equation(state):
    """By differences in time, against derivatives taken in Fourier space."""
    grid = RING.with_points((160,))
    u = solve(interpolated(state[1], grid), grid, dt=0.05, steps=10, frames=1)[:, 0]
    k = torch.fft.rfftfreq(160, 32 / 160, dtype=F64) * 2 * torch.pi
    u_x, u_xx, u_xxxx = (torch.fft.irfft((1j * k) ** n * torch.fft.rfft(u), n=160) for n in (1, 2, 4))
    h = 1e-4
    one, two = solve(u, grid, dt=h, steps=2, frames=2)[0]
    rate = (-3 * u[0] + 4 * one - two) / (2 * h)
    assert (rate + (u * u_x + u_xx + u_xxxx)[0]).abs().max() < 1e-4 * rate.abs().max()


def test_a_moving_observer_sees_the_same_waves(state):
    """u(x - c t, t) + c solves the equation if u does."""
    grid, start = state
    speed, time = 32 / 64, 3.0  # three grid spacings in all, after half of it a second
    still = solve(start, grid, dt=0.02, steps=150, frames=1)[:, 0]
    moving = solve(start + speed, grid, dt=0.02, steps=150, frames=1)[:, 0]
    shift = round(speed * time / grid.spacing[0])
    assert (moving - speed - still.roll(shift, -1)).abs().max() < 1e-5


def test_mirrored_and_shifted_waves_stay_so(state):
    grid, start = state
    u = solve(start, grid, dt=0.05, steps=60, frames=1)[:, 0]
    mirrored = -solve(-start.flip(-1), grid, dt=0.05, steps=60, frames=1)[:, 0].flip(-1)
    shifted = solve(start.roll(5, -1), grid, dt=0.05, steps=60, frames=1)[:, 0].roll(-5, -1)
    assert (mirrored - u).abs().max() < 1e-11
    assert (shifted - u).abs().max() < 1e-11


def test_a_short_ring_falls_asleep():
    """Below a length of 2 pi every wave decays."""
    grid = Grid(extent=(6.0,), points=(24,), periodic=(True,))
    u0 = torch.sin(2 * torch.pi * grid.axis(0, dtype=F64) / 6)[None]
    norms = solve(u0, grid, dt=0.05, steps=400, frames=4)[0].norm(dim=-1)
    assert (norms.diff() < 0).all()
    assert norms[-1] < 0.2 * u0.norm()


def test_a_long_ring_never_does_and_stays_bounded():
    grid = Grid(extent=(64.0,), points=(96,), periodic=(True,))
    u = solve(initial_condition(range(4), grid, dtype=F64), grid, dt=0.1, steps=1200, frames=6)[:, 3:]
    assert 1.0 < u.std() < 1.7
    assert u.abs().max() < 5


def test_neighbours_part_at_the_rate_of_chaos():
    """The largest Lyapunov exponent of a long ring is about 0.09."""
    grid = Grid(extent=(64.0,), points=(96,), periodic=(True,))
    start = solve(initial_condition(range(6), grid, dtype=F64), grid, dt=0.1, steps=600, frames=1)[:, 0]
    near = start + 1e-9 * initial_condition(range(6, 12), grid, dtype=F64)
    one, other = (solve(u, grid, dt=0.1, steps=800, frames=2) for u in (start, near))
    distances = (one - other).norm(dim=-1)
    rate = (distances[:, 1] / distances[:, 0]).log().mean() / 40
    assert 0.05 < rate < 0.14


def test_one_seed_is_one_function():
    coarse, fine = (Grid(extent=(64.0,), points=(n,), periodic=(True,)) for n in (96, 288))
    u, v = (initial_condition([4, 5], grid, dtype=F64) for grid in (coarse, fine))
    assert torch.allclose(u, v[:, 1::3], atol=1e-7)
    many = initial_condition(range(400), coarse, std=0.6, dtype=F64)
    assert many.std().item() == pytest.approx(0.6, rel=0.05)
    assert many.mean(dim=-1).abs().max() < 1e-14


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("points", [64, 96, 45, 128])
def test_a_sample_is_the_same_to_the_last_bit_in_any_batch(points, dtype):
    grid = RING.with_points((points,))
    u0 = initial_condition(range(11), grid, dtype=dtype)
    arguments = {"dt": 0.1, "steps": 20, "frames": 2}
    together = solve(u0, grid, chunk=11, **arguments)
    for chunk in (1, 2, 3, 8):
        assert torch.equal(together, solve(u0, grid, chunk=chunk, **arguments))
    for part in (slice(0, 1), slice(3, 5), slice(4, 11), slice(10, 11)):
        assert torch.equal(together[part], solve(u0[part], grid, **arguments))


def test_the_problem_spins_up_and_counts_its_frames_from_there():
    ring = Grid(extent=(32.0,), points=(64,), periodic=(True,))
    problem = KuramotoSivashinsky(grid=ring, dt=0.1, steps=20, frames=4, spin_up=30)
    fields, scalars = problem.solve([7, 8], ring)
    whole = solve(initial_condition([7, 8], ring, dtype=F64), ring, dt=0.1, steps=50, frames=10)
    assert scalars == {}
    assert fields["u"].dtype == torch.float32
    assert problem.times == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert torch.allclose(fields["u"].double(), whole[:, 6:], atol=1e-6)
    made = problem.simulate([7, 8], [(64,), (32,)])
    assert torch.allclose(
        torch.from_numpy(made[(32,)].fields["u"]),
        fourier_truncate(torch.from_numpy(made[(64,)].fields["u"]), (32,)),
    )


@pytest.mark.parametrize(
    "change, message",
    [
        ({"grid": Grid(extent=(2.0,), points=(8,))}, "periodic"),
        ({"grid": Grid(extent=(2.0, 2.0), points=(8, 8), periodic=(True, True))}, "one periodic axis"),
        ({"grid": RING.with_points((9,))}, r"points \(8,\)"),
        ({"grid": RING.with_points((3,))}, "at least 4"),
        ({"u0": torch.zeros(1, 8, dtype=torch.bfloat16)}, "bfloat16"),
        ({"dt": -1.0}, "dt=-1.0"),
        ({"steps": 7, "frames": 2}, "steps=7"),
        ({"chunk": 0}, "chunk=0"),
        ({"u0": 1e9 * torch.randn(1, 8), "dt": 10.0}, "dt=10.0 is too long"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"u0": torch.zeros(1, 8), "grid": RING.with_points((8,)), "steps": 50, "frames": 1} | change
    with unchecked(), pytest.raises(ValueError, match=message):
        solve(**arguments)


@pytest.mark.parametrize("arguments, message", [({"spin_up": -1}, "spin_up=-1"), ({"frames": 7}, "steps=1280")])
def test_bad_problems_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        KuramotoSivashinsky(**arguments)


def test_bad_initial_data_are_refused():
    with pytest.raises(ValueError, match="std=0"):
        initial_condition([0], RING.with_points((32,)), std=0.0)
    with pytest.raises(ValueError, match="too short"):
        initial_condition([0], Grid(extent=(0.1,), points=(32,), periodic=(True,)))
