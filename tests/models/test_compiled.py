"""Every model compiles as one graph, and computes the same."""

import pytest
import torch

from tests.models.cases import small

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("float64")]


@pytest.mark.parametrize(("kind", "stagger", "points"), [("vit", False, 2), ("swin", True, 2), ("nbr", True, 3)])
def test_it_compiles_as_one_graph_for_values_and_gradients(kind, stagger, points):
    torch.compiler.reset()
    model = small(kind, stagger=stagger)
    x = torch.randn(2, 2, 4 * points, 6 * points, requires_grad=True)
    expected = model(x)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(compiled, expected)
    slope, true = (torch.autograd.grad(u.sin().sum(), x)[0] for u in (compiled, expected))
    torch.testing.assert_close(slope, true)
