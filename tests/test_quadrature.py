"""The rules on cell-centred points keep what they declare: order, exactness, positivity, unit measure."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

from mondrian import EndCorrected, Midpoint
from mondrian.quadrature import Cell, Quadrature

RULES = [Midpoint(), EndCorrected(terms=1), EndCorrected(terms=2)]
every_rule = pytest.mark.parametrize("rule", RULES, ids=repr)


def fewest_points(rule: Quadrature) -> int:
    return 1 if isinstance(rule, Midpoint) else rule.order - 1


def axis_weights(rule: Quadrature, points: int) -> np.ndarray:
    return rule.axis_weights(points).numpy()


def integrate(rule: Quadrature, f, points: int) -> float:
    x = (np.arange(points) + 0.5) / points
    return float(axis_weights(rule, points) @ f(x))


@every_rule
@pytest.mark.parametrize(
    "f, integral",
    [
        (lambda x: np.exp(2 * x), math.expm1(2) / 2),
        (lambda x: np.sin(3 * x + 1), (math.cos(1) - math.cos(4)) / 3),
        (lambda x: 1 / (1 + x), math.log(2)),
    ],
    ids=["exp", "sin", "rational"],
)
def test_a_rule_converges_at_its_declared_order(rule: Quadrature, f, integral: float) -> None:
    errors = [abs(integrate(rule, f, n) - integral) for n in (32, 64, 128)]
    orders = [math.log2(coarse / fine) for coarse, fine in pairwise(errors)]
    assert orders == pytest.approx([rule.order] * 2, abs=0.3)
    assert abs(orders[1] - rule.order) < abs(orders[0] - rule.order)  # the slopes approach it


@every_rule
def test_a_rule_is_exact_on_the_polynomials_below_its_order_and_on_no_further_even_degree(rule: Quadrature) -> None:
    points = 12
    for degree in range(rule.order):
        assert integrate(rule, lambda x, d=degree: x**d, points) == pytest.approx(1 / (degree + 1), rel=1e-13)
    error = integrate(rule, lambda x: x**rule.order, points) - 1 / (rule.order + 1)
    assert abs(error) > 1e-8


def test_the_midpoint_rule_errs_by_the_first_term_of_euler_maclaurin() -> None:
    points = 64
    error = math.expm1(1) - integrate(Midpoint(), np.exp, points)
    assert error == pytest.approx(math.expm1(1) / (24 * points**2), rel=1e-4)


def test_the_midpoint_rule_is_spectrally_accurate_on_periodic_functions_and_the_corrected_ones_stay_near() -> None:
    def f(x):
        return np.exp(np.sin(2 * np.pi * x))

    exact = np.i0(1.0)
    assert integrate(Midpoint(), f, 24) == pytest.approx(exact, rel=1e-14)
    for rule in RULES[1:]:
        errors = [abs(integrate(rule, f, n) - exact) for n in (32, 64)]
        assert math.log2(errors[0] / errors[1]) > rule.order - 0.3


@every_rule
def test_weights_are_positive_symmetric_and_sum_to_one_from_the_fewest_points_on(rule: Quadrature) -> None:
    for points in range(fewest_points(rule), 40):
        weights = axis_weights(rule, points)
        assert (weights > 0).all()
        assert weights.sum() == pytest.approx(1.0, abs=1e-14)
        np.testing.assert_allclose(weights, weights[::-1], rtol=1e-13)


def test_the_choice_of_rule_changes_the_weights_and_only_near_the_ends() -> None:
    midpoint = axis_weights(Midpoint(), 16)
    for rule in RULES[1:]:
        stencil = rule.order - 1
        changed = axis_weights(rule, 16) != midpoint
        assert changed[0]
        assert changed[-1]
        assert not changed[stencil:-stencil].any()


@every_rule
@pytest.mark.parametrize("points", [(6,), (6, 8), (5, 6, 7)])
def test_weights_of_a_box_are_the_products_of_the_axes_in_axis_order(rule: Quadrature, points: tuple[int, ...]) -> None:
    weights = rule.weights(points).reshape(points)
    for index in np.ndindex(*points):
        expected = math.prod(axis_weights(rule, n)[i] for n, i in zip(points, index, strict=True))
        assert weights[index].item() == pytest.approx(expected, rel=1e-14)


@every_rule
def test_a_product_of_functions_on_a_box_integrates_to_the_product_of_their_integrals(rule: Quadrature) -> None:
    points, factors = (7, 9, 6), (np.exp, np.cos, np.sqrt)
    places = np.meshgrid(*[(np.arange(n) + 0.5) / n for n in points], indexing="ij")
    values = math.prod(f(x) for f, x in zip(factors, places, strict=True)).ravel()
    expected = math.prod(integrate(rule, f, n) for f, n in zip(factors, points, strict=True))
    assert float(rule.weights(points).numpy() @ values) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("terms", [0, 3, -1])
def test_unknown_numbers_of_correction_terms_are_refused(terms: int) -> None:
    with pytest.raises(ValueError, match=rf"terms={terms} .*needed 1 .* or 2"):
        EndCorrected(terms=terms)


@pytest.mark.parametrize("terms, points, needed", [(1, 2, 3), (2, 4, 5)])
def test_too_few_points_for_a_rule_are_refused_with_the_number_needed(terms: int, points: int, needed: int) -> None:
    with pytest.raises(ValueError, match=rf"points={points} .*terms={terms}; needed at least {needed}"):
        EndCorrected(terms=terms).axis_weights(points)


@pytest.mark.parametrize("points", [0, -1])
def test_no_points_at_all_are_refused_by_name(points: int) -> None:
    with pytest.raises(ValueError, match=f"points={points}"):
        Midpoint().axis_weights(points)


# Cell


@pytest.mark.parametrize("points", [(1,), (5,), (3, 4), (2, 3, 2)])
def test_a_cells_points_are_the_cell_centres_of_the_reference_box_in_axis_order(points: tuple[int, ...]) -> None:
    cell = Cell.build(points, Midpoint(), dtype=torch.float64)
    expected = [[(2 * i + 1) / n - 1 for i, n in zip(index, points, strict=True)] for index in np.ndindex(*points)]
    np.testing.assert_allclose(cell.coordinates.numpy(), expected, rtol=0, atol=1e-15)
    assert cell.size == math.prod(points) == len(cell.weights)


@every_rule
def test_a_cell_integrates_polynomials_of_its_coordinates_as_the_rule_declares(rule: Quadrature) -> None:
    cell = Cell.build((8, 10), rule, dtype=torch.float64)
    x, y = cell.coordinates.unbind(dim=1)
    assert (cell.weights @ (x * y)).item() == pytest.approx(0.0, abs=1e-15)
    mean_of_square = (cell.weights @ x**2).item()  # 1/3 over [-1, 1]
    if rule.order > 2:
        assert mean_of_square == pytest.approx(1 / 3, rel=1e-13)
    else:
        assert mean_of_square == pytest.approx(1 / 3 - 1 / (3 * 8**2), rel=1e-13)


def test_a_cells_float32_tensors_are_the_float64_ones_rounded_once() -> None:
    single, double = (Cell.build((7, 5), EndCorrected(), dtype=dtype) for dtype in (torch.float32, torch.float64))
    assert torch.equal(single.coordinates, double.coordinates.float())
    assert torch.equal(single.weights, double.weights.float())


def test_cells_are_equal_by_points_and_rule() -> None:
    assert Cell.build((4,), Midpoint()) == Cell.build((4,), Midpoint(), dtype=torch.float64)
    assert Cell.build((4,), Midpoint()) != Cell.build((4,), EndCorrected())
    assert Cell.build((4,), Midpoint()) != Cell.build((5,), Midpoint())


@every_rule
def test_a_part_of_a_cell_is_a_cell_with_unit_measure_and_the_same_rule(rule: Quadrature) -> None:
    cell = Cell.build((12, 10), rule, dtype=torch.float64)
    part = cell.split((2, 2))
    assert part == Cell.build((6, 5), rule)
    assert part.weights.dtype == torch.float64
    assert part.weights.sum().item() == pytest.approx(1.0, abs=1e-14)
    assert part.coordinates.abs().max() < 1


def test_a_part_covers_the_cell_when_moved_and_shrunk() -> None:
    cell, parts = Cell.build((6, 4), Midpoint(), dtype=torch.float64), (3, 2)
    part = cell.split(parts)
    places = set()
    for index in np.ndindex(*parts):
        centre = torch.tensor([(2 * i + 1) / p - 1 for i, p in zip(index, parts, strict=True)], dtype=torch.float64)
        shrunk = centre + part.coordinates / torch.tensor(parts)
        places |= {tuple(round(value, 12) for value in point) for point in shrunk.tolist()}
    assert places == {tuple(round(value, 12) for value in point) for point in cell.coordinates.tolist()}


def test_splitting_a_cell_into_one_part_changes_nothing() -> None:
    cell = Cell.build((4, 6), EndCorrected())
    same = cell.split((1, 1))
    assert same == cell
    assert torch.equal(same.weights, cell.weights)


@pytest.mark.parametrize("parts", [(3, 1), (2,), (2, 2, 2), (1, 5)])
def test_parts_that_do_not_divide_a_cell_are_refused(parts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"parts=\({parts[0]}.*must divide the \(4, 6\) points"):
        Cell.build((4, 6), Midpoint()).split(parts)


@pytest.mark.parametrize("parts", [(0, 1), (-1, 1)])
def test_parts_below_one_are_refused_by_name(parts: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="parts="):
        Cell.build((4, 6), Midpoint()).split(parts)
