"""What every subdomain operator promises, whatever it computes."""

import copy
import math
from dataclasses import fields
from itertools import pairwise

import pytest
import torch
from torch.nn import functional as F

from mondrian import Integral, SeparableMixture
from mondrian.operators import FeedForward, SubdomainOperator
from mondrian.quadrature import Cell, EndCorrected, Midpoint, Quadrature
from tests.operators.cases import CELLS, RIDGE, SPECS, cell_of, choose, operator, ways
from tests.pairs import every_pair

pytestmark = pytest.mark.usefixtures("float64")
every_operator = pytest.mark.parametrize("name", SPECS)


def gradients(u: torch.Tensor, v: torch.Tensor, built: SubdomainOperator) -> list[torch.Tensor]:
    return list(torch.autograd.grad(u.sin().sum(), [v, *built.parameters()]))


@every_pair(name=SPECS, where=CELLS, channels=[(4, 6), (6, 2)], bias=[True, False])
def test_fast_evaluations_agree_with_the_definition_and_so_do_their_gradients(name, where, channels, bias):
    cell = cell_of(where)
    built = operator(SPECS[name], channels, dim=len(cell.points), bias=bias)
    v = torch.randn(2, 3, channels[0], cell.size, requires_grad=True)
    expected = built.definition(v, cell)
    slopes = gradients(expected, v, built)
    for way in ways(built):
        choose(built, way)
        u = built.evaluate(v, cell)
        torch.testing.assert_close(u, expected, rtol=1e-10, atol=1e-10)
        for slope, true in zip(gradients(u, v, built), slopes, strict=True):
            torch.testing.assert_close(slope, true, rtol=1e-9, atol=1e-9)


@every_operator
def test_without_gradients_the_feed_forward_form_is_the_same_and_leaves_its_input_alone(name):
    cell = cell_of("2-D")
    form = SPECS[name].feed_forward(4, 6, 4)
    v = torch.randn(2, 3, 4, cell.size)
    before, expected = v.clone(), form(v, cell).detach()
    with torch.no_grad():
        outputs = [form(v, cell) for _ in range(2)]
    assert torch.equal(v, before)
    for u in outputs:
        torch.testing.assert_close(u, expected, rtol=1e-10, atol=1e-10)


@every_operator
@pytest.mark.parametrize("parts", [2, 3])
def test_an_output_in_parts_is_the_output_cut_along_its_channels_and_so_are_its_gradients(name, parts):
    cell = cell_of("2-D")
    built = operator(SPECS[name], (4, 6))
    v = torch.randn(2, 3, 4, cell.size, requires_grad=True)
    for way in ways(built):
        choose(built, way)
        whole, cut = built(v, cell).chunk(parts, dim=2), built(v, cell, parts=parts)
        slopes = [gradients(sum((n + 1) * u for n, u in enumerate(us)), v, built) for us in (cut, whole)]
        for got, true in [*zip(cut, whole, strict=True), *zip(*slopes, strict=True)]:
            torch.testing.assert_close(got, true, rtol=1e-10, atol=1e-10)


@every_operator
def test_it_is_linear_exactly_where_it_claims_to_be(name):
    cell = cell_of("2-D")
    built = operator(SPECS[name])
    v, w = torch.randn(2, 1, 3, 4, cell.size)
    origin = built(torch.zeros_like(v), cell)
    together = built(2 * v - 3 * w, cell) - origin
    apart = 2 * (built(v, cell) - origin) - 3 * (built(w, cell) - origin)
    assert torch.allclose(together, apart, atol=1e-10) == built.linear


@every_operator
def test_cells_and_samples_do_not_see_each_other(name):
    cell = cell_of("2-D")
    built = operator(SPECS[name])
    v = torch.randn(2, 3, 4, cell.size)
    u = built(v, cell)
    for sample in range(2):
        for place in range(3):
            alone = built(v[sample : sample + 1, place : place + 1], cell)
            torch.testing.assert_close(u[sample : sample + 1, place : place + 1], alone, rtol=1e-10, atol=1e-10)


@every_operator
def test_it_reads_functions_that_lie_in_memory_in_any_order(name):
    cell = cell_of("2-D")
    built = operator(SPECS[name])
    v = torch.randn(2, 3, 4, cell.size)
    scattered = v.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2)
    for way in ways(built):
        choose(built, way)
        torch.testing.assert_close(built(scattered, cell), built(v, cell), rtol=1e-10, atol=1e-10)


@every_operator
def test_no_parameter_is_without_a_gradient_where_the_points_can_see_it(name):
    cell = Cell.build((10, 10), Midpoint())
    built = operator(SPECS[name])
    for way in ways(built):
        choose(built, way)
        built.zero_grad()
        built(torch.randn(2, 3, 4, cell.size), cell).square().sum().backward()
        for label, parameter in built.named_parameters():
            assert parameter.grad is not None, (way, label)
            # entry by entry; only the constant mode of a real function has no imaginary part
            blind = 4 * 6 if name.startswith("spectral") and label == "weight" else 0
            assert (parameter.grad == 0).sum() == blind, (way, label)


