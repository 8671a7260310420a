"""Navier-Stokes: against jax-cfd, exact solutions, its orders, its symmetries, and a sample's independence."""

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.unchecked import unchecked

from mondrian import Grid
from mondrian.data.restriction import fourier_truncate
from mondrian.data.solvers import navier_stokes
from mondrian.data.solvers.advection import (
    DirectAdvection,
    FourierAdvection,
    jax_cfd_filter,
    symmetric_filter,
)
from mondrian.data.solvers.navier_stokes import Dealias, initial_vorticity, integrate, solve

TORUS = Grid(extent=(2 * math.pi, 2 * math.pi), periodic=(True, True))
F64 = torch.float64


@pytest.mark.parametrize("name, extent", [("square", TORUS.extent), ("oblong", (2 * math.pi, 3 * math.pi))])
def test_agrees_with_jax_cfd_at_time_one(name, extent):
    stored = np.load(Path(__file__).parent / "fixtures" / "jax_cfd.npz")
    initial, final = (torch.from_numpy(stored[f"{name}_{when}"]) for when in ("initial", "final"))
    grid = Grid(extent=extent, points=tuple(initial.shape), periodic=(True, True))
    w = solve(initial[None], grid, steps=250, frames=1, dealias=Dealias.JAX_CFD)
    assert (w[0, 0] - final).abs().max() < 1e-10


@pytest.mark.parametrize("dealias", Dealias)
def test_taylor_green_vortices_decay_exactly(dealias):
    grid = TORUS.with_points((32, 24))
    x, y = grid.coordinates(dtype=F64)
    vortices = 2 * torch.sin(2 * x) * torch.sin(2 * y)
    w = solve(vortices[None], grid, viscosity=1e-3, dt=0.004, steps=500, frames=2, dealias=dealias)
    for frame, time in enumerate((1.0, 2.0)):
        assert torch.allclose(w[0, frame], vortices * math.exp(-8e-3 * time), atol=1e-11)


@pytest.mark.parametrize("points", [(24, 24), (32, 20), (27, 21)])
def test_the_fast_form_is_the_definition(points):
    grid = Grid(extent=(2 * math.pi, math.pi), points=points, periodic=(True, True))
    fast_of = FourierAdvection(grid, torch.empty(3, *points, dtype=F64))
    w = fast_of.field(fast_of.coefficients(initial_vorticity(range(3), grid, dtype=F64)))  # on the kept modes
    definition = DirectAdvection(grid, symmetric_filter(grid), w)
    for steps in (1, 40):
        slow, fast = (integrate(w, form, 1e-3, 0.004, steps, 1) for form in (definition, FourierAdvection(grid, w)))
        assert torch.allclose(fast, slow, atol=1e-11)


@pytest.mark.parametrize("viscosity, order, steps", [(0.0, 4, (20, 40, 80)), (0.1, 2, (10, 20, 40))])
def test_order_in_time(viscosity, order, steps):
    grid = TORUS.with_points((24, 24))
    w0 = initial_vorticity([3], grid, peak_wavenumber=2.0, dtype=F64)

    def solution(n):
        return solve(w0, grid, viscosity=viscosity, dt=1.0 / n, steps=n, frames=1)

    exact = solution(16 * steps[-1])
    errors = [(solution(n) - exact).abs().max() for n in steps]
    orders = [torch.log2(a / b).item() for a, b in pairwise(errors)]
    assert orders[-1] == pytest.approx(order, abs=0.25)


def test_error_in_space_falls_faster_than_any_power():
    fine = TORUS.with_points((96, 96))
    x, y = fine.coordinates(dtype=F64)
    w0 = torch.exp(torch.sin(x) + torch.cos(y + 1)) * torch.sin(x - 2 * y)
    w0 = (w0 - w0.mean())[None]

    def solution(n):
        grid = TORUS.with_points((n, n))
        return solve(fourier_truncate(w0, (n, n)), grid, viscosity=0.02, dt=0.01, steps=100, frames=1)

    exact = solution(96)
    errors = [(solution(n) - fourier_truncate(exact, (n, n))).abs().max() for n in (16, 32, 64)]
    orders = [torch.log2(a / b).item() for a, b in pairwise(errors)]
    assert orders[1] > orders[0] > 3
    assert errors[-1] < 1e-4


def test_without_viscosity_energy_and_enstrophy_are_kept():
    grid = TORUS.with_points((32, 32))
    form = FourierAdvection(grid, torch.empty(2, 32, 32, dtype=F64))
    w0 = form.field(form.coefficients(initial_vorticity([0, 1], grid, dtype=F64)))
    w = solve(w0, grid, viscosity=0.0, dt=0.002, steps=200, frames=1)[:, 0]
    k2 = -DirectAdvection(grid, symmetric_filter(grid), w).laplacian
    k2[0, 0] = 1

    def energy(field):  # the spectrum's half counts twice, but for ky = 0
        squares = torch.fft.rfft2(field).abs().square() / k2
        return squares.sum(dim=(1, 2)) * 2 - squares[:, :, 0].sum(dim=1)

    assert torch.allclose(w.square().sum(), w0.square().sum(), rtol=1e-7)
    assert torch.allclose(energy(w), energy(w0), rtol=1e-7)


