"""FFNO: convolutions along single axes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from mondrian import Grid
from mondrian.models.baselines import FFNOSpec, ffno
from mondrian.models.baselines.ffno import AxisConvolution, FactorizedBlock
from tests.baselines.test_fno import circulant

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("points", [(8, 5, 6), (3, 2, 1)], ids=["enough", "fewer points than modes"])
def test_each_axis_has_its_own_circulant_product(points):
    u = torch.randn(2, 3, *points)
    for axis, name in enumerate("xyz"):
        layer = AxisConvolution(3, 4, axis)
        matrix = circulant(layer.weight.detach(), (points[axis],))
        dense = torch.einsum(f"oni{name},bixyz->bo{'xyz'.replace(name, 'n')}", matrix, u)
        torch.testing.assert_close(layer(u), dense)


def test_a_layer_adds_the_axes_and_mixes_channels_pointwise():
    block, v = FactorizedBlock(4, (3, 3), layer_norm=True), torch.randn(2, 4, 8, 6)
    along, across = block.convolutions
    mixed = block.feed_forward((along(v) + across(v)).permute(0, 2, 3, 1))
    expected = v + torch.nn.functional.layer_norm(mixed, (4,)).permute(0, 3, 1, 2)
    torch.testing.assert_close(block(v), expected)


def test_a_function_of_one_coordinate_stays_one():
    """Nothing mixes the axes but sums: constant along the second axis stays constant there."""
    model = ffno(1, 1, hidden_channels=6, modes=(4, 4), grid=Grid((1.0, 1.0), periodic=(False, True)))
    y = model(torch.randn(1, 1, 10, 1).expand(-1, -1, -1, 7))
    torch.testing.assert_close(y, y[..., :1].expand_as(y))


def test_refinement_converges_faster_than_any_order_on_a_ring():
    model = FFNOSpec(1, 1, hidden_channels=6, n_layers=3, modes=(4,), grid=Grid((1.0,), periodic=(True,))).build()

    def output(n):
        t = 2 * torch.pi * (torch.arange(n) + 0.5) / n
        y = model((torch.sin(t) + 0.3 * torch.cos(2 * t))[None, None])
        factor = n // 9
        return y[..., factor // 2 :: factor]

    fine = output(9 * 81)
    errors = [(output(n) - fine).norm().item() for n in (9, 27, 81)]
    assert math.log(errors[0] / errors[1], 3) > 2
    assert errors[-1] < 1e-5 * errors[0]


def test_refinement_converges_at_second_order_between_walls():
    """Zeros behind the end begin half a spacing after the last point: to the midpoint rule the jump is no error."""
    model = FFNOSpec(1, 1, hidden_channels=6, n_layers=3, modes=(6,)).build()

    def output(n):  # 36, 108, ... cell-centred points share those of 36; a quarter of each is a whole number
        x = (torch.arange(n) + 0.5) / n
        factor = n // 36
        return model((torch.sin(3 * x) + x**2)[None, None])[..., factor // 2 :: factor]

    fine = output(36 * 729)
    errors = [(output(n) - fine).norm().item() for n in (36, 108, 324)]
    orders = [math.log(a / b, 3) for a, b in pairwise(errors)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.05)


def test_layer_norm_is_an_option():
    def count(norm: bool) -> int:
        return sum(p.numel() for p in ffno(1, 1, hidden_channels=8, n_layers=3, layer_norm=norm).parameters())

    assert count(True) - count(False) == 3 * 2 * 8


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"modes=\(0,\) must hold"):
        ffno(1, 1, modes=(0,))
    with pytest.raises(ValueError, match="padding=nan must lie"):
        ffno(1, 1, padding=float("nan"))
