"""The U-Net operator: one level is the transformer, several are consistent, equivariant and of linear cost."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from mondrian import (
    CrossAttentionTransfer,
    Decomposition,
    FewerPoints,
    GlobalAttention,
    Grid,
    LargerSubdomains,
    LearnedPosition,
    NeighborhoodAttention,
    OperatorTransfer,
    RelativeBias,
    SmoothTransfer,
    TransformerSpec,
    UNetOperator,
    UNetSpec,
    WindowedAttention,
    unet_no,
    vit_no,
)
from mondrian.lattice import Rows
from mondrian.models.unet import regrouped
from mondrian.operators import use_definitions
from mondrian.parallel.streaming import IsolatedSlab
from tests.models.cases import OPERATOR
from tests.unchecked import unchecked

pytestmark = pytest.mark.usefixtures("float64")
TRANSFERS = {"smooth": SmoothTransfer(), "attention": CrossAttentionTransfer(), "operator": OperatorTransfer()}
every_transfer = pytest.mark.parametrize("transfer", TRANSFERS.values(), ids=TRANSFERS)
every_coarsening = pytest.mark.parametrize(
    "coarsening", [LargerSubdomains(), FewerPoints()], ids=["larger subdomains", "fewer points"]
)


def small(*, dim: int = 2, periodic: bool = False, **more) -> UNetOperator:
    """A model with two channels in, three out, whose weights are away from their initial values."""
    settings = {
        "hidden_channels": 8,
        "n_layers": 1,
        "n_heads": 2,
        "subdomains": (4, 8, 4)[:dim],
        "levels": 2,
        "operator": OPERATOR,
        "grid": Grid(extent=(1.0, 1.5, 0.5)[:dim], periodic=(periodic,) * dim),
        "stagger": True,
    } | more
    model = unet_no(2, 3, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


# Limits


@pytest.mark.parametrize("stagger", [False, True], ids=["plain", "staggered"])
@pytest.mark.parametrize(
    "attention",
    [
        GlobalAttention(n_heads=2),
        WindowedAttention(n_heads=2, window=(2, 2), shift=(1, 1)),
        NeighborhoodAttention(n_heads=2, radius=1),
    ],
    ids=["global", "windows", "neighbours"],
)
def test_one_level_is_the_transformer_operator_with_the_same_weights(attention, stagger):
    settings = {"hidden_channels": 8, "n_layers": 3, "subdomains": (4, 6), "operator": OPERATOR, "stagger": stagger}
    positions = (LearnedPosition(), RelativeBias())
    model = UNetSpec(2, 3, attention=attention, positions=positions, levels=1, **settings).build()
    transformer = TransformerSpec(2, 3, attention=attention, positions=positions, **settings).build()
    transformer.load_state_dict(model.state_dict())
    for points in ((8, 12), (9, 13)):
        x = torch.randn(2, 2, *points)
        assert torch.equal(model(x), transformer(x))


@every_transfer
@every_coarsening
def test_levels_that_nothing_comes_back_from_leave_the_transformer_of_all_blocks_of_the_finest(transfer, coarsening):
    model = small(transfer=transfer, coarsening=coarsening, n_layers=2)
    with torch.no_grad():
        model.coarser.merge.both.weight.copy_(torch.cat([torch.eye(8), torch.zeros(8, 8)], dim=1))
        model.coarser.merge.both.bias.zero_()
    spec = model.spec
    fields = {name: getattr(spec, name) for name in ("subdomains", "operator", "attention", "positions", "grid")}
    transformer = TransformerSpec(2, 3, 8, n_layers=4, stagger=True, **fields).build()
    weights = {key: value for key, value in model.state_dict().items() if not key.startswith(("coarser", "after"))}
    weights |= {
        f"blocks.{2 + int(key[6])}{key[7:]}": value
        for key, value in model.state_dict().items()
        if key.startswith("after")
    }
    transformer.load_state_dict(weights)
    x = torch.randn(1, 2, 16, 32)
    torch.testing.assert_close(model(x), transformer(x), rtol=1e-12, atol=1e-12)


def test_regrouped_cells_hold_the_same_function():
    grid = Grid((1.0, 1.0), points=(12, 8))
    fine, coarse = Decomposition(grid, (4, 4)), Decomposition(grid, (2, 2))
    u = torch.randn(2, 3, 12, 8)
    assert torch.equal(regrouped(fine.cut(u), fine, coarse), coarse.cut(u))
    assert torch.equal(regrouped(coarse.cut(u), coarse, fine), fine.cut(u))


# Definitions, dimensions, boundaries


@every_transfer
@every_coarsening
@pytest.mark.parametrize(
    ("dim", "periodic", "points"),
    [(1, True, (16,)), (2, False, (16, 32)), (2, True, (17, 30)), (3, False, (8, 16, 8))],
    ids=["ring", "box", "torus, resampled", "3d"],
)
def test_it_equals_the_model_made_of_plain_definitions(transfer, coarsening, dim, periodic, points):
    model = small(dim=dim, periodic=periodic, transfer=transfer, coarsening=coarsening, widening=2)
    x = torch.randn(1, 2, *points)
    y = model(x)
    assert y.shape == (1, 3, *points)
    torch.testing.assert_close(y, use_definitions(model)(x), rtol=1e-9, atol=1e-9)


@every_transfer
@every_coarsening
def test_every_parameter_gets_a_gradient(transfer, coarsening):
    model = small(transfer=transfer, coarsening=coarsening, levels=3, widening=2)
    model(torch.randn(2, 2, 32, 32)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().amax() > 0, name


@every_transfer
@every_coarsening
def test_gradients_are_those_of_differences(transfer, coarsening):
    model = unet_no(
        1, 1, hidden_channels=2, n_layers=1, n_heads=1, subdomains=(2,), levels=2, operator=OPERATOR,
        transfer=transfer, coarsening=coarsening,
    )  # fmt: skip
    x = torch.randn(1, 1, 8, requires_grad=True)
    assert torch.autograd.gradcheck(model, x)
    weights = dict(model.named_parameters())
    steps = {name: torch.randn_like(weight) for name, weight in weights.items()}

    def along(t: float) -> Tensor:
        moved = {name: weight.detach() + t * steps[name] for name, weight in weights.items()}
        return torch.func.functional_call(model, moved, (x.detach(),)).sin().sum()

    slopes = torch.autograd.grad(model(x).sin().sum(), list(weights.values()))
    expected = sum((slope * step).sum() for slope, step in zip(slopes, steps.values(), strict=True))
    torch.testing.assert_close((along(1e-5) - along(-1e-5)) / 2e-5, expected, rtol=1e-6, atol=1e-7)


@every_transfer
@pytest.mark.parametrize("widening", [1, 2])
def test_it_trains_under_autocast(transfer, widening):
    model = small(transfer=transfer, widening=widening).float()
    x = torch.randn(1, 2, 16, 32, dtype=torch.float32)
    slopes = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            model(x).float().square().mean().backward()
        slopes.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert (slopes[1] - slopes[0]).norm() < 0.1 * slopes[0].norm()


# Refinement


def errors_of_means(model: UNetOperator, points: tuple[int, ...]) -> list[float]:
    """How far the means of the answer over subdomains of a line are from those on a very fine grid, relatively."""

    def means(n: int) -> Tensor:
        grid = Grid((1.0,), points=(4 * n,))
        x = grid.axis(0)
        return model(torch.stack([torch.sin(5 * x), torch.exp(x)])[None], grid).view(3, 4, n).mean(dim=2)

    with torch.no_grad():
        truth = means(1024)
        return [((means(n) - truth).norm() / truth.norm()).item() for n in points]


@pytest.mark.parametrize(
    ("coarsening", "transfer"),
    [
        (FewerPoints(), SmoothTransfer()),
        (FewerPoints(), CrossAttentionTransfer()),
        (FewerPoints(), OperatorTransfer()),
        (LargerSubdomains(), SmoothTransfer()),
        (LargerSubdomains(), CrossAttentionTransfer()),
        (LargerSubdomains(), OperatorTransfer()),
    ],
)
def test_refining_the_points_converges_at_the_order_of_the_quadrature(coarsening, transfer):
    errors = errors_of_means(small(dim=1, transfer=transfer, coarsening=coarsening), (64, 128))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15)
    assert errors[1] < 1e-3


def test_interpolating_across_the_cuts_of_finer_levels_converges_at_first_order():
    """Functions may jump there, inside the larger subdomains."""
    errors = errors_of_means(small(dim=1, transfer=SmoothTransfer(across_cuts=True)), (16, 256))
    assert 0.8 < math.log2(errors[0] / errors[1]) / 4 < 1.6
    assert errors[1] < 1e-3


# Symmetry


@every_transfer
@every_coarsening
@pytest.mark.parametrize("points", [4, 3], ids=["even", "odd"])
def test_on_a_torus_moving_the_input_by_a_coarse_subdomain_moves_the_output(transfer, coarsening, points):
    model = small(periodic=True, transfer=transfer, coarsening=coarsening)
    x = torch.randn(1, 2, 4 * points, 8 * points)
    step = points * (2 if coarsening == LargerSubdomains() else 1)
    moved, y = model(x.roll((step, 3 * step), (2, 3))), model(x).roll((step, 3 * step), (2, 3))
    torch.testing.assert_close(moved, y, rtol=1e-9, atol=1e-9)


def test_half_a_coarse_subdomain_is_too_little():
    model = small(periodic=True)
    x = torch.randn(1, 2, 16, 32)
    assert not torch.allclose(model(x.roll(4, 2)), model(x).roll(4, 2), atol=1e-3)


@every_transfer
def test_a_torus_twice_as_long_with_the_same_field_twice_gives_the_same_answer_twice(transfer):
    model = small(periodic=True, transfer=transfer, subdomains=(), subdomain_size=(0.25, 0.1875), positions=())
    x = torch.randn(1, 2, 12, 16)
    long = Grid((2.0, 1.5), periodic=(True, True))
    torch.testing.assert_close(model(x.repeat(1, 1, 2, 1), long), model(x).repeat(1, 1, 2, 1), rtol=1e-9, atol=1e-9)


def test_what_happens_far_away_arrives_by_the_coarser_levels():
    x = torch.randn(1, 2, 64)
    changed = x.clone()
    changed[..., -1] += 1
    for levels, arrives in ((1, False), (3, True)):
        model = small(dim=1, subdomains=(16,), levels=levels, stagger=False, radius=1)
        change = (model(changed) - model(x)).abs().amax(dim=1)[0, :4].amax()
        assert bool(change > 1e-9) == arrives


# Cost


def flops(model: torch.nn.Module, points: tuple[int, ...]) -> int:
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.float()(torch.zeros(1, 2, *points, dtype=torch.float32))
    return counter.get_total_flops()


def scores(model: torch.nn.Module, points: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> int:
    """Entries of all score matrices between subdomains."""
    counted, attend = [], torch.nn.functional.scaled_dot_product_attention

    def counting(q: Tensor, k: Tensor, v: Tensor, **more) -> Tensor:
        counted.append(math.prod(q.shape[:-1]) * k.shape[-2])
        return attend(q, k, v, **more)

    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", counting)
        model(torch.zeros(1, 2, *points))
    return sum(counted)


@pytest.mark.parametrize(
    "attention",
    [NeighborhoodAttention(n_heads=2, radius=1), WindowedAttention(n_heads=2, window=(4, 4), shift=(2, 2))],
    ids=["neighbours", "windows"],
)
def test_the_number_of_scores_is_linear_in_the_number_of_subdomains(attention, monkeypatch):
    """16, 32, 64 subdomains an axis and a level more each time: the coarsest one is always 4 x 4."""
    counts = {}
    for n, levels in ((16, 3), (32, 4), (64, 5)):
        spec = replace(small(subdomains=(n, n), levels=levels, stagger=False).spec, attention=attention)
        counts[n] = scores(spec.build(), (n, n), monkeypatch)
    whole = {
        n: scores(
            vit_no(2, 3, hidden_channels=8, n_layers=1, n_heads=2, subdomains=(n, n), operator=OPERATOR),
            (n, n),
            monkeypatch,
        )
        for n in (16, 32)
    }
    assert whole[32] == 16 * whole[16]
    # all levels together, without the constant one: (32^2 + 16^2 + 8^2) / (16^2 + 8^2) = 4.2, then 4.05
    assert counts[32] < 4.21 * counts[16]
    assert counts[64] < 4.1 * counts[32]


@every_transfer
def test_the_work_is_linear_in_the_number_of_subdomains(transfer):
    work = {
        n: flops(small(subdomains=(n, n), levels=levels, transfer=transfer, stagger=False), (2 * n, 2 * n))
        for n, levels in ((16, 3), (32, 4))
    }
    assert work[32] < 4.2 * work[16]


# Levels


def test_the_levels_are_those_of_the_spec():
    patterns = (NeighborhoodAttention(n_heads=2, radius=2), WindowedAttention(n_heads=2, window=(2, 2), shift=(1, 1)))
    model = small(subdomains=(8, 8), levels=3, coarse_attention=patterns, widening=2, n_layers=2)
    one, two = model.coarser, model.coarser.coarser
    assert two.coarser is None
    assert [len(stack) for stack in (model.blocks, model.after, one.blocks, one.after, two.blocks)] == [2] * 5
    assert [block.attention.spec.shift for block in two.blocks] == [(0, 0), (1, 1)]
    assert [stack[0].attention_norm.num_channels for stack in (model.blocks, one.blocks, two.blocks)] == [8, 16, 32]
    assert model.spec.attentions == (model.spec.attention, *patterns)
    assert model(torch.randn(1, 2, 16, 16)).shape == (1, 3, 16, 16)


def test_a_single_block_a_stage_is_staggered_on_the_way_up():
    model = small()
    stacks = (model.blocks, model.after, model.coarser.blocks)
    assert [[block.stagger for block in stack] for stack in stacks] == [[False], [True], [False]]


@pytest.mark.parametrize(("coarsening", "points"), [(LargerSubdomains(), (5, 3)), (FewerPoints(), (8, 4))])
def test_fewer_points_ask_for_as_many_as_can_be_halved(coarsening, points):
    spec = small(coarsening=coarsening, levels=3).spec
    assert spec.decompose(Grid((1.0, 1.5), points=(20, 24))).cell_points == points


@pytest.mark.parametrize(("coarsening", "parts"), [(LargerSubdomains(), (2, 3)), (FewerPoints(), (4, 6))])
def test_spatial_heads_fit_on_every_level(coarsening, parts):
    model = small(levels=2, coarsening=coarsening, spatial_heads=(2, 3))
    assert model.spec.parts == parts
    assert model(torch.randn(1, 2, 16, 16)).shape == (1, 3, 16, 16)


def test_fixed_reference_points_carry_details_round_all_levels():
    model = small(cell_points=(2, 2))
    torch.nn.init.normal_(model.detail.out.weight)
    smooth = torch.randn(1, 2, 8, 16).repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    ripple = torch.tensor([1.0, -1.0]).repeat(8)[:, None] * torch.tensor([1.0, -1.0]).repeat(16)
    answer, rippled = model(smooth), model(smooth + ripple)
    assert (rippled - answer).abs().max() > 0.1 * answer.abs().max()
    model.detail.out.weight.data.zero_()
    torch.testing.assert_close(model(smooth + ripple), model(smooth))


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"levels": 0}, "levels=0 must be at least 1"),
        ({"levels": 2.5}, "levels=2.5; needed int"),
        ({"widening": 0}, "widening=0 must be at least 1"),
        ({"subdomains": (4, 6), "levels": 3}, r"subdomains=\(2, 3\) cannot be halved for a coarser level"),
        ({"subdomains": (), "subdomain_size": (0.25, 0.25), "levels": 3}, r"subdomains=\(2, 3\) cannot be halved"),
        ({"coarse_attention": (GlobalAttention(), GlobalAttention())}, "has 2 patterns; needed 1, one for each"),
        (
            {"coarse_attention": (GlobalAttention(spatial_heads=(2,)),), "cell_points": (4, 4)},
            r"spatial_heads=\(2,\) must have 2 entries",
        ),
        ({"coarse_attention": (NeighborhoodAttention(radius=4),)}, r"radius=4 is too large for \(2, 4\)"),
        ({"coarse_attention": (WindowedAttention(window=(3, 2)),)}, r"window=\(3, 2\) is larger than the \(2, 4\)"),
        (
            {"cell_points": (6, 4), "coarsening": FewerPoints(), "levels": 3},
            r"cell_points=\(6, 4\) must be multiples of \(4, 4\)",
        ),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        small(**settings)


def test_a_box_whose_subdomains_cannot_be_halved_is_refused():
    model = small(subdomains=(), subdomain_size=(0.25, 0.1875))
    with pytest.raises(ValueError, match=r"subdomains=\(5, 8\) cannot be halved for a coarser level; needed even"):
        model(torch.randn(1, 2, 20, 16), Grid((1.25, 1.5)))


def test_a_part_of_a_box_is_refused_unless_there_is_one_level():
    whole = Decomposition(Grid((1.0,), points=(16,)), (4,))
    slab = IsolatedSlab(whole, Rows(whole.lattice, 0, 2))
    x = torch.randn(1, 2, 8)
    with pytest.raises(ValueError, match="slab=IsolatedSlab has no coarser levels; needed levels=1"):
        small(dim=1)(x, slab=slab)
    assert small(dim=1, levels=1)(x, slab=slab).shape == (1, 3, 8)
