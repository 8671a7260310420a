"""The coarse level multiplies the lowest modes of the box, exactly, and sees nothing else."""

import math
from itertools import pairwise, product

import pytest
import torch

from mondrian import Coarse, FeedForward, Grid, LayerContext, SeparableMixture, Spec, TransformerSpec
from mondrian.attention import GlobalAttention
from mondrian.decomposition import Decomposition
from mondrian.operators.base import use_definitions
from mondrian.quadrature import Cell, Midpoint
from tests.unchecked import unchecked

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),  # by torch.func.jvp itself
]

RINGS = [rings for dim in (1, 2, 3) for rings in product((True, False), repeat=dim)]


def decomposition(rings, points=None, counts=None, extent=None) -> Decomposition:
    dim = len(rings)
    grid = Grid(extent or (1.0, 1.5, 0.5)[:dim], points=points or (12, 16, 8)[:dim], periodic=rings)
    return Decomposition(grid, counts or (2,) * dim)


def multiplier(dim: int, channels: int = 2, **settings):
    spec = Coarse(**({"modes": 3} | settings))
    return spec.build(LayerContext(channels, dim, SeparableMixture(), GlobalAttention())).operator


def mode(grid: Grid, wave, phase: float = 0.3) -> torch.Tensor:
    """A real mode of the box: cosines between walls, a travelling cosine along the periodic axes."""
    places = [(grid.axis(a, dtype=torch.float64) / grid.extent[a]) for a in range(grid.dim)]
    angle, walls = torch.tensor(phase), torch.ones(())
    for axis, (x, k, ring) in enumerate(zip(places, wave, grid.periodic, strict=True)):
        shape = [-1 if a == axis else 1 for a in range(grid.dim)]
        if ring:
            angle = angle + (2 * math.pi * k * x).view(shape)
        else:
            walls = walls * torch.cos(math.pi * k * x).view(shape)
    return (torch.cos(angle) * walls).expand(grid.points)


@pytest.mark.parametrize("rings", RINGS)
@pytest.mark.parametrize("smooth", [0, 5])
def test_the_products_are_the_sum_over_all_modes(rings, smooth):
    coarse, domain = multiplier(len(rings), smooth=smooth), decomposition(rings)
    v = torch.randn(2, 2, *domain.grid.points)
    fast = coarse(v, domain)
    torch.testing.assert_close(use_definitions(coarse)(v, domain), fast)
    weights = torch.randn_like(v)
    parameters = list(coarse.parameters())
    gradients = torch.autograd.grad((fast * weights).sum(), parameters)
    plain = torch.autograd.grad((coarse(v, domain) * weights).sum(), parameters)
    torch.testing.assert_close(gradients, plain)


@pytest.mark.parametrize("rings", RINGS)
def test_a_mode_is_multiplied_exactly_at_any_resolution(rings):
    coarse = multiplier(len(rings), channels=1)
    wave = (2, 1, 2)[: len(rings)]
    sizes = [(12, 16, 8), (22, 14, 10)]
    results = []
    for points in sizes:
        domain = decomposition(rings, points=points[: len(rings)])
        v = mode(domain.grid, wave)[None, None]
        u = coarse(v, domain)
        # a u = A v + B (v a quarter of a wave later), with the same A and B everywhere
        shifted = mode(domain.grid, wave, 0.3 + math.pi / 2)[None, None]
        basis = torch.stack([v.flatten(), shifted.flatten()], dim=1)
        fit = torch.linalg.lstsq(basis, u.flatten()[:, None]).solution
        torch.testing.assert_close((basis @ fit).flatten(), u.flatten())
        results.append(fit)
    if any(rings):
        torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("rings", RINGS)
def test_other_modes_are_not_seen(rings):
    coarse, domain = multiplier(len(rings)), decomposition(rings)
    for axis, _ in enumerate(rings):
        wave = [3 if a == axis else 1 for a in range(len(rings))]  # resolved, but not among the modes
        v = mode(domain.grid, wave)[None, None].expand(1, 2, *domain.grid.points)
        assert coarse(v, domain).abs().max() < 1e-12


def test_coefficients_of_other_functions_converge_at_the_order_of_the_midpoint_rule():
    coarse = multiplier(1, channels=1, modes=2)
    coarse.table.data.fill_(1.0)

    def mean(points: int) -> torch.Tensor:  # of exp: no mode, and not periodic
        domain = decomposition((False,), points=(points,), counts=(1,), extent=(1.0,))
        return coarse(torch.exp(domain.grid.axis(0))[None, None], domain).mean()

    errors = [(mean(n) - (math.e - 1)).abs() for n in (8, 16, 32)]
    orders = [torch.log2(a / b).item() for a, b in pairwise(errors)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.02)


