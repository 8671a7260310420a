"""The exponential integrator: its functions, its limits, its order, stiff or not."""

import math
from itertools import pairwise

import mpmath
import pytest
import torch

from mondrian.data.solvers.exponential import ETDRK4, phi

F64 = torch.float64
Z = torch.tensor([0.0, -1e-12, 1e-7, -1e-3, 0.2, -0.9, -1.0, -1.1, 3.0, -40.0, -1e3, -1e7], dtype=F64)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_phi_is_its_taylor_series(order):
    """With fifty digits, of which cancellation may eat what it likes."""
    with mpmath.workdps(50):
        exact = [float(1 / mpmath.factorial(order) if z == 0 else definition(order, mpmath.mpf(z))) for z in Z.tolist()]
    relative = (phi(order, Z) - torch.tensor(exact, dtype=F64)).abs() / torch.tensor(exact, dtype=F64).clamp(min=1e-30)
    assert relative[torch.tensor(exact) > 1e-10].max() < 2e-13


def definition(order, z):
    return (mpmath.exp(z) - sum(z**j / mpmath.factorial(j) for j in range(order))) / z**order


def test_the_plain_formula_loses_its_digits_where_the_circle_does_not():
    z = torch.tensor([-1e-6], dtype=F64)
    plain = (z.exp() - 1 - z - z.square() / 2) / z**3
    assert (plain * 6 - 1).abs() > 1
    assert (phi(3, z) * 6 - 1).abs() < 1e-6


def test_without_a_linear_part_it_is_the_classical_runge_kutta_method():
    step = ETDRK4(torch.zeros(1, dtype=F64), 0.3, torch.zeros(1, dtype=F64))
    assert [getattr(step, name).item() for name in ("whole", "half", "q", "first", "middle", "last")] == pytest.approx(
        [1.0, 1.0, 0.3 / 2, 0.3 / 6, 0.3 / 3, 0.3 / 6], rel=1e-13
    )


def test_without_a_nonlinear_part_it_is_exact():
    rates = torch.tensor([0.25, 0.0, -1.0, -300.0], dtype=F64)
    v = torch.ones(4, dtype=F64)
    step = ETDRK4(rates, 0.5, v)
    for _ in range(4):
        v = step(v, torch.zeros_like)
    assert torch.allclose(v, torch.exp(2 * rates), rtol=1e-14, atol=0)


def test_a_constant_source_is_integrated_exactly():
    rates = torch.tensor([-1e-9, -0.3, -2.0, -500.0], dtype=F64)
    v = torch.zeros(4, dtype=F64)
    step = ETDRK4(rates, 0.25, v)
    for _ in range(4):
        v = step(v, torch.ones_like)
    assert torch.allclose(v, torch.expm1(rates) / rates, rtol=1e-12, atol=0)


@pytest.mark.parametrize("rate", [1.0, -1.0, -5.0])
def test_order_on_bernoullis_equation(rate):
    """v' = rate v - v^2 has a solution in closed form."""

    def error(steps):
        v = torch.tensor([0.5], dtype=F64)
        step = ETDRK4(torch.tensor([rate], dtype=F64), 2.0 / steps, v)
        for _ in range(steps):
            v = step(v, lambda v: -v.square())
        grown = math.exp(2.0 * rate)
        return abs(v.item() - 0.5 * grown / (1 + 0.5 / rate * (grown - 1)))

    errors = [error(steps) for steps in (10, 20, 40)]
    orders = [math.log2(a / b) for a, b in pairwise(errors)]
    assert orders[-1] == pytest.approx(ETDRK4.order, abs=0.25)


@pytest.mark.parametrize("dt", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_step_is_named(dt):
    with pytest.raises(ValueError, match=f"dt={dt} must be positive and finite"):
        ETDRK4(torch.zeros(1), dt, torch.zeros(1))
