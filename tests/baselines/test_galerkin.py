"""Galerkin attention: linear cost, and the quadratic form it equals."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import layer_norm

from mondrian.models.baselines import AddCoordinates, ConcatCoordinates, GalerkinSpec, galerkin_transformer
from mondrian.models.baselines.galerkin import GalerkinAttention
from mondrian.operators.base import use_definitions

pytestmark = pytest.mark.usefixtures("float64")


@pytest.fixture
def attention() -> GalerkinAttention:
    layer = GalerkinAttention(6, n_heads=2)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


def test_attention_is_the_quadratic_form(attention):
    v = torch.randn(2, 11, 6)
    q, k, u = (v @ matrix.T for matrix in attention.project.weight.chunk(3))
    heads = []
    for channels in (slice(0, 3), slice(3, 6)):
        key = layer_norm(k[..., channels], (3,), attention.key_norm.weight, attention.key_norm.bias)
        value = layer_norm(u[..., channels], (3,), attention.value_norm.weight, attention.value_norm.bias)
        scores = torch.einsum("bxc,byc->bxy", q[..., channels], key)
        heads.append(torch.einsum("bxy,byc->bxc", scores, value) / 11)
    torch.testing.assert_close(attention(v), torch.cat(heads, dim=-1) @ attention.out.weight.T)


def test_both_orders_of_the_product_agree_in_value_and_slope(attention):
    v = torch.randn(2, 9, 6, requires_grad=True)
    fast = attention(v)
    slow = use_definitions(attention)(v)
    torch.testing.assert_close(fast, slow)
    way = torch.randn_like(fast)
    torch.testing.assert_close(*(torch.autograd.grad((u * way).sum(), v)[0] for u in (fast, slow)))


def test_the_order_of_points_does_not_matter(attention):
    v, order = torch.randn(1, 8, 6), torch.randperm(8)
    torch.testing.assert_close(attention(v)[:, order], attention(v[:, order]))


@pytest.mark.parametrize("position", [AddCoordinates(), ConcatCoordinates()], ids=["add", "concat"])
def test_refinement_converges_at_the_order_of_the_midpoint_rule(position):
    model = GalerkinSpec(1, 1, hidden_channels=8, n_layers=2, n_heads=2, dim=1, position=position).build()
    for block in model.blocks:  # as in training: the first weights leave attention next to nothing to do
        torch.nn.init.normal_(block.attention.project.weight, std=0.5)

    def output(n):  # 27, 81, ... cell-centred points share those of 27
        x = (torch.arange(n) + 0.5) / n
        factor = n // 27
        return model((torch.sin(3 * x) + x**2)[None, None])[..., factor // 2 :: factor]

    fine = output(27 * 729)
    errors = [(output(n) - fine).norm().item() for n in (27, 81, 243)]
    orders = [math.log(a / b, 3) for a, b in pairwise(errors)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.1)


@pytest.mark.parametrize("position", [AddCoordinates(), ConcatCoordinates()], ids=["add", "concat"])
def test_a_constant_input_knows_where_it_is(position):
    model = galerkin_transformer(1, 1, hidden_channels=8, n_heads=2, position=position)
    y = model(torch.ones(1, 1, 6, 4))
    assert y.std() > 1e-3


def test_add_puts_the_encoding_before_every_block():
    model = galerkin_transformer(1, 1, hidden_channels=8, n_layers=3, n_heads=2, dim=1)
    given: list[torch.Tensor] = []
    made: list[torch.Tensor] = []

    def watch(_, inputs, output):
        given.append(inputs[0])
        made.append(output)

    for block in model.blocks:
        block.register_forward_hook(watch)
    x = torch.randn(1, 1, 5)
    model(x)
    where = model.position(((torch.arange(5) + 0.5) / 5)[None, :, None])
    before = [model.lift(x.mT), *made[:-1]]
    for seen, v in zip(given, before, strict=True):
        torch.testing.assert_close(seen, v + where)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="n_heads=3 does not divide hidden_channels=8"):
        galerkin_transformer(1, 1, hidden_channels=8, n_heads=3)
    with pytest.raises(ValueError, match="dim=0 must be at least 1"):
        galerkin_transformer(1, 1, dim=0)


def test_the_mean_over_many_points_fits_into_half_precision() -> None:
    """A sum of 70,000 products of about one does not."""
    layer = GalerkinAttention(4, n_heads=1).half()
    v = torch.randn(1, 1, 4, dtype=torch.float16).expand(1, 70_000, 4)
    assert layer(v).isfinite().all()
