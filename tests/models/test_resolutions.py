"""Any resolution: grids that the cuts do not divide, vertices, other points for the answer, fixed reference points."""

import math
from dataclasses import replace

import pytest
import torch

from mondrian import Decomposition, GlobalAttention, Grid, TransformerSpec, vit_no
from mondrian.models.baselines import ffno
from mondrian.operators import use_definitions
from mondrian.resampling import resample
from mondrian.surrogate import Scale, SurrogateSpec
from tests.models.cases import ALL_KINDS, KINDS, OPERATOR, small
from tests.pairs import every_pair

pytestmark = pytest.mark.usefixtures("float64")
every_kind = pytest.mark.parametrize("kind", ALL_KINDS)
staggered_or_not = pytest.mark.parametrize("stagger", [False, True], ids=["plain", "staggered"])


def waves(grid: Grid) -> torch.Tensor:
    """Two smooth channels that are periodic on the unit box."""
    x = 2 * torch.pi * grid.coordinates()
    return torch.stack([torch.sin(x).sum(dim=0), torch.exp(torch.cos(x).sum(dim=0) / len(x))])[None]


@every_pair(kind=ALL_KINDS, stagger=[False, True], dim=[1, 2, 3], periodic=[False, True])
def test_odd_resolutions_equal_the_model_made_of_plain_definitions(kind, stagger, dim, periodic):
    model = small(kind, dim=dim, periodic=periodic, stagger=stagger)
    x = torch.randn(2, 2, *(9, 13, 5)[:dim])
    y = model(x)
    assert y.shape == (2, 3, *x.shape[2:])
    torch.testing.assert_close(y, use_definitions(model)(x), rtol=1e-9, atol=1e-9)


@every_kind
@staggered_or_not
def test_where_the_cuts_divide_the_grid_nothing_is_resampled(kind, stagger):
    model = small(kind, stagger=stagger)
    x = torch.randn(2, 2, 16, 24)
    grid = model.spec.default_grid.with_points((16, 24))
    assert torch.equal(model(x), model(x, slab=Decomposition(grid, (4, 6))))


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        (Grid((1.0, 1.0), points=(85, 64)), (11, 8)),
        (Grid((1.0, 1.0), points=(85, 65), ends=(2, 2)), (11, 8)),
        (Grid((1.0, 1.0), points=(64, 65), periodic=(True, True), ends=(1, 2)), (8, 8)),
        (Grid((1.0, 1.0), points=(5, 9)), (1, 2)),
    ],
)
def test_reference_points_are_the_fewest_no_further_apart_than_those_of_the_grid(grid, expected):
    spec = vit_no(1, 1, hidden_channels=8, subdomains=(8, 8)).spec
    decomposition = spec.decompose(grid)
    assert decomposition.cell_points == expected
    assert decomposition.grid == replace(grid, points=tuple(8 * n for n in expected), ends=())
    pairs = list(zip(decomposition.grid.spacing, grid.spacing, strict=True))
    assert all(inner <= outer for inner, outer in pairs)
    assert all(n == 1 or inner * n / (n - 1) > outer for (inner, outer), n in zip(pairs, expected, strict=True))


def test_spatial_heads_take_any_resolution():
    attention = GlobalAttention(n_heads=2, spatial_heads=(2, 3))
    model = TransformerSpec(2, 3, 8, 1, subdomains=(4, 2), operator=OPERATOR, attention=attention).build()
    assert model.spec.decompose(Grid((1.0, 1.0), points=(13, 14))).cell_points == (4, 9)
    assert model(torch.randn(1, 2, 13, 14)).shape == (1, 3, 13, 14)


@pytest.mark.parametrize("kind", KINDS)  # for the orders of a U-Net see its own tests
@pytest.mark.parametrize("ends", [0, 2], ids=["cells", "vertices"])
def test_odd_grids_converge_to_the_function_that_even_ones_converge_to(kind, ends):
    model = small(kind, dim=1, relative=True)
    out = Grid((1.0,), points=(41,), ends=(2,))
    # at the cuts the answer of weights that learned nothing jumps: what stands there is the mean of both sides
    inside = (4 * out.axis(0) % 1 - 0.5).abs() < 0.2

    def answer(n, end):
        grid = Grid((1.0,), points=(n,), ends=(end,))
        return model(waves(grid), grid, out)[..., inside]

    truth = answer(2048, 0)
    errors = [(answer(n, ends) - truth).norm().item() for n in (37, 73, 145)]
    assert errors[2] < 2e-3 * truth.norm()
    assert math.log2(errors[0] / errors[2]) > 2 * 1.6


