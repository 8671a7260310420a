"""Every model compiles as one graph, and computes the same."""

import pytest
import torch

from mondrian import LearnedPosition, Midpoint, Mixture, RelativeBias, Rotary
from mondrian.operators import Evaluation
from mondrian.quadrature import Cell
from tests.models.cases import small

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("float64")]


POSITIONS = (LearnedPosition(degree=2), RelativeBias(), Rotary())


@pytest.mark.parametrize(
    ("kind", "stagger", "points"), [("vit", False, 2), ("swin", True, 2), ("nbr", True, 3), ("unet", True, 2)]
)
def test_it_compiles_as_one_graph_for_values_and_gradients(kind, stagger, points):
    torch.compiler.reset()
    blocks = 1 if kind == "unet" else 2  # of a stage, of which a U-Net has three
    model = small(kind, stagger=stagger, positions=POSITIONS, periodic=kind == "swin", n_layers=blocks)
    x = torch.randn(2, 2, 4 * points, 6 * points, requires_grad=True)
    expected = model(x)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(compiled, expected)
    slope, true = (torch.autograd.grad(u.sin().sum(), x)[0] for u in (compiled, expected))
    torch.testing.assert_close(slope, true)


def test_a_compiled_model_keeps_the_tolerance_of_its_separated_kernels_while_it_trains():
    torch.compiler.reset()
    built = Mixture(terms=3, tolerance=1e-5).build(3, 3)
    cell = Cell.build((24, 24), Midpoint())
    v = torch.randn(1, 2, 3, cell.size)
    assert built.choose(2, cell) is Evaluation.SEPARATED
    compiled = torch.compile(built, fullgraph=True, backend="aot_eager")
    optimiser = torch.optim.Adam(built.parameters(), lr=1e-2)
    for _ in range(3):
        for _ in range(5):
            (compiled(v, cell) - 1).square().mean().backward()
            optimiser.step()
            optimiser.zero_grad()
        built.train()  # as at the start of every epoch
        with torch.no_grad():
            expected = built.definition(v, cell)
            assert (compiled(v, cell) - expected).abs().amax() < 1e-5 * expected.abs().amax()


@pytest.mark.parametrize("more", [{}, {"cell_points": (2, 2)}], ids=["as needed", "fixed"])
def test_a_resolution_that_the_cuts_do_not_divide_compiles_too(more):
    torch.compiler.reset()
    model = small("vit", relative=True, **more)
    x = torch.randn(1, 2, 9, 13)
    expected = model(x)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(x), expected)
