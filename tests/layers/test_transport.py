"""Transport reads fields at displaced positions: exactly, at its order, round rings and mirrored at walls."""

import math
from itertools import pairwise, product

import pytest
import torch

from mondrian import Grid, LayerContext, SeparableMixture, Spec, TransformerSpec, Transport
from mondrian.attention import GlobalAttention
from mondrian.decomposition import Decomposition
from mondrian.layers.sampling import gathered, sample
from mondrian.layers.transport import spiral
from mondrian.operators.base import use_definitions
from tests.unchecked import unchecked

pytestmark = [
    pytest.mark.usefixtures("float64"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning"),  # by torch.func.jvp itself
]

RINGS = [rings for dim in (1, 2, 3) for rings in product((True, False), repeat=dim)]


def decomposition(rings, points=None, counts=None) -> Decomposition:
    dim = len(rings)
    points, counts = points or (12, 8, 6)[:dim], counts or (2,) * dim
    return Decomposition(Grid(tuple(n / 12 for n in points), points=points, periodic=rings), counts)


def displacement(dim: int, channels: int = 4, *, moving: bool = True, **settings):
    """With displacements that depend on the input, unless they are told to be constant."""
    layer = Transport(**({"heads": 2} | settings))
    built = layer.build(LayerContext(channels, dim, SeparableMixture(), GlobalAttention())).operator
    if moving:
        torch.nn.init.normal_(built.displacement.weight, std=0.3)
    return built


def constant(built, offsets):
    """The same offset, in subdomains, for every head."""
    torch.nn.init.zeros_(built.displacement.weight)
    with torch.no_grad():
        built.displacement.bias.copy_(torch.tensor(offsets).repeat(built.spec.heads))
    return built


@pytest.mark.parametrize("rings", RINGS)
def test_the_sampler_is_its_definition_with_all_derivatives(rings):
    dim, points = len(rings), (5, 4, 3)[: len(rings)]
    v = torch.randn(2, 3, *points, requires_grad=True)
    positions = (3 * torch.randn(2, dim, *points)).requires_grad_()
    weights = torch.randn_like(v)
    fast, plain = sample(v, positions, rings), sample(v, positions, rings, plain=True)
    torch.testing.assert_close(fast, plain)
    slopes = [torch.autograd.grad((u * weights).sum(), (v, positions), create_graph=True) for u in (fast, plain)]
    torch.testing.assert_close(*slopes)
    second = [torch.autograd.grad(sum(s.sin().sum() for s in slope), (v, positions)) for slope in slopes]
    torch.testing.assert_close(*second)
    first = torch.autograd.grad((sample(v, positions, rings) * weights).sum(), (v, positions))  # without a second
    torch.testing.assert_close(first, slopes[1])


@pytest.mark.parametrize("order", [2, 4])
def test_whole_points_are_an_exact_shift_and_no_displacement_a_pointwise_layer(order):
    domain = decomposition((True, True))
    built = constant(displacement(2, order=order), [2 / 6, -3 / 4])  # two points forwards, three backwards
    v = torch.randn(2, 4, 12, 8)
    expected = torch.einsum("oi,bixy->boxy", built.value.weight, v)
    shifted = expected.roll((-2, 3), (2, 3))
    torch.testing.assert_close(built(v, domain), shifted, rtol=0, atol=1e-13)
    still = constant(built, [0.0, 0.0])
    torch.testing.assert_close(still(v, domain), expected, rtol=0, atol=1e-13)
    positions = torch.stack(torch.meshgrid(torch.arange(12.0) + 2, torch.arange(8.0) - 3, indexing="ij"))[None]
    assert torch.equal(gathered(v[:1], positions, (True, True), order=order), v[:1].roll((-2, 3), (2, 3)))


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("axis", [0, 1])
def test_walls_mirror(order, axis):
    """Between walls the field is half of an even one on a ring twice as long."""
    rings, double = [True, True], [1, 1]
    rings[axis], double[axis] = False, 2
    v = torch.randn(2, 3, 6, 6)
    positions = 4 * torch.randn(2, 2, 6, 6) + 3
    even = torch.cat([v, v.flip(2 + axis)], dim=2 + axis)
    expected = sample(even, positions.repeat(1, 1, *double), (True, True), order=order).narrow(2 + axis, 0, 6)
    torch.testing.assert_close(sample(v, positions, tuple(rings), order=order), expected)


@pytest.mark.parametrize("order", [2, 4])
def test_interpolation_has_its_order(order):
    positions = torch.rand(4096)
    exact = torch.exp(torch.sin(2 * math.pi * positions))
    errors = []
    for n in (32, 64, 128):
        u = torch.exp(torch.sin(2 * math.pi * (torch.arange(n) + 0.5) / n))[None, None]
        values = sample(u, (positions * n - 0.5)[None, None], (True,), order=order)[0, 0]
        errors.append((values - exact).square().mean().sqrt())
    orders = [torch.log2(a / b).item() for a, b in pairwise(errors)]
    assert orders == pytest.approx([order, order], abs=0.1)


@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("bound", [None, 1.5])
def test_shifts_of_a_torus_commute(order, bound):
    built, domain = displacement(2, order=order, bound=bound), decomposition((True, True))
    v = torch.randn(1, 4, 12, 8)
    for shift in ((1, 0), (5, 3), (11, 7)):
        torch.testing.assert_close(built(v.roll(shift, (2, 3)), domain), built(v, domain).roll(shift, (2, 3)))
    torch.testing.assert_close(use_definitions(built)(v, domain), use_definitions(built, plain=False)(v, domain))


def test_a_larger_torus_with_the_same_field_twice_gives_the_same_twice():
    built, v = displacement(2), torch.randn(1, 4, 12, 8)
    large = decomposition((True, True), points=(24, 8), counts=(4, 2))
    once = built(v, decomposition((True, True)))
    torch.testing.assert_close(built(v.repeat(1, 1, 2, 1), large), once.repeat(1, 1, 2, 1))


def test_displacements_start_within_reach_and_stay_within_their_bound():
    for dim in (1, 2, 3):
        built = displacement(dim, 16, heads=16, moving=False, reach=0.6, bound=1.0)
        v = torch.randn(1, 16, *(4,) * dim)
        start = built.displacements(v)
        assert torch.allclose(start, start[..., :1].expand_as(start))
        torch.testing.assert_close(start.flatten(3)[0, :, :, 0], 0.6 * spiral(16, dim))
        torch.nn.init.normal_(built.displacement.weight, std=9.0)
        assert built.displacements(v).abs().max() <= 1.0
        distance = torch.cdist(spiral(64, dim), spiral(64, dim)) + 9 * torch.eye(64)
        assert spiral(64, dim).norm(dim=1).max() <= 1
        assert distance.min() > 0.25 * 64 ** (-1 / dim)


def test_transforms_see_through_it():
    built, domain = displacement(2), decomposition((True, False))
    v, tangent = torch.randn(1, 4, 12, 8), torch.randn(1, 4, 12, 8)
    value, slope = torch.func.jvp(lambda u: built(u, domain), (v,), (tangent,))
    torch.testing.assert_close(value, built(v, domain))
    step = 1e-6
    differences = (built(v + step * tangent, domain) - built(v - step * tangent, domain)) / (2 * step)
    torch.testing.assert_close(slope, differences, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.func.vmap(lambda u: built(u, domain))(v[None])[0], value)


def model(**settings) -> TransformerSpec:
    defaults = {"hidden_channels": 8, "n_layers": 1, "operator": SeparableMixture(terms=4), "positions": ()}
    return TransformerSpec(2, 1, subdomains=(2, 2), layers=(Transport(heads=4),), **(defaults | settings))


def test_every_parameter_learns_and_half_precision_keeps_places():
    built = model().build()
    built(torch.randn(2, 2, 16, 16)).square().mean().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in built.parameters())
    moved = displacement(2, moving=False).to(torch.bfloat16)
    positions = moved.positions(torch.zeros(1, 4, 600, 4, dtype=torch.bfloat16), decomposition((True, True), (600, 4)))
    assert positions.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.compiled