@every_operator
def test_the_same_seed_builds_the_same_operator(name):
    torch.manual_seed(5)
    first = SPECS[name].build(4, 6)
    torch.manual_seed(5)
    second = SPECS[name].build(4, 6)
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


@every_operator
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 0.1)])
def test_lower_precisions_stay_near_the_definition_in_float64(name, dtype, tolerance):
    built = operator(SPECS[name])
    v = torch.randn(1, 2, 4, 16)
    expected = built.definition(v, cell_of("2-D"))
    low = copy.deepcopy(built).to(dtype)
    cell = Cell.build((4, 4), Midpoint(), dtype=dtype)
    for way in ways(low):
        choose(low, way, tolerance=1e-5)
        u = low(v.to(dtype), cell)
        assert u.dtype == dtype
        assert (u.double() - expected).abs().amax() < tolerance * expected.abs().amax(), way


def moment(built: SubdomainOperator, points: int, rule: Quadrature) -> torch.Tensor:
    """The mean over the cell of the output, times a smooth function, for a smooth input in one dimension."""
    cell = Cell.build((points,), rule)
    x = cell.coordinates[:, 0]
    v = torch.stack([torch.sin(2 * x + 0.3), torch.exp(x), x**3, torch.cos(3 * x)])[None, None]
    test = torch.stack([torch.ones_like(x), torch.cos(x)])
    return torch.einsum("bcox,tx,x->ot", built(v, cell), test, cell.weights)


@every_operator
@pytest.mark.parametrize("rule", [Midpoint(), EndCorrected(terms=1)], ids=["midpoint", "end-corrected"])
def test_refining_the_points_converges_at_the_order_of_the_quadrature(name, rule):
    if name.startswith("interpolating") and rule.order > 2:
        rule = Midpoint()  # its kernel has kinks: no rule is of higher order there
    built = operator(SPECS[name], dim=1)
    for way in ways(built):
        choose(built, way, tolerance=1e-12)
        truth = moment(built, 1024, rule)
        errors = [(moment(built, n, rule) - truth).norm().item() for n in (8, 16, 32, 64)]
        assert errors[-1] < (1e-3 if rule.order == 2 else 1e-5) * truth.norm()
        orders = [math.log2(a / b) for a, b in pairwise(errors)]
        # the fourth-order rule comes to its order from above or below, as the next term of its error has it
        assert orders[-1] == pytest.approx(rule.order, abs=0.1 if rule.order == 2 else 0.6), (way, orders)


@every_operator
def test_the_quadrature_changes_the_numbers(name):
    built = operator(SPECS[name])
    v = torch.randn(1, 1, 4, 36)
    rules = [Midpoint(), EndCorrected(terms=1), EndCorrected(terms=2)]
    outputs = [built(v, Cell.build((6, 6), rule)) for rule in rules]
    for one, other in pairwise(outputs):
        assert ((one - other).abs().amax() > 1e-4) == (name != "pointwise")  # which integrates nothing


@every_operator
def test_without_gradients_the_kernel_is_kept_only_as_long_as_the_weights_are(name):
    cell = cell_of("2-D")
    built = operator(SPECS[name])
    v = torch.randn(1, 2, 4, cell.size)
    optimiser = torch.optim.AdamW(built.parameters(), lr=0.05)
    other = operator(SPECS[name]).state_dict()
    for way in ways(built):
        choose(built, way, tolerance=1e-7)
        for change in ("nothing", "optimiser", "load", "data"):
            if change == "optimiser":
                built(v, cell).square().sum().backward()
                optimiser.step()
            if change == "load":
                built.load_state_dict(other)
            if change == "data":  # not counted by the engine: a change of mode drops what was kept
                for parameter in built.parameters():
                    parameter.data.mul_(2)
                built.eval()
            for grow in (1, 2):
                with torch.no_grad():
                    u = built(grow * v, cell)
                    torch.testing.assert_close(u, built.definition(grow * v, cell), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in SPECS if name != "attention"])
def test_the_feed_forward_form_is_two_operators_with_biases_around_gelu(name):
    cell = cell_of("2-D")
    form = SPECS[name].feed_forward(4, 8, 3)
    assert isinstance(form, FeedForward)
    first, second = form.first, form.second
    with torch.no_grad():
        first.bias += torch.randn(8)
        second.bias += torch.randn(3)
    v = torch.randn(2, 3, 4, cell.size)
    b1, b2 = first.bias, second.bias
    first_alone, second_alone = copy.deepcopy(first), copy.deepcopy(second)
    first_alone.bias = second_alone.bias = None
    hidden = F.gelu(first_alone.definition(v, cell) + b1[:, None])
    torch.testing.assert_close(form(v, cell), second_alone.definition(hidden, cell) + b2[:, None])


