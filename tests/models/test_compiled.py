"""Every model compiles as one graph, and computes the same."""

import pytest
import torch

from mondrian import Gaze, LearnedPosition, Midpoint, Mixture, RelativeBias, Rotary, SeparableMixture
from mondrian.operators import KernelMethod
from mondrian.quadrature import Cell
from tests.models.cases import small

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("float64")]


POSITIONS = (LearnedPosition(degree=2), RelativeBias(), Rotary())


@pytest.mark.parametrize(
    ("kind", "points", "settings"),
    [
        ("vit", 2, {"spatial_heads": (2, 1)}),
        ("swin", 2, {"stagger": True, "periodic": True}),
        ("swin", 2, {}),  # on a box, where shifted windows need a mask
        ("nbr", 3, {"stagger": True}),
        ("vit", 2, {"stagger": True, "positions": (Gaze(),)}),
        ("nbr", 2, {"zero_far": True}),
        ("unet", 2, {"stagger": True}),
    ],
)
def test_it_compiles_as_one_graph_for_values_and_gradients(kind, points, settings):
    torch.compiler.reset()
    blocks = 1 if kind == "unet" else 2  # of a stage, of which a U-Net has three
    model = small(kind, n_layers=blocks, **{"positions": POSITIONS} | settings)
    x = torch.randn(2, 2, 4 * points, 6 * points, requires_grad=True)
    expected = model(x)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(compiled, expected)
    slopes = [torch.autograd.grad(u.sin().sum(), [x, *model.parameters()]) for u in (compiled, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("operator", [Mixture(terms=3), SeparableMixture()])
def test_one_graph_serves_other_resolutions(operator):
    """From the second resolution on their sizes are symbols, of which evaluations have to be chosen too."""
    torch.compiler.reset()
    model = small("vit", n_layers=1, operator=operator)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.no_grad():
        for points in (2, 4, 5, 8):
            x = torch.randn(2, 2, 4 * points, 6 * points)
            torch.testing.assert_close(compiled(x), model(x))


def separated_and_compiled():
    """An operator that separates its kernel to 1e-5, its compiled form, and how far that is from the definition."""
    torch.compiler.reset()
    built = Mixture(terms=3, tolerance=1e-5).build(3, 3)
    cell = Cell.build((24, 24), Midpoint())
    v = torch.randn(1, 2, 3, 1) + torch.randn(1, 2, 3, 1) * cell.coordinates.sum(dim=1)  # smooth: errors add up
    assert built.choose(2, cell) is KernelMethod.SEPARATED
    compiled = torch.compile(built, fullgraph=True, backend="aot_eager")

    def error():
        with torch.no_grad():
            expected = built.definition(v, cell)
            return (compiled(v, cell) - expected).abs().amax() / expected.abs().amax()

    return built, lambda: compiled(v, cell), error


def test_a_compiled_model_keeps_the_tolerance_of_its_separated_kernels_while_it_trains():
    built, output, error = separated_and_compiled()
    optimiser = torch.optim.Adam(built.parameters(), lr=1e-2)
    begun = error()
    for _ in range(2):
        built.train()  # as at the start of every epoch
        for _ in range(30):
            (output() - 1).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
        assert error() < 1e-5  # at its end: the margin covers what the optimiser has done
    assert error() > 3 * begun  # which is to be seen


def test_beyond_its_margin_a_compiled_model_has_to_be_told_that_its_weights_are_others():
    built, _, error = separated_and_compiled()
    with torch.no_grad():
        built.first.weight *= 4
    assert error() > 1e-5
    built.train()
    assert error() < 1e-5


def test_a_compiled_model_sees_that_weights_were_loaded():
    built, _, error = separated_and_compiled()
    assert error() < 1e-5
    sharper = {key: value * (4 if key == "first.weight" else 1) for key, value in built.state_dict().items()}
    built.load_state_dict(sharper)
    assert error() < 1e-5


@pytest.mark.parametrize("more", [{}, {"cell_points": (2, 2)}], ids=["as needed", "fixed"])
def test_a_resolution_that_the_cuts_do_not_divide_compiles_too(more):
    torch.compiler.reset()
    model = small("vit", relative=True, **more)
    x = torch.randn(1, 2, 9, 13)
    expected = model(x)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(x), expected)