def test_mirror_images_stay_mirror_images_with_the_symmetric_filter_alone():
    grid = TORUS.with_points((24, 24))
    w0 = initial_vorticity([5], grid, dtype=F64)

    def asymmetry(dealias):
        w = solve(w0, grid, steps=100, frames=1, dealias=dealias)
        mirrored = -solve(-w0.flip(1), grid, steps=100, frames=1, dealias=dealias).flip(2)
        return (w - mirrored).abs().max() / w.abs().max()

    assert asymmetry(Dealias.SYMMETRIC) < 1e-10
    assert asymmetry(Dealias.JAX_CFD) > 1e-6


def test_the_two_filters_differ_by_one_mode():
    grid = TORUS.with_points((64, 64))
    symmetric, asymmetric = symmetric_filter(grid), jax_cfd_filter(grid)
    assert torch.equal(symmetric[1:], symmetric[1:].flip(0))
    assert not torch.equal(asymmetric[1:], asymmetric[1:].flip(0))
    assert (symmetric != asymmetric).any(dim=1).sum() <= 2


def test_initial_flow_has_its_speed_no_divergence_and_its_curl():
    grid = TORUS.with_points((128, 128))
    w = initial_vorticity(range(6), grid, maximum_velocity=3.0, peak_wavenumber=4.0, dtype=F64)
    form = DirectAdvection(grid, torch.ones(128, 65, dtype=torch.bool), w)
    u = form.field(form.coefficients(w)[:, None] * form.factors[:2])
    speed = u.norm(dim=1)
    assert speed.amax(dim=(1, 2)).tolist() == pytest.approx([3.0] * 6, abs=1e-10)
    slopes = form.field(form.coefficients(u.flatten(0, 1))[:, None] * form.factors[2:]).unflatten(0, (6, 2))
    assert (slopes[:, 0, 0] + slopes[:, 1, 1]).abs().max() < 1e-10  # no divergence
    assert torch.allclose(slopes[:, 1, 0] - slopes[:, 0, 1], w, atol=1e-10)  # and its curl is the vorticity


def test_initial_velocity_peaks_at_its_wavenumber():
    grid = TORUS.with_points((48, 48))
    w = initial_vorticity(range(200), grid, peak_wavenumber=6.0, dtype=F64)
    k2 = -DirectAdvection(grid, symmetric_filter(grid), w).laplacian
    energy = torch.fft.rfft2(w).abs().square().mean(dim=0) / k2
    shells = [(k2.sqrt() - r).abs() <= 0.5 for r in range(1, 16)]
    amplitudes = torch.stack([energy[shell].mean().sqrt() * r for r, shell in enumerate(shells, start=1)])
    assert amplitudes.argmax().item() + 1 in (5, 6, 7)  # times r: all modes of a circle together


def test_one_seed_is_one_flow_at_every_resolution():
    coarse, fine = (initial_vorticity([7], TORUS.with_points((n, n)), dtype=F64) for n in (64, 192))
    assert (fourier_truncate(fine, (64, 64)) - coarse).abs().max() < 1e-11


@pytest.mark.parametrize("dealias", Dealias)
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("points", [(16, 16), (64, 64), (15, 21), (32, 20), (128, 128)])
def test_a_sample_is_the_same_to_the_last_bit_in_any_batch(points, dtype, dealias):
    grid, settings = TORUS.with_points(points), {"steps": 2, "frames": 1, "dealias": dealias}
    w0 = initial_vorticity(range(9), grid, dtype=dtype)
    assert torch.equal(w0, torch.cat([initial_vorticity([seed], grid, dtype=dtype) for seed in range(9)]))
    together = solve(w0, grid, chunk=9, **settings)
    for chunk in (1, 2, 4):
        assert torch.equal(together, solve(w0, grid, chunk=chunk, **settings))
    for part in (slice(0, 1), slice(2, 4), slice(3, 9), slice(8, 9)):
        assert torch.equal(together[part], solve(w0[part], grid, **settings))
    back = torch.arange(8, -1, -1)
    assert torch.equal(together[back], solve(w0[back], grid, **settings))


def test_frames_are_the_states_on_the_way():
    grid = TORUS.with_points((16, 16))
    w0 = initial_vorticity([0], grid, dtype=F64)
    w = solve(w0, grid, steps=12, frames=3)
    assert w.shape == (1, 3, 16, 16)
    assert torch.allclose(w[:, 1], solve(w0, grid, steps=8, frames=1)[:, 0], atol=1e-12)


def test_a_step_that_blows_up_is_an_error():
    grid = TORUS.with_points((16, 16))
    with pytest.raises(ValueError, match=r"dt=2\.0 is too long"):
        solve(initial_vorticity([0], grid), grid, dt=2.0, steps=300, frames=1)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"grid": Grid(extent=(1.0, 1.0), points=(8, 8))}, "periodic"),
        ({"grid": TORUS.with_points((8, 9))}, r"points \(8, 8\)"),
        ({"vorticity0": torch.zeros(1, 8, 8, dtype=torch.float16)}, "float16"),
        ({"viscosity": -1.0}, "viscosity=-1.0"),
        ({"dt": 0.0}, "dt=0.0"),
        ({"steps": 10, "frames": 3}, "steps=10"),
        ({"frames": 0}, "frames=0"),
        ({"chunk": 0}, "chunk=0"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"vorticity0": torch.zeros(1, 8, 8), "grid": TORUS.with_points((8, 8))} | change
    with unchecked(), pytest.raises(ValueError, match=message):
        solve(**arguments)


@pytest.mark.parametrize("change", [{"maximum_velocity": 0.0}, {"peak_wavenumber": -1.0}])
def test_bad_flows_are_refused(change):
    with pytest.raises(ValueError, match=next(iter(change))):
        navier_stokes.initial_vorticity([0], TORUS.with_points((8, 8)), **change)
