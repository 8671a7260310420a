"""Ridge kernels: the algebra that makes them fast."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from mondrian import Integral, Mixture, SeparableMixture
from mondrian.operators import KernelMethod
from mondrian.operators.ridge import Ridge, Separation, basis_size, terms_needed
from mondrian.polynomials import legendre_basis
from mondrian.quadrature import Cell, Midpoint

pytestmark = pytest.mark.usefixtures("float64")


def separated(ridge: Ridge, terms: int, x: torch.Tensor) -> torch.Tensor:
    expansion, basis = Separation.of(ridge, terms), legendre_basis(x, terms)
    along_x = torch.einsum("hpk,xk->hpx", expansion.out, basis)
    along_y = torch.einsum("hpk,yk->hpy", expansion.into, basis)
    return torch.einsum("hpx,hpy->hyx", along_x, along_y)


def test_a_ridge_is_gelu_of_a_sum_of_two_inner_products():
    layer = nn.Linear(4, 3)
    x = torch.randn(5, 2)
    values = Ridge.of(layer)(x, x)
    for h in range(3):
        a, b = layer.weight[h, :2], layer.weight[h, 2:]
        for i in range(5):
            for j in range(5):
                assert values[h, j, i].item() == pytest.approx(F.gelu(a @ x[i] + b @ x[j] + layer.bias[h]).item())


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_the_number_of_terms_keeps_its_tolerance(dim, scale, tolerance):
    layer = nn.Linear(2 * dim, 8)
    with torch.no_grad():
        layer.weight *= scale
    ridge = Ridge.of(layer)
    terms = terms_needed(ridge, tolerance, most=40)
    assert terms is not None
    x = 2 * torch.rand(50, dim) - 1
    exact = ridge(x, x)
    error = (separated(ridge, terms, x) - exact).abs().amax()
    # the tolerance is relative to the largest value on the whole cell, of which the points see a part
    assert error <= 1.5 * tolerance * exact.abs().amax()


def test_the_expansion_converges_exponentially():
    ridge = Ridge.of(nn.Linear(4, 8))
    x = 2 * torch.rand(40, 2) - 1
    errors = [(separated(ridge, terms, x) - ridge(x, x)).abs().amax().item() for terms in (4, 8, 12)]
    assert errors[1] < errors[0] / 50
    assert errors[2] < errors[1] / 50


def test_weights_too_large_to_separate_are_said_so_and_evaluated_otherwise():
    built = Mixture(terms=4).build(4, 4)
    with torch.no_grad():
        built.first.weight *= 200
    cell = Cell.build((12, 12), Midpoint())
    assert terms_needed(Ridge.of(built.first), 1e-5) is None
    assert built.choose(64, cell) is not KernelMethod.SEPARATED
    v = torch.randn(1, 2, 4, cell.size)
    torch.testing.assert_close(built(v, cell), built.definition(v, cell))
    built.method = KernelMethod.SEPARATED
    with pytest.raises(ValueError, match="tolerance=1e-05 cannot be met by a separated kernel"):
        built(v, cell)


def test_a_constant_ridge_is_separated_too():
    layer = nn.Linear(4, 3)
    with torch.no_grad():
        layer.weight.zero_()
    x = 2 * torch.rand(10, 2) - 1
    ridge = Ridge.of(layer)
    torch.testing.assert_close(separated(ridge, 4, x), ridge(x, x), rtol=1e-8, atol=1e-8)


def test_the_separation_follows_the_weights_while_training():
    built = Integral(hidden=6, tolerance=1e-5).build(3, 3)
    built.method = KernelMethod.SEPARATED
    cell = Cell.build((8, 8), Midpoint())
    v = torch.randn(1, 2, 3, cell.size)
    optimiser = torch.optim.Adam(built.parameters(), lr=3e-3)
    for _ in range(200):
        u = built(v, cell)
        error = (u - built.definition(v, cell)).abs().amax() / u.abs().amax()
        assert error < 1e-5
        (u - 3).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()


def test_the_basis_has_the_polynomials_of_total_degree_below_the_terms():
    assert [basis_size(dim, 4) for dim in (1, 2, 3)] == [4, 10, 20]


@pytest.mark.parametrize("spec", [Mixture(terms=4), SeparableMixture(terms=4, skip=True), SeparableMixture(terms=4)])
def test_many_points_without_gradients_are_written_row_by_row_and_right(spec):
    built = spec.build(3, 5)
    built.method = KernelMethod.SEPARATED
    cell = Cell.build((24, 24), Midpoint())
    v = torch.randn(1, 3, 3, cell.size)
    with torch.no_grad():
        u, expected = built(v, cell), built.definition(v, cell)
    assert (u - expected).abs().amax() < 1e-5 * expected.abs().amax()


def test_the_former_name_of_the_method_works_and_warns_its_user():
    built = Mixture(terms=3).build(2, 2)
    with pytest.warns(DeprecationWarning, match="evaluation is now method") as written:
        built.evaluation = KernelMethod.DENSE
    with pytest.warns(DeprecationWarning, match="evaluation is now method") as read:
        method = built.evaluation
    assert method is built.method is KernelMethod.DENSE
    if not hasattr(type(built).evaluation.fget, "__wrapped__"):  # the run-time checks are a frame more
        assert written[0].filename == read[0].filename == __file__