@every_kind
@staggered_or_not
def test_on_a_torus_moving_the_input_by_subdomains_moves_the_output(kind, stagger):
    model = small(kind, periodic=True, relative=True, stagger=stagger)  # 4 x 6 subdomains
    x = torch.randn(1, 2, 10, 15)  # two subdomains are five points
    step = (5, 10) if kind == "swin" else (5, 5)
    torch.testing.assert_close(model(x.roll(step, (2, 3))), model(x).roll(step, (2, 3)), rtol=1e-9, atol=1e-9)


def test_an_end_that_repeats_the_start_changes_nothing_else():
    model = small("nbr", dim=1, periodic=True)
    once, twice = (Grid((1.0,), periodic=(True,), ends=(n,)) for n in (1, 2))
    x = torch.randn(1, 2, 13)
    closed = torch.cat([x, x[..., :1]], dim=-1)
    y, z = model(x, once), model(closed, twice)
    torch.testing.assert_close(z[..., :-1], y)
    torch.testing.assert_close(z[..., -1], y[..., 0])


@every_kind
def test_the_answer_can_be_asked_for_at_other_points(kind):
    model = small(kind)
    x = torch.randn(2, 2, 8, 12)
    grid = model.spec.default_grid.with_points((8, 12))
    y = model(x)
    assert torch.equal(model(x, grid, grid), y)
    for out in (grid.with_points((17, 31)), replace(grid, points=(9, 13), ends=(2, 2)), grid.with_points((4, 3))):
        answer = model(x, out_grid=out)
        assert answer.shape == (2, 3, *out.points)
        torch.testing.assert_close(answer, resample(y, grid, out))
    part = Grid((0.5, 0.25), points=(6, 5), origin=(0.25, 1.0))
    torch.testing.assert_close(model(x, out_grid=part), resample(y, grid, part))


def test_what_the_answer_cannot_be_asked_for_is_refused():
    model, x = small("vit"), torch.randn(1, 2, 8, 12)
    for out, message in [
        (Grid((1.0, 1.5)), "and no points"),
        (Grid((2.0, 1.5), points=(4, 4)), r"reaches from 0.0 to 2.0 along axis 0; needed to stay within the source"),
        (Grid((1.0,), points=(4,)), "target has 1 axes"),
    ]:
        with pytest.raises(ValueError, match=message):
            model(x, out_grid=out)
    with pytest.raises(ValueError, match=r"grid has 1 axes; the subdomains have 2"):
        model.spec.decompose(Grid((1.0,), points=(8,)))


def test_a_surrogate_of_any_model_answers_at_other_points():
    out = Grid((1.0, 1.0), points=(9, 11), ends=(2, 2))
    x = torch.randn(2, 2, 7, 10)
    for model in (vit_no(2, 1, hidden_channels=8, n_layers=1, subdomains=(4, 2)), ffno(2, 1, hidden_channels=4, n_layers=1, modes=(2, 2))):  # fmt: skip # noqa: E501
        scales = (Scale(0.5, 2.0), Scale(-1.0, 0.5))
        net = SurrogateSpec(model.spec, ("u[0]", "v"), ("u[1]",), scales, (Scale(1.0, 3.0),)).build()
        net.model.load_state_dict(model.state_dict())
        scaled = torch.cat([(x[:, :1] - 0.5) / 2, (x[:, 1:] + 1) / 0.5], dim=1)
        if isinstance(model.spec, TransformerSpec):
            expected = model(scaled, None, out)
        else:
            expected = resample(model(scaled), Grid((1.0, 1.0), points=(7, 10)), out)
        torch.testing.assert_close(net(x, None, out), 1 + 3 * expected)


