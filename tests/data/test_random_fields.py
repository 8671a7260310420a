"""Random fields: one function a seed, with the spectrum and the size that they claim."""

import math
import tracemalloc

import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.data.bases import axis_basis, resolved_modes
from mondrian.data.random_fields import gaussian_random_field, noise

BOX = Grid(extent=(2.0, 2.0))
TORUS = Grid(extent=(2.0, 2.0), periodic=(True, True))
MIXED = Grid(extent=(2.0, 3.0), periodic=(True, False))
F64 = torch.float64
PINNED = [
    -2.1954118012878,
    -0.6502442049268,
    -0.0713354751720,
    -1.3320634417493,
    -1.5000400878759,
    -1.4117419222470,
    -2.5254739092164,
    0.8652772912734,
]


def coefficients(u, grid):
    for axis in range(grid.dim):
        basis = axis_basis(grid, axis, resolved_modes(grid, axis)).values
        u = torch.tensordot(u, basis / grid.points[axis], dims=([1], [0]))  # moves the axis to the end
    return u


@pytest.mark.parametrize("grid", [BOX, TORUS, MIXED])
def test_a_finer_grid_keeps_the_modes_of_a_coarser_one(grid):
    coarse, fine = grid.with_points((8, 10)), grid.with_points((32, 24))
    few, many = (coefficients(gaussian_random_field([3, 4], g, dtype=F64), g) for g in (coarse, fine))
    assert torch.allclose(few, many[:, : few.shape[1], : few.shape[2]], atol=1e-13)


@pytest.mark.parametrize("grid", [BOX, TORUS, MIXED])
def test_given_modes_are_one_function_on_every_grid(grid):
    coarse, fine = grid.with_points((6, 7)), grid.with_points((18, 21))  # shares every third point
    u, v = (gaussian_random_field([9], g, modes=31, dtype=F64) for g in (coarse, fine))
    assert torch.allclose(u, v[:, 1::3, 1::3], atol=1e-12)


@pytest.mark.parametrize("power", [2.0, 3.0])
@pytest.mark.parametrize("grid", [BOX, TORUS])
def test_the_spectrum_is_the_power_of_the_wavenumber(grid, power):
    grid = grid.with_points((32, 32))
    u_hat = coefficients(gaussian_random_field(range(300), grid, power=power, dtype=F64), grid)
    axes = [axis_basis(grid, a, resolved_modes(grid, a)).wavenumbers for a in (0, 1)]
    k = torch.hypot(axes[0][:, None], axes[1])
    energy = u_hat.square().mean(dim=0)
    assert energy[0, 0] < 1e-28
    ring = (k > 0) & (k < k[-1, 0])
    slope, _ = torch.linalg.lstsq(
        torch.stack([k[ring].log(), torch.ones_like(k[ring])], dim=1), energy[ring].log()[:, None]
    )[0].squeeze()
    assert slope.item() == pytest.approx(-power, abs=0.03)


def test_standard_deviation_and_clipped_fraction_are_those_of_the_paper():
    u = gaussian_random_field(range(2000), BOX.with_points((32, 32)), dtype=F64)
    assert u.square().mean().sqrt().item() == pytest.approx(0.54, abs=0.01)
    assert (u.abs() > 0.5).double().mean().item() == pytest.approx(1 / 3, abs=0.02)


def test_noise_is_standard_normal_and_never_changes():
    xi = noise(range(20), (64, 64))
    assert xi.mean().item() == pytest.approx(0, abs=0.01)
    assert xi.std().item() == pytest.approx(1, abs=0.01)
    assert (xi**4).mean().item() == pytest.approx(3, abs=0.06)
    correlation = torch.corrcoef(xi.flatten(1)) - torch.eye(20, dtype=F64)
    assert correlation.abs().max() < 5 / math.sqrt(64 * 64)
    pinned = noise([0, 1], (2, 2)).flatten()
    assert pinned.tolist() == pytest.approx(PINNED, abs=1e-12)


@pytest.mark.parametrize("modes", [(40,), (5, 9), (64, 3), (3, 64), (9, 8, 7), (2, 40, 3), (2, 3, 4, 3)])
def test_noise_is_the_stream_of_the_seed_in_the_order_of_shells(modes):
    index = np.indices((max(modes),) * len(modes)).reshape(len(modes), -1)
    order = np.lexsort((*index[::-1], index.max(axis=0)))
    uniform = np.empty(order.size)
    uniform[order] = ((np.random.Philox(5).random_raw(order.size) >> np.uint64(11)) + 0.5) * 2.0**-53
    cube = torch.special.ndtri(torch.from_numpy(uniform)).reshape((max(modes),) * len(modes))
    assert torch.equal(noise([5], modes)[0], cube[tuple(slice(count) for count in modes)])


def test_noise_of_a_long_box_takes_no_more_memory_than_its_modes():
    tracemalloc.start()
    xi = noise(range(16), (128, 16, 16))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * xi.nbytes


@pytest.mark.parametrize("points", [(16, 16), (15, 17)])
@pytest.mark.parametrize("grid", [BOX, TORUS])
def test_a_field_is_the_same_to_the_last_bit_in_any_batch(grid, points):
    grid = grid.with_points(points)
    together = gaussian_random_field(range(7), grid, dtype=F64)
    alone = [gaussian_random_field([seed], grid, dtype=F64) for seed in range(7)]
    assert torch.equal(together, torch.cat(alone))


def test_one_and_three_dimensions():
    line = gaussian_random_field([0], Grid(extent=(1.0,), points=(16,)))
    cube = gaussian_random_field([0], Grid(extent=(1.0,) * 3, points=(4, 6, 8), periodic=(True, False, True)))
    assert line.shape == (1, 16)
    assert cube.shape == (1, 4, 6, 8)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"seeds": []}, "seeds"),
        ({"seeds": [-1]}, "seeds"),
        ({"std": 0.0}, "std=0.0"),
        ({"modes": 0}, "modes=0"),
        ({"grid": BOX}, "no points"),
    ],
)
def test_bad_arguments_are_named(change, message):
    arguments = {"seeds": [0], "grid": BOX.with_points((8, 8))} | change
    with pytest.raises(ValueError, match=message):
        gaussian_random_field(**arguments)
