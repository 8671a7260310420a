"""Crossed parameters without all their combinations: every pair of values of two parameters stands in some test.

A mistake that depends on one parameter or on two of them is seen, at the cost of the two longest lists of values.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def every_pair(**values: Iterable[Any]) -> pytest.MarkDecorator:
    """A mark that gives a test these parameters by rows in which every pair of values stands.

    >>> every_pair(dim=[1, 2], bias=[True, False], name="ab").args
    (('dim', 'bias', 'name'), [(1, True, 'a'), (1, False, 'b'), (2, True, 'b'), (2, False, 'a')])
    """
    return pytest.mark.parametrize(tuple(values), rows_of_pairs([list(each) for each in values.values()]))


def rows_of_pairs(columns: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows with a value of each column, such that every two values of two columns stand in a row together.

    Greedy: a row begins with the first pair that is missing, and each other column gives the value that adds most.
    """
    if len(columns) == 1:
        return [(value,) for value in columns[0]]
    sizes = [range(len(column)) for column in columns]
    missing = {
        ((a, i), (b, j)): None for a, b in combinations(range(len(columns)), 2) for i, j in product(sizes[a], sizes[b])
    }
    rows = []
    while missing:
        row = dict(next(iter(missing)))
        for column in sorted(set(range(len(columns))) - set(row)):

            def gain(value: int, column: int = column, row: dict[int, int] = row) -> int:
                return sum(tuple(sorted([(column, value), other])) in missing for other in row.items())

            row[column] = max(sizes[column], key=gain)
        for pair in combinations(sorted(row.items()), 2):
            missing.pop(pair, None)
        rows.append(tuple(columns[column][row[column]] for column in sorted(row)))
    return rows
