"""The attention layer: functions in, functions out."""

import math
from dataclasses import replace

import pytest
import torch

from mondrian import (
    EndCorrected,
    Gaze,
    GlobalAttention,
    Midpoint,
    Mixture,
    NeighborhoodAttention,
    RelativeBias,
    Rotary,
    SeparableMixture,
    WindowedAttention,
)
from mondrian.attention import FunctionAttention
from mondrian.decomposition import Lattice, cut, join
from mondrian.operators import use_definitions
from mondrian.quadrature import Cell

pytestmark = pytest.mark.usefixtures("float64")
OPERATOR = SeparableMixture(terms=4, skip=True)
SQUARE, TORUS = Lattice((4, 4), (False, False)), Lattice((4, 4), (True, True))


def layer(spec=None, channels=8, lattice=SQUARE, **more):
    return FunctionAttention(channels, spec or GlobalAttention(n_heads=2), OPERATOR, dim=len(lattice.counts), **more)


@pytest.mark.parametrize("rule", [Midpoint(), EndCorrected(terms=1)])
@pytest.mark.parametrize("spatial_heads", [(), (1, 1)])
def test_it_is_softmax_attention_with_the_inner_product_of_functions(rule, spatial_heads):
    built = layer(GlobalAttention(n_heads=2, spatial_heads=spatial_heads))
    cell = Cell.build((4, 3), rule)
    u = torch.randn(1, 16, 8, 12)
    q, k, v = built.project(u, cell)[0].chunk(3, dim=1)  # cell channel point
    mixed = torch.zeros(16, 8, 12)
    for head in range(2):
        channels = slice(4 * head, 4 * head + 4)
        score = torch.zeros(16, 16)
        for i in range(16):
            for j in range(16):
                inner = (q[i, channels] * k[j, channels] * cell.weights).sum()  # the integral of q . k over the cell
                score[i, j] = inner / math.sqrt(4)
        mixed[:, channels] = torch.einsum("ij,jcp->icp", score.softmax(dim=1), v[:, channels])
    torch.testing.assert_close(built(u, cell, SQUARE), built.out(mixed[None], cell))


