"""Rows owned by ranks, and the plan of the exchange."""

import pytest
import torch

from mondrian.parallel.exchange import ExchangePlan
from mondrian.parallel.partition import Partition


@pytest.mark.parametrize("rows", [4, 7, 12])
@pytest.mark.parametrize("processes", [1, 2, 3, 4])
def test_an_even_partition_differs_by_one_row_at_most(rows, processes):
    owned = Partition.even(rows, processes).all_owned()
    sizes = [stop - start for start, stop in owned]
    assert sum(sizes) == rows
    assert max(sizes) - min(sizes) <= 1


def test_whole_windows_stay_together_where_there_are_enough():
    assert Partition.even(12, 3, unit=4).bounds == (0, 4, 8, 12)
    assert Partition.even(12, 2, unit=4).bounds == (0, 4, 12)
    assert Partition.even(8, 4, unit=4).bounds == (0, 2, 4, 6, 8)  # too few windows for all
    assert Partition.even(9, 2, unit=4).bounds == (0, 4, 9)  # windows do not divide the rows


@pytest.mark.parametrize("ring", [False, True])
def test_pieces_name_the_rows_in_their_order(ring):
    partition = Partition((3, 5, 9, 10), ring)
    owners = torch.arange(3, 10)
    for start in range(-4 if ring else 3, 10):
        for stop in range(start, 14 if ring else 11):
            owners_of_rows = [
                partition.bounds[piece.owner] + piece.start + n
                for piece in partition.pieces(start, stop)
                for n in range(piece.number)
            ]
            assert owners_of_rows == [int(owners[(row - 3) % 7]) for row in range(start, stop)]


def test_what_one_process_sends_is_what_the_other_expects():
    partition = Partition((0, 2, 3, 8), ring=True)
    wanted = ((-3, 4), (1, 5), (2, 10))
    plans = [ExchangePlan.make(partition, wanted, rank) for rank in range(3)]
    for sender, plan in enumerate(plans):
        assert not plan.outgoing[sender]
        for reader, pieces in enumerate(plan.outgoing):
            assert pieces == plans[reader].incoming[sender]
    assert [plan.foreign for plan in plans] == [5, 3, 3]
    assert not plans[0].silent
    assert ExchangePlan.make(partition, partition.all_owned(), 1).silent


def test_half_a_row_moves_to_the_process_before():
    assert Partition((0, 2, 4)).moved_points(5).bounds == (0, 12, 20)
    assert Partition((0, 2, 4), ring=True).moved_points(4).bounds == (2, 10, 18)
    assert Partition((0, 2, 4)).staggered().bounds == (0, 3, 5)
    assert Partition((0, 2, 4), ring=True).staggered().bounds == (0, 2, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Partition((0, 2, 2)), r"bounds=\(0, 2, 2\) must increase"),
        (lambda: Partition.even(3, 4), "3 rows of subdomains cannot be shared by 4 ranks"),
        (lambda: Partition((0, 2)).pieces(1, 3), "rows 1 to 3 are not among 0 to 2"),
        (
            lambda: ExchangePlan.make(Partition((0, 2, 4)), ((0, 2),), 0),
            "wanted has the rows of 1 ranks; needed those of 2",
        ),
    ],
)
def test_bad_partitions_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