def test_baselines_take_cell_centred_points_only():
    with pytest.raises(ValueError, match=r"grid has ends=\(2, 0\); baselines take cell-centred points"):
        ffno(1, 1, hidden_channels=4, modes=(2, 2))(torch.zeros(1, 1, 8, 8), Grid((1.0, 1.0), ends=(2, 0)))


@every_kind
@staggered_or_not
def test_fixed_reference_points_at_their_own_resolution_are_the_plain_model(kind, stagger):
    fixed = small(kind, stagger=stagger, cell_points=(4, 2))  # its map of details is away from zero too
    plain = small(kind, stagger=stagger)
    plain.load_state_dict({name: w for name, w in fixed.state_dict().items() if not name.startswith("detail")})
    x = torch.randn(2, 2, 16, 12)
    assert torch.equal(fixed(x), plain(x))


@pytest.mark.parametrize("points", [(8, 12), (16, 18), (85, 33), (128, 96)])
def test_the_blocks_see_the_same_points_at_every_resolution(points):
    model = small("vit", cell_points=(4, 4))
    seen = []
    for block in model.blocks:
        block.attention.project.register_forward_pre_hook(lambda module, given: seen.append(given[0].shape))
    assert model(torch.randn(1, 2, *points)).shape == (1, 3, *points)
    assert seen == [(1, 24, 16, 16)] * 2


def test_detail_goes_round_the_blocks_and_through_a_map_that_is_linear_in_it():
    model = small("vit", cell_points=(2, 2))  # 8 x 12 reference points
    grid = model.spec.default_grid.with_points((16, 24))
    smooth = resample(torch.randn(1, 2, 8, 12), grid.with_points((8, 12)), grid)
    row = torch.tensor([1.0, -1.0]).repeat(12)
    detail = torch.randn(1, 2, 1, 1) * row * torch.tensor([1.0, -1.0]).repeat(8)[:, None]  # no mean over any block

    def change(factor):
        return model(smooth + factor * detail) - model(smooth)

    assert change(1.0).abs().amax() > 1e-3
    torch.testing.assert_close(change(-2.0), -2 * change(1.0))
    with torch.no_grad():
        model.detail.out.weight.zero_()
    torch.testing.assert_close(change(1.0), torch.zeros(1, 3, 16, 24))


def test_a_new_map_of_details_changes_nothing_and_learns():
    model = vit_no(2, 1, hidden_channels=8, n_layers=1, subdomains=(2, 2), operator=OPERATOR, cell_points=(2, 2))
    x, y = torch.randn(4, 2, 16, 16), torch.randn(4, 1, 16, 16)
    without = replace(model.spec, cell_points=(2, 2)).build()
    without.load_state_dict(model.state_dict())
    without.detail = None
    assert torch.equal(model(x), without(x))
    optimiser = torch.optim.SGD(model.detail.parameters(), lr=0.5)
    losses = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(parameter.grad.abs().amax() > 0 for parameter in model.detail.parameters())


def test_details_follow_the_answer_to_other_points():
    model = small("vit", dim=1, cell_points=(2,))
    grid = model.spec.default_grid.with_points((256,))
    x = waves(grid)
    fine = grid.with_points((512,))
    y = model(x, out_grid=fine)
    torch.testing.assert_close(resample(y, fine, grid), model(x), rtol=0, atol=0.05 * y.abs().amax().item())


@pytest.mark.parametrize("points", [(4,), (0, 4), (4, 4, 4)])
def test_reference_points_that_are_none_are_refused(points):
    with pytest.raises(ValueError, match=r"cell_points=.* must hold 2 numbers of at least 1"):
        vit_no(1, 1, subdomains=(2, 2), cell_points=points)


def test_spatial_heads_of_another_dimension_are_refused():
    with pytest.raises(ValueError, match=r"spatial_heads=\(2,\) must have 2 entries"):
        vit_no(1, 1, subdomains=(2, 2), cell_points=(2, 2), spatial_heads=(2,))


def test_reference_points_that_spatial_heads_do_not_divide_are_refused():
    with pytest.raises(ValueError, match=r"cell_points=\(4, 3\) must be multiples of \(2, 2\)"):
        vit_no(1, 1, subdomains=(2, 2), cell_points=(4, 3), spatial_heads=(2, 2))