def test_refining_the_cells_converges_at_the_order_of_the_quadrature():
    line = Lattice((3,), (False,))
    for rule, slack in ((Midpoint(), 0.1), (EndCorrected(terms=1), 0.6)):
        built = layer(lattice=line)

        def mean_output(n, rule=rule, built=built):
            cell = Cell.build((n,), rule)
            x = cell.coordinates[:, 0]
            parts = [torch.sin((c + 1) * x + cell_number) for cell_number in range(3) for c in range(8)]
            return (built(torch.stack(parts).view(1, 3, 8, n), cell, line) * cell.weights).sum(dim=-1)

        truth = mean_output(1024)
        errors = [(mean_output(n) - truth).norm().item() for n in (16, 32, 64)]
        assert math.log2(errors[1] / errors[2]) == pytest.approx(rule.order, abs=slack)


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize("rule", [Midpoint(), EndCorrected(terms=1)])
@pytest.mark.parametrize("lattice", [SQUARE, TORUS], ids=["square", "torus"])
@pytest.mark.parametrize(
    "pattern",
    [
        GlobalAttention(),
        WindowedAttention(window=(2, 4), shift=(1, 2)),
        NeighborhoodAttention(radius=1),
        NeighborhoodAttention(radius=1, zero_far=True),
    ],
    ids=["global", "windowed", "neighbourhood", "zero rule"],
)
def test_a_spatial_head_is_attention_between_one_part_of_each_cell(n_heads, rule, lattice, pattern):
    built = layer(replace(pattern, n_heads=n_heads, spatial_heads=(2, 1)), lattice=lattice)
    cell, half = Cell.build((6, 3), rule), Cell.build((3, 3), rule)
    u = torch.randn(1, 16, 8, 18)
    q, k, v = (part.view(16, 8, 6, 3) for part in built.project(u, cell)[0].chunk(3, dim=1))
    mixed, hidden = torch.zeros(16, 8, 6, 3), ~pattern.sees(lattice)
    for head in range(n_heads):
        channels = slice(8 // n_heads * head, 8 // n_heads * (head + 1))
        for rows in (slice(0, 3), slice(3, 6)):
            qi, kj, vj = (part[:, channels, rows] for part in (q, k, v))
            score = torch.einsum("icxy,jcxy,xy->ij", qi, kj, half.weights.view(3, 3)) / math.sqrt(8 / n_heads)
            score[hidden] = 0.0 if getattr(pattern, "zero_far", False) else -torch.inf
            mixed[:, channels, rows] = torch.einsum("ij,jcxy->icxy", score.softmax(dim=1), vj)
    torch.testing.assert_close(built(u, cell, lattice), built.out(mixed.view(1, 16, 8, 18), cell))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_splitting_into_heads_loses_nothing(dim):
    lattice = Lattice((2,) * dim, (False,) * dim)
    built = layer(GlobalAttention(n_heads=2, spatial_heads=(2, 3, 1)[:dim]), lattice=lattice)
    cell = Cell.build((4, 6, 3)[:dim], Midpoint())
    u = torch.randn(2, lattice.size, 8, cell.size)
    torch.testing.assert_close(built._merge(built._heads(u, cell), u, cell), u, rtol=0, atol=0)


@pytest.mark.parametrize(
    "spec",
    [
        GlobalAttention(n_heads=2),
        WindowedAttention(n_heads=2, window=(2, 2), shift=(1, 1)),
        NeighborhoodAttention(n_heads=2, radius=1),
        NeighborhoodAttention(n_heads=2, radius=1, zero_far=True),
        GlobalAttention(n_heads=2, spatial_heads=(2, 2)),
    ],
)
@pytest.mark.parametrize("lattice", [SQUARE, TORUS], ids=["square", "torus"])
@pytest.mark.parametrize(
    "positions", [(), (RelativeBias(),), (Gaze(),), (Rotary(),), (RelativeBias(hidden=5), Rotary(base=20.0))]
)
def test_it_equals_its_plain_definition_with_gradients_to_every_parameter(spec, positions, lattice):
    built = layer(spec, positions=positions, lattice=lattice)
    cell = Cell.build((4, 4), Midpoint())
    u = torch.randn(2, 16, 8, 16)
    fast = built(u, cell, lattice)
    fast.square().sum().backward()
    slopes = {name: parameter.grad.clone() for name, parameter in built.named_parameters()}
    assert all(slope.abs().amax() > 0 for slope in slopes.values())
    use_definitions(built).zero_grad()
    plain = built(u, cell, lattice)
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)
    plain.square().sum().backward()
    for name, parameter in built.named_parameters():
        torch.testing.assert_close(slopes[name], parameter.grad, rtol=1e-8, atol=1e-8)


def test_attention_may_use_another_operator_than_the_feed_forward():
    built = layer(GlobalAttention(n_heads=2, operator=Mixture(terms=3)))
    assert type(built.project).__name__ == "MixtureOperator"


def test_attention_costs_no_position_when_cells_are_relabelled():
    built = layer()
    cell = Cell.build((4, 4), Midpoint())
    u = torch.randn(1, 16, 8, 16)
    order = torch.randperm(16)
    torch.testing.assert_close(built(u[:, order], cell, SQUARE), built(u, cell, SQUARE)[:, order])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: layer(GlobalAttention(n_heads=3)), "n_heads=3 does not divide hidden_channels=8"),
        (lambda: layer(GlobalAttention(spatial_heads=(2,))), r"spatial_heads=\(2,\) must have 2 entries"),
        (lambda: layer(positions=(Rotary(), Rotary())), "has several biases or rotations"),
    ],
)
def test_settings_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_spatial_heads_that_do_not_divide_the_points_are_refused():
    built = layer(GlobalAttention(n_heads=2, spatial_heads=(2, 2)))
    with pytest.raises(ValueError, match=r"parts=\(2, 2\) must divide the \(3, 4\) points of a cell"):
        built(torch.randn(1, 16, 8, 12), Cell.build((3, 4), Midpoint()), SQUARE)


def test_cut_and_join_frame_the_layer_without_loss():
    u = torch.randn(2, 3, 8, 12)
    assert torch.equal(join(cut(u, (4, 4)), (4, 4), (2, 3)), u)