def test_a_model_is_exported_and_comes_back_from_its_description():
    assert Spec.from_json(model().to_json()) == model()
    built, x = model().build().eval(), torch.randn(1, 2, 16, 16)
    program = torch.export.export(built, (torch.randn(1, 2, 16, 16),))
    torch.testing.assert_close(program.module()(x), built(x))


def test_one_operator_learns_linear_advection():
    """The field a time later is the field of now, somewhere else."""
    domain = decomposition((True,), points=(32,), counts=(4,))
    built = displacement(1, 1, heads=1, moving=False)
    x = torch.arange(32) / 32
    waves = [f(2 * math.pi * k * x) for k in (1, 2, 3) for f in (torch.sin, torch.cos)]
    v = (torch.randn(16, 6) @ torch.stack(waves))[:, None]
    truth = v.roll(-5, 2)
    optimiser = torch.optim.Adam(built.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 400)
    for _ in range(400):
        optimiser.zero_grad()
        loss = (built(v, domain) - truth).square().mean()
        loss.backward()
        optimiser.step()
        schedule.step()
    assert loss.sqrt() / truth.square().mean().sqrt() < 1e-4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "heads=0 must be at least 1"),
        ({"reach": -1.0}, "reach=-1.0 must be at least 0 and finite"),
        ({"bound": 0.5}, "bound=0.5 must be finite and greater than reach=0.8"),
        ({"order": 3}, r"order=3 is not available; needed 2 \(linear\) or 4 \(cubic\)"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        Transport(**settings)


def test_heads_divide_the_channels_and_space_has_up_to_three_axes():
    with pytest.raises(ValueError, match="heads=3 does not divide hidden_channels=4"):
        displacement(2, heads=3)
    with pytest.raises(ValueError, match="dim=4 has no spiral; needed 1, 2 or 3"):
        spiral(4, 4)
