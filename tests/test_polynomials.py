"""Chebyshev and Legendre polynomials, and the Gauss nodes that measure them."""

import math

import numpy as np
import pytest
import torch

from mondrian.polynomials import chebyshev, gauss_nodes, legendre, legendre_basis, total_degree

F64 = torch.float64


def test_chebyshev_polynomials_are_the_cosines_of_multiples_of_the_angle() -> None:
    t = torch.linspace(-1, 1, 101, dtype=F64)
    n = torch.arange(12, dtype=F64)
    torch.testing.assert_close(chebyshev(t, 12), torch.cos(n * torch.arccos(t)[:, None]), rtol=0, atol=1e-12)


def test_chebyshev_polynomials_compose_as_their_degrees_multiply() -> None:
    t = torch.linspace(-1, 1, 37, dtype=F64)
    composed = chebyshev(chebyshev(t, 5)[:, 4], 4)[:, 3]
    torch.testing.assert_close(composed, chebyshev(t, 13)[:, 12], rtol=0, atol=1e-12)


def test_chebyshev_polynomials_are_orthogonal_at_their_own_nodes() -> None:
    terms = 9
    angles = (torch.arange(terms, dtype=F64) + 0.5) * torch.pi / terms
    values = chebyshev(torch.cos(angles), terms)
    expected = torch.diag(torch.tensor([terms] + [terms / 2] * (terms - 1), dtype=F64))
    torch.testing.assert_close(values.mT @ values, expected, rtol=0, atol=1e-12)


def test_the_derivative_of_chebyshev_is_the_degree_times_the_second_kind() -> None:
    t = torch.linspace(-0.95, 0.95, 21, dtype=F64, requires_grad=True)
    (derivative,) = torch.autograd.grad(chebyshev(t, 7)[:, 6].sum(), t)
    angle = torch.arccos(t.detach())
    torch.testing.assert_close(derivative, 6 * torch.sin(6 * angle) / torch.sin(angle), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("terms", [1, 2, 3, 10])
def test_fewer_terms_are_the_first_columns_of_more(terms: int) -> None:
    t = torch.linspace(-1, 1, 11, dtype=F64).reshape(11, 1)
    for family in (chebyshev, legendre):
        values = family(t, terms)
        assert values.shape == (11, 1, terms)
        assert torch.equal(values, family(t, 10)[..., :terms])


def test_legendre_polynomials_are_numpys_times_the_root_that_makes_them_orthonormal() -> None:
    t = torch.linspace(-1, 1, 51, dtype=F64)
    scale = np.sqrt(2 * np.arange(9) + 1)
    expected = torch.from_numpy(np.polynomial.legendre.legvander(t.numpy(), 8) * scale)
    torch.testing.assert_close(legendre(t, 9), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim, terms", [(1, 8), (2, 6), (3, 4)])
def test_the_legendre_basis_is_orthonormal_for_the_mean_over_the_cell(dim: int, terms: int) -> None:
    nodes, weights = gauss_nodes(dim, terms)  # exact to degree 2 * terms - 1
    basis = legendre_basis(nodes, terms)
    gram = torch.einsum("p,pi,pj->ij", weights, basis, basis)
    torch.testing.assert_close(gram, torch.eye(basis.shape[1], dtype=F64), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim, terms", [(1, 5), (2, 4), (3, 3)])
def test_the_legendre_basis_spans_every_monomial_below_its_total_degree_and_none_above(dim: int, terms: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(200, dim, dtype=F64, generator=generator) - 1
    basis = legendre_basis(x, terms)

    def residual(degrees: tuple[int, ...]) -> float:
        monomial = (x ** torch.tensor(degrees)).prod(dim=1)
        solution = torch.linalg.lstsq(basis, monomial[:, None]).solution[:, 0]
        return (basis @ solution - monomial).norm().item() / monomial.norm().item()

    assert max(residual(degrees) for degrees in total_degree(dim, terms)) < 1e-12
    assert residual((terms,) + (0,) * (dim - 1)) > 1e-2


@pytest.mark.parametrize("dim, terms", [(1, 1), (1, 7), (2, 1), (2, 5), (3, 4)])
def test_the_number_of_products_of_a_total_degree_is_the_binomial(dim: int, terms: int) -> None:
    degrees = total_degree(dim, terms)
    assert len(set(degrees)) == len(degrees) == math.comb(terms - 1 + dim, dim)
    assert all(len(each) == dim and sum(each) < terms for each in degrees)
    assert degrees[0] == (0,) * dim


def test_the_first_function_of_the_basis_is_one() -> None:
    x = torch.rand(5, 2, dtype=F64, generator=torch.Generator().manual_seed(1))
    assert torch.equal(legendre_basis(x, 3)[:, 0], torch.ones(5, dtype=F64))
    assert torch.equal(legendre_basis(x, 1), torch.ones(5, 1, dtype=F64))


@pytest.mark.parametrize("points", [1, 2, 3, 6])
def test_gauss_nodes_are_exact_to_degree_twice_their_number_minus_one_and_no_further(points: int) -> None:
    nodes, weights = gauss_nodes(1, points)

    def mean(degree: int) -> float:
        return (weights @ nodes[:, 0] ** degree).item()

    for degree in range(2 * points):
        assert mean(degree) == pytest.approx(0.0 if degree % 2 else 1 / (degree + 1), abs=1e-14)
    assert abs(mean(2 * points) - 1 / (2 * points + 1)) > 1e-5


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gauss_weights_are_positive_and_sum_to_one_in_every_dimension(dim: int) -> None:
    nodes, weights = gauss_nodes(dim, 4)
    assert nodes.shape == (4**dim, dim)
    assert (weights > 0).all()
    assert weights.sum().item() == pytest.approx(1.0, abs=1e-14)
    mean = (weights @ (nodes**6).prod(dim=1)).item()
    assert mean == pytest.approx(7.0**-dim, rel=1e-13)
