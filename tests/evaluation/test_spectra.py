"""Spectra: Parseval, single modes, scipy's transform, and errors by band."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.fft
import torch

from mondrian import Grid
from mondrian.evaluation.spectra import band_energies, band_errors, cosine_coefficients, energy_spectrum, log_thirds
from mondrian.metrics import mean_square_error, relative_l2_error
from tests.unchecked import unchecked

F64 = torch.float64
EXTENT, POINTS = (2.0, 3.0, 0.7), (6, 5, 4)
GRIDS = [
    Grid(extent=EXTENT[:dim], points=POINTS[:dim], periodic=periodic)
    for dim in (1, 2, 3)
    for periodic in product((False, True), repeat=dim)
]
every_grid = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: "".join("WR"[ring] for ring in grid.periodic))


def field(grid, batch=2, channels=3):
    return torch.randn(batch, channels, *grid.points, dtype=F64)


def mean_square(u):
    return u.square().flatten(2).mean(dim=2)


# The spectrum


@every_grid
def test_shells_add_up_to_the_mean_square(grid):
    u = field(grid) + 1
    k, energy = energy_spectrum(u, grid)
    assert energy.shape == (2, 3, len(k))
    assert (energy >= 0).all()
    torch.testing.assert_close(energy.sum(dim=2), mean_square(u), rtol=1e-12, atol=0)
    torch.testing.assert_close(energy[..., 0], u.flatten(2).mean(dim=2).square(), rtol=1e-12, atol=1e-16)


@every_grid
def test_a_mode_is_in_the_shell_of_its_wavenumber(grid):
    """Every product of a mode an axis, the corner included, has all its energy in one shell."""
    unit = [(2 if ring else 1) * math.pi / length for ring, length in zip(grid.periodic, grid.extent, strict=True)]
    sizes = [n // 2 + 1 if ring else n for n, ring in zip(grid.points, grid.periodic, strict=True)]
    x = [grid.axis(a, dtype=F64) for a in range(grid.dim)]
    for modes in product(*(range(size) for size in sizes)):
        u = torch.ones((), dtype=F64)
        for axis, m in enumerate(modes):
            shift = math.pi / 4 if grid.periodic[axis] else 0.0  # keeps the sawtooth at the points
            u = u[..., None] * torch.cos(m * unit[axis] * x[axis] + shift)
        k, energy = energy_spectrum(u[None, None], grid)
        length = math.hypot(*(m * scale for m, scale in zip(modes, unit, strict=True)))
        shell = math.floor(length / k[1].item() + 0.5 + 1e-9)  # extents of 2 and 3 have modes half-way between
        assert energy[0, 0, shell].item() == pytest.approx(mean_square(u[None, None]).item(), rel=1e-12)


def test_by_hand_on_a_box_that_is_no_square():
    # 5 + 2 cos(2 pi x / 4) + 4 cos(pi 3 y): energies 25, 2 and 8 at wavenumbers 0, pi / 2 and 3 pi
    grid = Grid(extent=(4.0, 1.0), points=(8, 16), periodic=(True, False))
    x, y = grid.coordinates(dtype=F64)
    u = 5 + 2 * torch.cos(math.pi * x / 2) + 4 * torch.cos(3 * math.pi * y)
    k, energy = energy_spectrum(u[None, None], grid)
    assert k[1].item() == pytest.approx(math.pi / 2)
    expected = torch.zeros(len(k), dtype=F64)
    expected[[0, 1, 6]] = torch.tensor([25.0, 2.0, 8.0], dtype=F64)
    torch.testing.assert_close(energy[0, 0], expected, rtol=1e-13, atol=1e-13)


def test_ends_that_differ_are_no_jump_between_walls():
    """A ramp has cosine coefficients that fall as 1/k^2 and Fourier ones that fall as 1/k."""
    ramp = torch.linspace(-1, 1, 256, dtype=F64)[None, None]
    k, walls = energy_spectrum(ramp, Grid(extent=(1.0,)))
    kr, ring = energy_spectrum(ramp, Grid(extent=(1.0,), periodic=(True,)))
    assert walls[0, 0, k > 100].sum() < 1e-3 * ring[0, 0, kr > 100].sum()


def test_on_a_ring_a_shift_changes_nothing_and_between_walls_a_reflection():
    grid = Grid(extent=(2.0, 3.0), points=(6, 8), periodic=(True, False))
    u = field(grid)
    _, energy = energy_spectrum(u, grid)
    torch.testing.assert_close(energy_spectrum(u.roll(2, dims=2).flip(3), grid)[1], energy)


def test_a_finer_grid_has_the_same_spectrum_of_a_field_that_both_resolve():
    def spectrum(n):
        grid = Grid(extent=(1.0, 1.0), points=(n, n), periodic=(True, False))
        x, y = grid.coordinates(dtype=F64)
        return energy_spectrum((torch.sin(4 * math.pi * x) * torch.cos(3 * math.pi * y))[None, None], grid)

    (k, coarse), (finer, fine) = spectrum(8), spectrum(24)
    torch.testing.assert_close(finer[: len(k)], k)
    torch.testing.assert_close(fine[..., : len(k)], coarse, rtol=1e-12, atol=1e-14)


def test_an_axis_of_one_point_has_no_part_in_the_shells():
    u = torch.randn(1, 1, 8, dtype=F64)
    thin = Grid(extent=(1.0, 100.0), periodic=(True, True))
    for a, b in zip(
        energy_spectrum(u[..., None], thin), energy_spectrum(u, Grid((1.0,), periodic=(True,))), strict=True
    ):
        torch.testing.assert_close(a, b)
    k, energy = energy_spectrum(torch.full((1, 1, 1), 3.0), Grid(extent=(1.0,)))
    assert (k.tolist(), energy.tolist()) == ([0.0], [[[9.0]]])


def test_low_precision_is_computed_in_float64_and_inputs_stay_as_they_are():
    u = field(GRIDS[-1]).bfloat16()
    before = u.clone()
    k, energy = energy_spectrum(u, GRIDS[-1])
    assert k.dtype == energy.dtype == F64
    assert torch.equal(energy, energy_spectrum(u.double(), GRIDS[-1])[1])
    assert torch.equal(u, before)


# The cosine transform


@pytest.mark.parametrize("shape", [(1,), (2,), (7, 8), (3, 4, 5)])
def test_cosine_coefficients_are_scipys(shape):
    u = torch.randn(shape, dtype=F64)
    ours = u
    for dim in range(len(shape)):
        ours = cosine_coefficients(ours, dim)
    expected = scipy.fft.dctn(u.numpy(), type=2, norm="ortho") / math.sqrt(u.numel())
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-12, atol=1e-14)


def test_cosine_coefficients_against_their_sum():
    u, n = torch.randn(5, 9, dtype=F64), 9
    j, m = torch.arange(n, dtype=F64), torch.arange(n, dtype=F64)[:, None]
    phi = (2.0 - (m == 0).double()).sqrt() * torch.cos(math.pi * m * (j + 0.5) / n)
    torch.testing.assert_close(cosine_coefficients(u, 1), u @ phi.T / n)


# Bands


@pytest.mark.parametrize("bands", [None, (3.0,), (2.0, 4.5, 9.0, 1e6)])
@every_grid
def test_squared_band_errors_times_band_energies_are_the_squared_error(grid, bands):
    p, t = field(grid), field(grid)
    errors, energies = band_errors(p, t, grid, bands), band_energies(t, grid, bands)
    assert errors.shape == energies.shape == (2, 3, 1 + len(bands or (0, 0)))
    torch.testing.assert_close(energies.sum(dim=2), mean_square(t), rtol=1e-12, atol=0)
    squares = torch.where(energies == 0, 0.0, errors.square() * energies)
    torch.testing.assert_close(squares.sum(dim=2), mean_square_error(p, t), rtol=1e-12, atol=0)


@every_grid
def test_one_band_is_the_relative_error(grid):
    p, t = field(grid), field(grid)
    torch.testing.assert_close(band_errors(p, t, grid, ())[..., 0], relative_l2_error(p, t), rtol=1e-12, atol=0)


def test_band_errors_by_hand():
    # truth 1 + cos(2 pi x) + 2 cos(10 pi x), prediction without the last and with the second 30 percent too large:
    # below 4 pi the energies are 1 + 1/2 and the error's 0.09 / 2; between 4 pi and 8 pi nothing
    grid = Grid(extent=(1.0,), points=(16,), periodic=(True,))
    x = grid.axis(0, dtype=F64)[None, None]
    low, high = torch.cos(2 * math.pi * x), 2 * torch.cos(10 * math.pi * x)
    errors = band_errors(1 + 1.3 * low, 1 + low + high, grid, bands=(4 * math.pi, 8 * math.pi))[0, 0]
    assert errors.tolist() == pytest.approx([math.sqrt(0.045 / 1.5), math.nan, 1.0], rel=1e-12, nan_ok=True)


def test_a_shell_at_the_edge_of_two_bands_is_in_the_upper():
    grid = Grid(extent=(math.pi,), points=(4,))
    u = torch.randn(1, 1, 4, dtype=F64)
    _, energy = energy_spectrum(u, grid)
    expected = [energy[0, 0, :2].sum().item(), energy[0, 0, 2:].sum().item()]
    assert band_energies(u, grid, (2.0,))[0, 0].tolist() == pytest.approx(expected, rel=1e-14)


def test_thirds_have_equal_ratios():
    grid = Grid(extent=(math.pi, math.pi), points=(90, 90))  # corner 126, the cube of 5.01
    assert log_thirds(grid) == pytest.approx((5.5, 25.5))
    ring = Grid(extent=(2 * math.pi,), points=(128,), periodic=(True,))  # largest 64
    assert log_thirds(ring) == pytest.approx((4.5, 16.5))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_thirds_of_very_few_modes_still_increase(n):
    grid = Grid(extent=(math.pi,), points=(n,))
    low, high = log_thirds(grid)
    assert 0 < low < high
    u = torch.randn(1, 1, n, dtype=F64)
    assert torch.equal(band_energies(u, grid), band_energies(u, grid, (low, high)))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_band_that_holds_only_rounding_is_empty(dtype):
    grid = Grid(extent=(1.0, 1.0), points=(64, 64), periodic=(True, False))
    x, y = grid.coordinates(dtype=F64)
    truth = (torch.sin(2 * math.pi * x) * torch.cos(math.pi * y))[None, None].to(dtype)
    errors = band_errors(truth + 0.1 * torch.randn_like(truth), truth, grid)[0, 0]
    assert errors.isnan().tolist() == [False, True, True]


def test_a_prediction_that_is_not_finite_has_infinite_errors():
    truth = field(GRIDS[3])
    prediction = truth.clone()
    prediction[0, 0, 0, 0] = math.nan
    errors = band_errors(prediction, truth, GRIDS[3], (2.0,))
    assert errors[0, 0].isposinf().all()
    assert (errors[1] == 0).all()


@unchecked()
def test_bad_input_is_refused_by_name():
    grid = Grid(extent=(1.0, 1.0))
    u = torch.zeros(2, 3, 4, 4)
    with pytest.raises(ValueError, match=r"u has shape \(2, 3, 4\); a grid with extent=\(1.0, 1.0\)"):
        energy_spectrum(u[..., 0], grid)
    with pytest.raises(ValueError, match=r"prediction has shape \(1, 3, 4, 4\) and truth \(2, 3, 4, 4\)"):
        band_errors(u[:1], u, grid)
    with pytest.raises(ValueError, match="truth has 96 of 96 values that are not finite"):
        band_errors(u, u / 0, grid)
    for bad in ((0.0,), (-1.0, 2.0), (2.0, 2.0), (3.0, 2.0), (math.inf,), (math.nan,)):
        with pytest.raises(ValueError, match="must be finite positive wavenumbers that increase"):
            band_energies(u, grid, bad)
