"""Rows of one length for cells of any size: nothing lost, nothing counted twice."""

import pytest
import torch

from mondrian.points import Tiles
from mondrian.points.tiles import best_length

COUNTS = [5, 0, 1, 40, 7, 0, 16]


def tiles(length=None, counts=COUNTS):
    members = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    members = members[torch.randperm(len(members))]
    coordinates, weights = torch.rand(len(members), 2), torch.rand(len(members))
    return Tiles.build(members, coordinates, weights, cells=len(counts), length=length), members, coordinates, weights


@pytest.mark.parametrize("length", [1, 3, 8, 40, 100, None])
def test_what_is_spread_is_collected_again(length):
    rows, members, coordinates, weights = tiles(length)
    values = torch.randn(2, 3, len(members))
    assert torch.equal(rows.collect(rows.spread(values)), values)
    assert int(rows.filled.sum()) == len(members)
    assert torch.equal(rows.collect(rows.coordinates[None]), coordinates.mT[None])
    assert torch.equal(rows.collect(rows.weights[None, ..., None]), weights[None, None])
    assert torch.equal(rows.collect(rows.cell[None, :, None, None].expand(1, *rows.filled.shape, 1))[0, 0], members)
    assert (rows.weights[~rows.filled] == 0).all()


@pytest.mark.parametrize("length", [1, 3, 8, 40, None])
def test_sums_and_maxima_are_those_of_the_cells(length):
    rows, members, _, weights = tiles(length)
    values = torch.randn(2, 3, len(members))
    slots = rows.spread(values) * rows.weights[..., None]
    totals = rows.sum_by_cell(slots.sum(dim=2))
    largest = rows.max_by_cell(rows.spread(values).masked_fill(~rows.filled[..., None], -torch.inf).amax(dim=2))
    for cell, count in enumerate(COUNTS):
        here = members == cell
        torch.testing.assert_close(totals[:, cell], (values * weights)[..., here].sum(dim=-1))
        if count:
            assert torch.equal(largest[:, cell], values[..., here].amax(dim=-1))
        else:
            assert (largest[:, cell] == -torch.inf).all()


def test_equal_cells_take_one_row_each():
    assert best_length(torch.full((9,), 37)) == 37


def test_one_large_cell_does_not_pad_the_others():
    counts = torch.tensor([2000] + [20] * 199)
    length = best_length(counts)
    slots = int(((counts + length - 1) // length).sum()) * length
    assert slots < 2 * int(counts.sum())
    assert slots < 0.05 * len(counts) * int(counts.max())  # what padding to the largest would take


def test_gradients_of_sums_reach_every_point_once():
    rows, members, _, _ = tiles(8)
    values = torch.randn(1, 1, len(members), requires_grad=True)
    slots = rows.spread(values).masked_fill(~rows.filled[..., None], 0.0)
    (rows.sum_by_cell(slots.sum(dim=2))[0, :, 0] * torch.arange(7)).sum().backward()
    assert torch.equal(values.grad[0, 0], members.float())
