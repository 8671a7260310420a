"""The transformer operator: symmetries, resolutions, domains, and what it refuses."""

import copy
import math
from itertools import product

import pytest
import torch

from mondrian import (
    EndCorrected,
    Gaze,
    GlobalAttention,
    Grid,
    LearnedPosition,
    NeighborhoodAttention,
    RelativeBias,
    Rotary,
    TransformerSpec,
    WindowedAttention,
    nbr_no,
    swin_no,
    unet_no,
    vit_no,
)
from mondrian.attention import CoordinatePosition
from mondrian.models.fields import check_match
from mondrian.operators import use_definitions
from mondrian.operators.ridge_operator import RidgeOperator
from mondrian.prediction import Predictor
from tests.models.cases import ALL_KINDS, KINDS, OPERATOR, small, transposed
from tests.operators.cases import SPECS
from tests.pairs import every_pair

pytestmark = pytest.mark.usefixtures("float64")
every_kind = pytest.mark.parametrize("kind", ALL_KINDS)
staggered_or_not = pytest.mark.parametrize("stagger", [False, True], ids=["plain", "staggered"])


@every_pair(kind=ALL_KINDS, moved=product([False, True], [False, True], [2, 3]), dim=[1, 2, 3])
def test_it_equals_the_model_made_of_plain_definitions(kind, moved, dim):
    stagger, periodic, points = moved  # in all combinations: what is mirrored depends on all three
    model = small(kind, dim=dim, periodic=periodic, stagger=stagger)
    x = torch.randn(2, 2, *(points * n for n in model.spec.subdomains))
    fast = model(x)
    assert fast.shape == (2, 3, *x.shape[2:])
    torch.testing.assert_close(fast, use_definitions(model)(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("operator", SPECS)
def test_with_every_operator_it_equals_its_plain_twin_and_so_do_all_gradients(operator):
    model = small("vit", operator=SPECS[operator], stagger=True, relative=True, n_layers=2, subdomains=(2, 3))
    for module in model.modules():
        if isinstance(module, RidgeOperator):
            module.terms.tolerance = 1e-11
    x = torch.randn(1, 2, 8, 12)
    results = []
    for twin in (model, use_definitions(copy.deepcopy(model))):
        u = twin(x)
        results.append([u, *torch.autograd.grad(u.sin().sum(), list(twin.parameters()))])
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-8, atol=1e-8 * plain.abs().amax().item() + 1e-12)


@every_kind
@staggered_or_not
@pytest.mark.parametrize("points", [4, 3], ids=["even", "odd"])
def test_on_a_torus_moving_the_input_by_a_subdomain_moves_the_output(kind, stagger, points):
    model = small(kind, periodic=True, relative=True, stagger=stagger)
    x = torch.randn(1, 2, 4 * points, 6 * points)
    # windows and larger subdomains are places of their own: there these are the step
    step = [points * 2, points * 4] if kind in ("swin", "unet") else [points, points * 5]
    torch.testing.assert_close(model(x.roll(step, (2, 3))), model(x).roll(step, (2, 3)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", ["vit", "nbr"])
def test_an_absolute_position_breaks_that_symmetry(kind):
    model = small(kind, periodic=True)
    x = torch.randn(1, 2, 8, 12)
    assert not torch.allclose(model(x.roll(2, 2)), model(x).roll(2, 2), atol=1e-3)


@pytest.mark.parametrize("kind", ["vit", "nbr"])
def test_staggering_on_a_torus_of_even_cells_is_the_block_between_two_half_shifts(kind):
    model = small(kind, periodic=True, relative=True, stagger=True, n_layers=2)
    plain = small(kind, periodic=True, relative=True, n_layers=2)
    plain.load_state_dict(model.state_dict())
    x = torch.randn(1, 2, 16, 24)
    # with the first block, lift and projection pointwise and idle, only the second block is left
    for built in (model, plain):
        for parameter in built.blocks[0].parameters():
            parameter.data.zero_()
        for part in (built.lift, built.projection):
            for operator in (part.first, part.second):
                operator.diagonals.data.zero_()
    shifted = model(x.roll((2, 2), (2, 3))).roll((-2, -2), (2, 3))
    torch.testing.assert_close(shifted, plain(x), rtol=1e-9, atol=1e-9)


@every_pair(kind=ALL_KINDS, stagger=[False, True], periodic=[False, True], points=[(4, 2), (3, 5)])
def test_a_transposed_model_gives_the_transposed_output(kind, stagger, periodic, points):
    more = {"hidden_channels": 16, "n_layers": 2, "n_heads": 2, "operator": OPERATOR, "stagger": stagger}
    rings = (periodic, False)
    shapes = {"vit": {}, "swin": {"window": (2, 3), "shift": (1, 2)}, "nbr": {"radius": 1}, "unet": {"levels": 2}}[kind]
    make = {"vit": vit_no, "swin": swin_no, "nbr": nbr_no, "unet": unet_no}[kind]
    learned = LearnedPosition(tile=(2, 3) if kind == "swin" else ())
    flipped = LearnedPosition(tile=(3, 2) if kind == "swin" else ())
    model = make(
        2,
        3,
        subdomains=(4, 6),
        grid=Grid((2.0, 1.0), periodic=rings),
        positions=(learned, RelativeBias()),
        **shapes,
        **more,
    )
    other_shapes = {name: value if isinstance(value, int) else value[::-1] for name, value in shapes.items()}
    other = make(
        2, 3, subdomains=(6, 4), grid=Grid((1.0, 2.0), periodic=rings[::-1]), positions=(flipped, RelativeBias()),
        **other_shapes, **more,
    )  # fmt: skip
    transposed(other, model)
    x = torch.randn(1, 2, 4 * points[0], 6 * points[1])
    torch.testing.assert_close(other(x.mT), model(x).mT, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)  # for the orders of a U-Net see its own tests
@staggered_or_not
def test_refining_the_grid_converges_at_second_order(kind, stagger):
    model = small(kind, dim=1, periodic=False, stagger=stagger, relative=True)

    def means(n):
        grid = Grid((1.0,), points=(4 * n,))
        x = grid.coordinates(dtype=torch.float64)[0]
        u = model(torch.stack([torch.sin(5 * x), torch.exp(x)])[None], grid)
        return u.view(3, 4, n).mean(dim=2)

    truth = means(512)
    errors = [(means(n) - truth).norm().item() for n in (16, 32, 64)]
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2.0, abs=0.15)
    assert errors[2] < 1e-3 * truth.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_of_fourth_order_makes_a_model_of_fourth_order(kind):
    model = small(kind, dim=1, relative=True, quadrature=EndCorrected(terms=1))
    for module in model.modules():
        if isinstance(module, RidgeOperator):
            module.terms.tolerance = 1e-12

    def values(n):
        grid = Grid((1.0,), points=(4 * n,))
        x = grid.coordinates(dtype=torch.float64)[0]
        u = model(torch.stack([torch.sin(5 * x), torch.exp(x)])[None], grid)
        return u.view(3, 4, n)[..., n // 6 :: n // 3]  # points that all of these grids have

    truth = values(729)
    errors = [(values(n) - truth).norm().item() for n in (9, 27, 81)]
    assert math.log(errors[1] / errors[2], 3) == pytest.approx(4.0, abs=0.6)
    assert errors[2] < 1e-6 * truth.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_plane_the_function_itself_converges_at_second_order(kind):
    model = small(kind, relative=True, subdomains=(2, 2))

    def values(n):
        grid = Grid((1.0, 1.5), points=(2 * n, 2 * n))
        x, y = grid.coordinates(dtype=torch.float64)
        u = model(torch.stack([torch.sin(3 * x + y), torch.exp(x * y)])[None], grid)
        return u[..., n // 6 :: n // 3, n // 6 :: n // 3]

    truth = values(81)
    errors = [(values(n) - truth).norm().item() for n in (3, 9, 27)]
    # the truth has an error too, a ninth of the last one's
    assert math.log(errors[0] / errors[1], 3) == pytest.approx(2.0, abs=0.4)
    assert math.log(errors[1] / errors[2], 3) == pytest.approx(2.0, abs=0.25)


def test_staggered_odd_cells_converge_to_what_the_even_ones_do():
    model = small("vit", dim=1, stagger=True)

    def middle(n):
        grid = Grid((1.0,), points=(4 * n,))
        x = grid.coordinates(dtype=torch.float64)[0]
        u = model(torch.stack([torch.sin(5 * x), torch.exp(x)])[None], grid)
        return u.view(3, 4, n).mean(dim=2)

    truth = middle(512)
    differences = [(middle(n) - truth).norm().item() for n in (17, 33, 65)]
    assert differences[2] < 1e-2 * truth.norm()
    # the cuts lie half a spacing from where they would be: an error of first order, and no more
    assert math.log2(differences[0] / differences[2]) == pytest.approx(math.log2(65 / 17), abs=0.4)


def test_staggering_lets_a_block_see_across_an_interface():
    for stagger, sees in ((False, False), (True, True)):
        model = small("nbr", dim=1, stagger=stagger, positions=(), subdomains=(4,))
        for block in model.blocks:  # attention off: only the subdomain operators are left
            for parameter in block.attention.out.parameters():
                parameter.data.zero_()
        x = torch.randn(1, 2, 32)
        changed = x.clone()
        changed[..., 8] += 1  # the first point of the second cell
        moved = (model(changed) - model(x)).abs().amax(dim=1)[0, :8].amax()
        assert bool(moved > 1e-6) == sees


def test_staggering_does_not_join_opposite_sides_of_a_box():
    for periodic, meet in ((False, False), (True, True)):
        model = small("nbr", dim=1, periodic=periodic, stagger=True, positions=(), subdomains=(4,))
        for block in model.blocks:
            for parameter in block.attention.out.parameters():
                parameter.data.zero_()
        x = torch.randn(1, 2, 32)
        changed = x.clone()
        changed[..., 0] += 1
        assert bool((model(changed) - model(x)).abs()[..., -1].amax() > 1e-6) == meet


def test_staggering_costs_no_parameter():
    count = {stagger: sum(p.numel() for p in small("vit", stagger=stagger).parameters()) for stagger in (False, True)}
    assert count[False] == count[True]


@every_kind
@staggered_or_not
def test_every_parameter_gets_a_gradient(kind, stagger):
    model = small(kind, stagger=stagger)
    model(torch.randn(2, 2, 16, 24)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().amax() > 0, name


@every_kind
def test_the_same_seed_gives_the_same_model_and_output(kind):
    outputs = []
    for _ in range(2):
        torch.manual_seed(3)
        model = small(kind)
        outputs.append(model(torch.randn(1, 2, 8, 12)))
    assert torch.equal(*outputs)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("positions", [(LearnedPosition(degree=1),), (RelativeBias(), Rotary()), (Gaze(),)])
def test_it_runs_in_lower_precision(kind, dtype, positions):
    model = small(kind, positions=positions)
    x = torch.randn(1, 2, 8, 12)
    expected = model(x)
    low = model.to(dtype)(x.to(dtype))
    assert low.dtype == dtype
    scale = 1e-4 if dtype == torch.float32 else 0.2
    assert (low.double() - expected).abs().mean() < scale * expected.abs().mean()


@every_kind
@pytest.mark.parametrize("positions", [(LearnedPosition(degree=1),), (RelativeBias(),)])
def test_it_trains_under_autocast(kind, positions):
    model = small(kind, positions=positions).float()
    x = torch.randn(1, 2, 8, 12, dtype=torch.float32)
    slopes = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            model(x).float().square().mean().backward()
        slopes.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert (slopes[1] - slopes[0]).norm() < 0.1 * slopes[0].norm()


def test_the_models_quadrature_changes_its_output():
    model = small("vit")
    other = small("vit", quadrature=EndCorrected(terms=1))
    other.load_state_dict(model.state_dict())
    x = torch.randn(1, 2, 16, 24)
    assert (model(x) - other(x)).abs().amax() > 1e-3


def test_a_grid_given_with_the_call_decides_about_the_boundary():
    model = small("nbr", periodic=False, relative=True)
    x = torch.randn(1, 2, 8, 12)
    box, torus = Grid((1.0, 1.5)), Grid((1.0, 1.5), periodic=(True, True))
    assert torch.equal(model(x), model(x, grid=box))
    assert not torch.allclose(model(x, grid=torus), model(x, grid=box))


def test_a_physical_subdomain_size_makes_more_subdomains_on_a_larger_domain():
    model = small("nbr", subdomains=(), subdomain_size=(0.25, 0.25), relative=True)
    x = torch.randn(1, 2, 16, 24)
    counted = small("nbr", subdomains=(4, 6), relative=True)
    counted.load_state_dict(model.state_dict())
    assert torch.equal(model(x), counted(x))
    wide = model(torch.randn(1, 2, 16, 48), grid=Grid((1.0, 3.0)))
    assert wide.shape == (1, 3, 16, 48)
    far = torch.randn(1, 2, 16, 48)
    changed = far.clone()
    changed[..., -4:] += 1  # two blocks of radius 1 carry nothing further than two cells
    grid = Grid((1.0, 3.0))
    torch.testing.assert_close(model(far, grid)[..., :32], model(changed, grid)[..., :32])


def test_a_learned_position_needs_to_know_how_many_subdomains_there_are():
    with pytest.raises(ValueError, match=r"subdomain_size=\(0.5,\) needs a grid"):
        vit_no(1, 1, hidden_channels=8, n_heads=2, subdomain_size=(0.5,))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.randn(1, 3, 8, 12), r"x has shape \(1, 3, 8, 12\); needed \(batch, 2 channels, 2 space axes\)"),
        (torch.randn(1, 2, 8), r"x has shape \(1, 2, 8\); needed \(batch, 2 channels, 2 space axes\)"),
        (torch.randn(0, 2, 8, 12), r"x has shape \(0, 2, 8, 12\); needed at least one sample"),
        (torch.ones(1, 2, 8, 12, dtype=torch.long), r"dtype torch.int64; needed a floating-point tensor"),
    ],
    ids=["channels", "axes", "empty batch", "integers"],
)
def test_bad_input_is_named(x, message):
    with pytest.raises(ValueError, match=message):
        small("vit")(x)


def test_a_grid_with_other_points_than_the_input_is_refused():
    with pytest.raises(ValueError, match=r"x has \(8, 12\) points; grid has \(8, 10\)"):
        small("vit")(torch.randn(1, 2, 8, 12), Grid((1.0, 1.5), points=(8, 10)))


def test_a_prediction_is_on_the_points_of_its_input_whatever_those_of_the_models_own_grid():
    model = small("vit", grid=Grid((1.0, 1.5), points=(4, 6)))
    x = torch.randn(1, 2, 8, 12)
    assert torch.equal(Predictor(model)(x), model(x))


@pytest.mark.parametrize("kind", ["vit", "unet"])
def test_an_input_of_another_precision_is_refused_with_the_cure(kind):
    model, x = small(kind), torch.randn(1, 2, 8, 12)
    cure = r"needed the same: x\.to\(torch\.float64\) or model\.to\(torch\.float32\)"
    with pytest.raises(ValueError, match=rf"x has dtype torch\.float32, the model torch\.float64; {cure}"):
        model(x.float())
    for dtype in (torch.float64, torch.bfloat16):
        with pytest.raises(ValueError, match=f"x has dtype {dtype}, the model torch.float32"):
            model.float()(x.to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):  # which casts by itself
        assert model(x.bfloat16()).isfinite().all()
        with pytest.raises(ValueError, match=r"x has dtype torch\.float64, the model torch\.float32"):  # but not double
            model(x)


def test_an_input_on_another_device_is_refused_with_both():
    with pytest.raises(ValueError, match=r"x is on meta, the model on cpu; needed both on one device: x\.to\('cpu'\)"):
        small("vit")(torch.randn(1, 2, 8, 12, device="meta"))


def test_weights_that_are_cast_when_their_turn_comes_are_not_asked_for_their_precision():
    """As by DDP in mixed precision: inputs are cast before the weights are."""
    model, x = small("vit"), torch.randn(1, 2, 8, 12, dtype=torch.float32)
    with pytest.raises(ValueError, match="x has dtype"):
        check_match(x, model)
    next(model.parameters())._mp_param = None
    check_match(x, model)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: vit_no(0, 1, subdomains=(2, 2)), "in_channels=0 must be at least 1"),
        (lambda: vit_no(1, 1, subdomains=(2, 2), n_layers=0), "n_layers=0 must be at least 1"),
        (lambda: vit_no(1, 1, subdomains=(0, 4)), r"subdomains=\(0, 4\) must be at least 1 along each axis"),
        (
            lambda: vit_no(1, 1, subdomains=(4, 4), positions=(LearnedPosition(tile=(4,)),)),
            r"tile=\(4,\) of a LearnedPosition must have 2 entries",
        ),
        (
            lambda: vit_no(1, 1, subdomains=(4, 4), positions=(RelativeBias(), CoordinatePosition())),
            r"positions=.* holds CoordinatePosition\(hidden=64\), which is not defined on a grid; needed",
        ),
        (lambda: swin_no(1, 1, subdomains=(8,)), r"window=\(4, 4\) has 2 axes; the decomposition 1"),
        (lambda: vit_no(1, 1), "needed exactly one of the two"),
        (lambda: vit_no(1, 1, subdomains=(2,), subdomain_size=(0.5,)), "needed exactly one of the two"),
        (lambda: vit_no(1, 1, subdomains=(2, 2), grid=Grid((1.0,))), "grid has 1 axes; the model has 2"),
        (lambda: vit_no(1, 1, subdomains=(2, 2), n_heads=3), "n_heads=3 does not divide hidden_channels=64"),
        (lambda: vit_no(1, 1, subdomains=(2, 2), grid=Grid((math.nan, 1.0))), "extent=.* must hold finite positive"),
    ],
)
def test_impossible_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_window_or_radius_larger_than_the_domain_is_refused_when_it_is_built():
    for attention in (WindowedAttention(window=(4, 4)), NeighborhoodAttention(radius=3)):
        with pytest.raises(ValueError, match=r"larger than|too large"):
            TransformerSpec(1, 1, subdomains=(3, 3), attention=attention)


def test_an_unknown_setting_is_refused():
    with pytest.raises(TypeError, match="hidden_chanels"):
        vit_no(1, 1, subdomains=(2, 2), hidden_chanels=3)


def test_the_three_models_are_settings_of_one():
    kinds = {kind: type(small(kind).spec.attention) for kind in KINDS}
    assert kinds == {"vit": GlobalAttention, "swin": WindowedAttention, "nbr": NeighborhoodAttention}
    shifts = [block.attention.spec.shift for block in small("swin", n_layers=4).blocks]
    assert shifts == [(0, 0), (1, 1), (0, 0), (1, 1)]
