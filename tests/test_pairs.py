"""The rows in place of all combinations of parameters: nothing of two parameters is left out, and rows are few."""

from itertools import combinations, product

import pytest

from tests.pairs import every_pair, rows_of_pairs


@pytest.mark.parametrize("sizes", [(3,), (2, 2), (2, 3, 4), (11, 4, 2, 2), (5, 3, 4, 2, 2), (2,) * 7, (4, 1, 4)])
def test_every_two_values_stand_in_a_row_together_and_rows_are_few(sizes):
    columns = [[f"{name}{n}" for n in range(size)] for name, size in zip("abcdefg", sizes, strict=False)]
    rows = rows_of_pairs(columns)
    for one, other in combinations(range(len(columns)), 2):
        assert {(row[one], row[other]) for row in rows} == set(product(columns[one], columns[other]))
    assert {row[0] for row in rows} == set(columns[0])
    longest = sorted([*sizes, 1])[-2:]
    assert len(rows) == len(set(rows)) <= 1.5 * longest[0] * longest[1] + 4


def test_rows_are_the_same_each_time_and_values_need_not_be_hashable():
    columns = [[[1], [2], [3]], [{"a": 1}, {}], [True, False]]
    assert rows_of_pairs(columns) == rows_of_pairs(columns)


@every_pair(number=[1, 2, 3], letter="ab")
def test_a_test_is_given_values_by_the_names_of_its_parameters(number, letter):
    assert number in (1, 2, 3)
    assert letter in "ab"