def test_modes_that_the_points_do_not_resolve_are_left_out():
    coarse, domain = multiplier(1, channels=1, modes=8), decomposition((True,), points=(6,), counts=(1,))
    v = torch.randn(1, 1, 6)
    refined = coarse(v, domain)
    coarse.table.data[..., 3:] = 7.0  # from the Nyquist frequency on
    torch.testing.assert_close(coarse(v, domain), refined)


@pytest.mark.parametrize("smooth", [0, 5])
def test_shifts_of_a_torus_and_reflections_between_walls_commute(smooth):
    domain, walls = decomposition((True, True)), decomposition((False, False))
    coarse = multiplier(2, smooth=smooth)
    v = torch.randn(1, 2, 12, 16)
    torch.testing.assert_close(coarse(v.roll((5, 3), (2, 3)), domain), coarse(v, domain).roll((5, 3), (2, 3)))
    torch.testing.assert_close(coarse(v.flip(2), walls), coarse(v, walls).flip(2))


def model(counts, **settings):
    defaults = {"hidden_channels": 8, "n_layers": 1, "operator": SeparableMixture(terms=4), "positions": ()}
    return TransformerSpec(2, 1, subdomains=counts, layers=(Coarse(modes=4),), **(defaults | settings))


@pytest.mark.parametrize("periodic", [(True, True), (True, False)])
def test_the_layer_does_not_depend_on_the_decomposition(periodic):
    block = model((2, 2)).build().blocks[0]
    grid = Grid((1.0, 1.0), points=(16, 24), periodic=periodic)
    u = torch.randn(2, 8, 16, 24)
    results = []
    for counts in ((2, 2), (4, 6), (1, 1)):
        cells = Decomposition(grid, counts)
        cell = Cell.build(cells.cell_points, Midpoint())
        results.append(cells.join(block(cells.cut(u), cell, cells)))
    torch.testing.assert_close(results[1], results[0])
    torch.testing.assert_close(results[2], results[0])


def test_a_smooth_multiplier_knows_the_physical_wave_vector():
    """On a torus twice as long with the same field twice, the modes up to the same wave number do the same."""
    coarse = multiplier(2, smooth=6, length=(1.0, 1.5))
    small, large = (decomposition((True, True), points=(n, 16), extent=(n / 12, 1.5)) for n in (12, 24))
    v = torch.randn(1, 2, 12, 16)
    torch.testing.assert_close(coarse(v.repeat(1, 1, 2, 1), large), coarse(v, small).repeat(1, 1, 2, 1))
    assert coarse.modes(large.grid) == (6, 3)


def test_second_derivatives_and_transforms():
    coarse, domain = multiplier(2), decomposition((True, False), points=(6, 4))
    branch = Coarse(modes=2).build(LayerContext(2, 2, SeparableMixture(), GlobalAttention()))
    v = torch.randn(1, 2, 6, 4, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda u: branch(u, domain), (v,))
    tangent = torch.randn_like(v)
    value, forward = torch.func.jvp(lambda u: coarse(u, domain), (v,), (tangent,))
    torch.testing.assert_close(value, coarse(v, domain))
    torch.testing.assert_close(forward, coarse(tangent, domain))  # linear
    many = torch.func.vmap(lambda u: coarse(u, domain))(torch.stack([v, tangent]))
    torch.testing.assert_close(many[0], value)


@pytest.mark.slow
@pytest.mark.compiled
def test_a_model_is_exported_and_comes_back_from_its_description():
    spec = model((2, 2))
    assert Spec.from_json(spec.to_json()) == spec
    built = spec.build().eval()
    program = torch.export.export(built, (torch.randn(1, 2, 16, 16),))
    x = torch.randn(1, 2, 16, 16)
    torch.testing.assert_close(program.module()(x), built(x))


def test_every_parameter_learns():
    built = model((2, 2), grid=Grid((1.0, 1.0), periodic=(True, True))).build()
    built(torch.randn(2, 2, 16, 16)).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in built.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modes": 0}, "modes=0 must be at least 1"),
        ({"expansion": 0}, "expansion=0 must be at least 1"),
        ({"smooth": -1}, "smooth=-1 must be at least 0"),
        ({"length": (1.0,)}, r"length=\(1.0,\) needs multipliers for any number of modes"),
        ({"length": (0.0,), "smooth": 4}, r"length=\(0.0,\) must hold finite positive"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        Coarse(**settings)


def test_a_length_has_one_entry_an_axis():
    with pytest.raises(ValueError, match=r"length=\(1.0,\) must have 2 entries"):
        multiplier(2, smooth=4, length=(1.0,))
    assert FeedForward() != Coarse()
