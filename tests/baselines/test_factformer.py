"""FactFormer: a kernel that is a product over the axes."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch

from mondrian import Grid
from mondrian.models.baselines import FactFormerSpec, factformer
from mondrian.models.baselines.factformer import AxialAttention, integrate_axes, turn
from mondrian.operators.base import use_definitions

pytestmark = pytest.mark.usefixtures("float64")


def test_axial_attention_is_the_explicit_sum():
    kernels = [torch.randn(1, 2, n, n) for n in (3, 4)]
    v = torch.randn(1, 2, 3, 4, 5)
    u = torch.zeros_like(v)
    for head, x, y in product(range(2), range(3), range(4)):
        for s, t in product(range(3), range(4)):
            weight = kernels[0][0, head, x, s] * kernels[1][0, head, y, t] / 12
            u[0, head, x, y] += weight * v[0, head, s, t]
    torch.testing.assert_close(integrate_axes(v, kernels), u)


@pytest.mark.parametrize("points", [(7,), (4, 6), (3, 2, 4)])
@pytest.mark.parametrize("ring", [False, True])
def test_one_axis_after_the_other_is_the_whole_kernel(points, ring):
    layer, v = AxialAttention(8, 2, len(points)), torch.randn(2, *points, 8, requires_grad=True)
    periodic = (ring,) * len(points)
    fast = layer(v, periodic)
    slow = use_definitions(layer)(v, periodic)
    torch.testing.assert_close(fast, slow)
    way = torch.randn_like(fast)
    torch.testing.assert_close(*(torch.autograd.grad((u * way).sum(), v)[0] for u in (fast, slow)))


def test_the_kernel_of_an_axis_sees_the_mean_over_the_others():
    layer = AxialAttention(8, 2, 2)
    v = torch.randn(1, 5, 6, 8)
    kernel = layer.kernels[1]
    line = (v @ kernel.reduce.weight.T).mean(dim=1)  # the second axis is left
    q, k = kernel.project(kernel.network(kernel.norm(line))).view(1, 6, 2, 2, 4).permute(2, 0, 3, 1, 4)
    expected = turn(q, False) @ turn(k, False).mT / 2
    torch.testing.assert_close(kernel(v, False), expected)


@pytest.mark.parametrize("channels", [4, 5])
def test_products_of_turned_functions_depend_on_the_distance_only(channels):
    q, k = (torch.randn(channels).expand(1, 1, 12, channels) for _ in range(2))
    scores = (turn(q, False) @ turn(k, False).mT)[0, 0]
    assert all(torch.allclose(scores.diagonal(n), scores.diagonal(n)[:1]) for n in range(-11, 12))
    assert scores.std() > 1e-3
    ring = (turn(q, True) @ turn(k, True).mT)[0, 0]
    torch.testing.assert_close(ring.roll((1, 1), dims=(0, 1)), ring)
    torch.testing.assert_close(turn(q, True).norm(dim=-1), q.norm(dim=-1))


def test_the_same_box_at_another_resolution_has_the_same_angles():
    """Positions are coordinates, not counts of points: the middle of three points is the one it was."""
    u = torch.randn(1, 1, 1, 6)
    for ring in (False, True):
        coarse, fine = (turn(u.expand(-1, -1, n, -1), ring) for n in (4, 12))
        torch.testing.assert_close(fine[:, :, 1::3], coarse)


def test_refinement_converges_at_the_order_of_the_midpoint_rule():
    model = FactFormerSpec(1, 1, hidden_channels=8, n_layers=2, n_heads=2, dim=1).build()

    def output(n):  # 27, 81, ... cell-centred points share those of 27
        x = (torch.arange(n) + 0.5) / n
        factor = n // 27
        return model((torch.sin(2 * x) + x * torch.exp(x))[None, None])[..., factor // 2 :: factor]

    fine = output(27 * 81)
    coarse, finer = ((output(n) - fine).norm().item() for n in (81, 243))
    assert math.log(coarse / finer, 3) == pytest.approx(2.0, abs=0.1)


def test_swapping_the_axes_swaps_their_kernels():
    """Rectangular grids: the model on the transposed grid, its kernels exchanged, is the transposed model."""
    model, x = factformer(1, 1, hidden_channels=8, n_heads=2, n_layers=2), torch.randn(1, 1, 5, 8)
    grid = Grid(extent=(1.0, 2.0), periodic=(True, False))
    y = model(x, grid=grid)
    for block in model.blocks:
        first, second = block.attention.kernels
        first.axis, second.axis = 1, 0
        block.attention.kernels = torch.nn.ModuleList([second, first])
    swapped = Grid(extent=(2.0, 1.0), periodic=(False, True))
    torch.testing.assert_close(model(x.mT, grid=swapped).mT, y)


def test_down_and_up_blocks_fix_the_resolution():
    model = factformer(1, 1, hidden_channels=8, n_heads=2, resolution=(8, 12))
    assert model(torch.randn(1, 1, 8, 12)).shape == (1, 1, 8, 12)
    with pytest.raises(ValueError, match=r"x has \(16, 24\) points; .* fixes this model to resolution=\(8, 12\)"):
        model(torch.randn(1, 1, 16, 24))


def test_down_and_up_blocks_go_round_a_ring():
    model, x = factformer(1, 1, hidden_channels=8, n_heads=2, resolution=(8, 12)), torch.randn(1, 1, 8, 12)
    torus = Grid(extent=(1.0, 1.0), periodic=(True, True))
    torch.testing.assert_close(model(x.roll((2, 4), (2, 3)), torus), model(x, torus).roll((2, 4), (2, 3)))


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"resolution=\(8, 9\) must hold even numbers"):
        factformer(1, 1, resolution=(8, 9))
    with pytest.raises(ValueError, match=r"resolution=\(8,\) has 1 axes; needed dim=2"):
        factformer(1, 1, resolution=(8,))
    with pytest.raises(ValueError, match="at least 2 channels a head"):
        factformer(1, 1, hidden_channels=4, n_heads=4)
    with pytest.raises(ValueError, match="dim=4 has no convolution"):
        factformer(1, 1, dim=4, resolution=(4, 4, 4, 4))