def test_the_feed_forward_form_of_attention_is_attention_then_a_network_at_each_point():
    cell = cell_of("2-D")
    form = SPECS["attention"].feed_forward(4, 8, 3)
    v = torch.randn(2, 3, 4, cell.size)
    hidden = form.attention.definition(v, cell).mT
    torch.testing.assert_close(form(v, cell), form.second(F.gelu(form.first(hidden))).mT)


@every_operator
@pytest.mark.parametrize("shape", [(1, 2, 5, 16), (1, 2, 4, 15)], ids=["channels", "points"])
def test_a_wrong_shape_is_named(name, shape):
    with pytest.raises(ValueError, match=r"v has shape .* needed \(batch, cell, 4 channels, 16 points\)"):
        operator(SPECS[name])(torch.randn(shape), cell_of("2-D"))


@every_operator
def test_a_cell_of_another_dimension_is_refused(name):
    with pytest.raises(ValueError, match=r"cell has points=\(4, 4\); needed 1 axes, as the operator has dim=1"):
        operator(SPECS[name], dim=1)(torch.randn(1, 2, 4, 16), cell_of("2-D"))


@pytest.mark.parametrize(
    ("parts", "message"),
    [(0, "parts=0 must be"), (-2, "parts=-2 must be"), (4, "parts=4 must divide out_channels=6")],
)
def test_parts_that_there_cannot_be_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        operator(SPECS["low_rank"])(torch.randn(1, 2, 4, 16), cell_of("2-D"), parts=parts)


@every_operator
@pytest.mark.parametrize("points", [(4, 4), (24, 24)], ids=["few", "many"])
def test_of_no_samples_there_are_no_outputs_and_gradients_are_nought(name, points):
    cell, built = Cell.build(points, Midpoint()), operator(SPECS[name])
    v = torch.randn(0, 3, 4, cell.size, requires_grad=True)
    for way in ways(built):
        choose(built, way, tolerance=1e-5)
        u = built(v, cell)
        assert u.shape == (0, 3, 6, cell.size)
        variables = [v, *built.parameters()]  # some of which an empty output need not depend on
        slope, *slopes = torch.autograd.grad(u.sin().sum(), variables, allow_unused=True, materialize_grads=True)
        assert slope.shape == v.shape
        assert all((slope == 0).all() for slope in slopes)
        assert [part.shape for part in built(v, cell, parts=2)] == [(0, 3, 3, cell.size)] * 2
        with torch.no_grad():
            assert built(v, cell).shape == u.shape


def test_sizes_below_one_are_refused_by_name():
    for spec in filter(fields, SPECS.values()):  # those with settings
        kind = type(spec)
        label = next(iter(spec.__dataclass_fields__))
        with pytest.raises(ValueError, match=f"{label}=0 must be at least 1"):
            kind(**{label: 0})


@pytest.mark.parametrize("name", RIDGE)
def test_the_evaluation_is_chosen_by_the_number_of_points(name):
    built = SPECS[name].build(16, 16)
    few, many = Cell.build((2, 2), Midpoint()), Cell.build((64, 64), Midpoint())
    assert built.choose(2048, few).value == "dense"
    assert built.choose(64, many).value == "separated"


@pytest.mark.parametrize("spec", [Integral(hidden=64, tolerance=0.0), SeparableMixture(terms=4, tolerance=0.0)])
def test_a_kernel_that_cannot_be_separated_is_held_as_a_whole_only_while_it_is_small(spec):
    built = spec.build(64, 64)
    few, many = Cell.build((4, 4), Midpoint()), Cell.build((48, 48), Midpoint())  # a matrix of 80 GB, or of 1.3 GB
    assert built.choose(2**20, few).value == "dense"
    assert built.choose(2**20, many).value == "collapsed"


@every_operator
@pytest.mark.parametrize("channels", [(4, 6), (6, 2)])
def test_gradients_that_are_recorded_are_those_that_are_not(name, channels):
    cell, built = cell_of("2-D"), operator(SPECS[name], channels)
    v = torch.randn(2, 3, channels[0], cell.size, requires_grad=True)
    for way in ways(built):
        choose(built, way, tolerance=1e-7)
        once, again = (
            torch.autograd.grad(built(v, cell).sin().sum(), [v, *built.parameters()], create_graph=recorded)
            for recorded in (False, True)
        )
        torch.testing.assert_close(again, once)


@pytest.mark.parametrize("name", RIDGE)
def test_second_derivatives_are_right(name):
    cell = Cell.build((2, 3), Midpoint())
    built = operator(SPECS[name], (2, 2))
    v = torch.randn(1, 2, 2, cell.size, requires_grad=True)
    for way in ways(built):
        choose(built, way)
        for parts in (1, 2):
            assert torch.autograd.gradgradcheck(lambda v: built(v, cell, parts=parts), v, atol=1e-4)  # noqa: B023 -- called here
