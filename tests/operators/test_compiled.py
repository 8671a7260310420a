"""Every operator compiles as one graph, and computes the same."""

import pytest
import torch

from mondrian.quadrature import Cell, Midpoint
from tests.operators.cases import SPECS, operator, ways

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("float64")]


@pytest.mark.parametrize("name", SPECS)
def test_it_compiles_as_one_graph_for_values_and_gradients(name):
    torch.compiler.reset()
    cell = Cell.build((4, 4), Midpoint())
    built = operator(SPECS[name])
    v = torch.randn(2, 3, 4, cell.size, requires_grad=True)
    for way in ways(built):
        if way is not None:
            built.method = way
            built.terms.count(built.first)
        expected = built(v, cell)
        compiled = torch.compile(built, fullgraph=True, backend="aot_eager")(v, cell)
        torch.testing.assert_close(compiled, expected)
        slopes = [torch.autograd.grad(u.sin().sum(), [v, *built.parameters()]) for u in (compiled, expected)]
        torch.testing.assert_close(*slopes)
