"""Restriction: what each map keeps, and its order."""

from itertools import pairwise

import pytest
import torch

from mondrian import Grid
from mondrian.data.restriction import FourierTruncation, block_average, fourier_truncate, linear

F64 = torch.float64


def centres(n):
    return (torch.arange(n, dtype=F64) + 0.5) / n


def wave(*points):
    """A smooth periodic function on [0, 1]^2."""
    x, y = (centres(n) for n in points)
    return torch.sin(2 * torch.pi * x)[:, None] * torch.exp(torch.cos(2 * torch.pi * y)) + torch.cos(4 * torch.pi * y)


@pytest.mark.parametrize("restrict", [block_average, linear, fourier_truncate])
def test_shapes_constants_and_identity(restrict):
    u = torch.randn(2, 3, 12, 8, generator=torch.Generator().manual_seed(0), dtype=F64)
    assert restrict(u, (6, 4)).shape == (2, 3, 6, 4)
    assert torch.allclose(restrict(torch.ones_like(u), (4, 2)), torch.ones(2, 3, 4, 2, dtype=F64))
    assert torch.equal(restrict(u, (12, 8)), u)
    assert torch.equal(restrict(u[0], (6, 4)), restrict(u, (6, 4))[0])
    assert restrict(u.float(), (6, 4)).dtype == torch.float32


def test_block_average_keeps_the_integral_and_composes():
    u = torch.randn(2, 16, 24, generator=torch.Generator().manual_seed(0), dtype=F64)
    assert torch.allclose(block_average(u, (4, 3)).mean(dim=(1, 2)), u.mean(dim=(1, 2)))
    assert torch.allclose(block_average(block_average(u, (8, 12)), (4, 6)), block_average(u, (4, 6)))


def test_linear_halving_is_the_block_average():
    u = torch.randn(2, 16, 24, generator=torch.Generator().manual_seed(0), dtype=F64)
    assert torch.allclose(linear(u, (8, 12)), block_average(u, (8, 12)))


def test_linear_is_exact_on_linear_functions_at_any_ratio():
    u = centres(20)[:, None] + 3 * centres(15)
    assert torch.allclose(linear(u, (7, 4)), centres(7)[:, None] + 3 * centres(4))


@pytest.mark.parametrize("restrict", [block_average, linear])
def test_restriction_is_second_order(restrict):
    errors = [(restrict(wave(2 * n, 2 * n), (n, n)) - wave(n, n)).abs().max() for n in (16, 32, 64)]
    orders = [torch.log2(a / b).item() for a, b in pairwise(errors)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.1)


def test_fourier_truncation_is_exact_for_what_the_coarse_grid_resolves():
    assert torch.allclose(fourier_truncate(wave(48, 64), (16, 32)), wave(16, 32), atol=1e-12)


def test_fourier_truncation_removes_the_rest_and_forgets_it():
    high = torch.cos(2 * torch.pi * 9 * centres(48))[:, None] * torch.ones(48, dtype=F64)
    assert fourier_truncate(high, (16, 16)).abs().max() < 1e-13
    u = torch.randn(48, 48, generator=torch.Generator().manual_seed(0), dtype=F64)
    assert torch.allclose(fourier_truncate(fourier_truncate(u, (24, 24)), (12, 12)), fourier_truncate(u, (12, 12)))


def test_fourier_truncation_is_refused_between_walls():
    x = centres(128)
    error = (fourier_truncate(torch.cos(torch.pi * x), (32,)) - torch.cos(torch.pi * centres(32))).abs().max()
    assert error > 0.1
    grid = Grid(extent=(1.0, 1.0), points=(128, 64), periodic=(True, False))
    FourierTruncation().check(grid, (32, 64))
    with pytest.raises(ValueError, match=r"to points=\(128, 32\) needs periodic axes, but periodic=\(True, False\)"):
        FourierTruncation().check(grid, (128, 32))


@pytest.mark.parametrize("restrict", [block_average, linear, fourier_truncate])
def test_refining_or_no_axes_is_refused(restrict):
    with pytest.raises(ValueError, match=r"points=\(16, 4\)"):
        restrict(torch.zeros(1, 8, 8), (16, 4))
    with pytest.raises(ValueError, match="points"):
        restrict(torch.zeros(8), (4, 4))
    with pytest.raises(ValueError, match="points"):
        restrict(torch.zeros(8), ())


def test_block_average_needs_whole_blocks():
    with pytest.raises(ValueError, match=r"points=\(3,\) must divide"):
        block_average(torch.zeros(8), (3,))
