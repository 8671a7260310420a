"""Attention by distance of centres: on a full lattice the patterns of the lattice, elsewhere what it says."""

import pytest
import torch

from mondrian import GlobalAttention, NeighborhoodAttention, RelativeBias
from mondrian.attention import CentreAttention
from mondrian.decomposition import Lattice
from mondrian.points import Arrangement

pytestmark = pytest.mark.usefixtures("float64")


def full(lattice, samples=1):
    places = lattice.positions().double().expand(samples, -1, -1)
    return Arrangement(lattice.counts, lattice.periodic, places, torch.ones(samples, lattice.size, dtype=torch.bool))


def functions(lattice, batch=2):
    return (torch.randn(batch, 2, lattice.size, 5) for _ in range(3))


@pytest.mark.parametrize("periodic", [False, True], ids=["box", "torus"])
@pytest.mark.parametrize("counts", [(6,), (4, 5), (2, 3, 4)])
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
def test_on_a_full_lattice_it_is_the_lattices_own_pattern(periodic, counts, with_bias):
    lattice = Lattice(counts, (periodic,) * len(counts))
    q, k, v = functions(lattice)
    bias = RelativeBias(hidden=7).build(8, 2, len(counts)) if with_bias else None
    everywhere = CentreAttention().attend(q, k, v, full(lattice), bias)
    torch.testing.assert_close(everywhere, GlobalAttention().definition(q, k, v, lattice, bias))
    near = CentreAttention(radius=1.0).attend(q, k, v, full(lattice), bias)
    torch.testing.assert_close(near, NeighborhoodAttention(radius=1).definition(q, k, v, lattice, bias))


@pytest.mark.parametrize("radius", [None, 0.7])
def test_it_equals_its_definition_where_cells_lie_anywhere(radius):
    centres, filled = torch.rand(3, 9, 2) * 3, torch.rand(3, 9) > 0.3
    arrangement = Arrangement((9,), (False,), centres, filled)
    q, k, v = (torch.randn(3, 2, 9, 5) for _ in range(3))
    bias = RelativeBias(hidden=7).build(8, 2, 2)
    pattern = CentreAttention(radius=radius)
    torch.testing.assert_close(
        pattern.attend(q, k, v, arrangement, bias), pattern.definition(q, k, v, arrangement, bias)
    )
    # and by hand, pair by pair
    for sample in range(3):
        for row in range(9):
            seen = [
                column
                for column in range(9)
                if column == row
                or (
                    filled[sample, column]
                    and (radius is None or (centres[sample, row] - centres[sample, column]).abs().max() <= radius)
                )
            ]
            score = q[sample, :, row] @ k[sample, :, seen].mT
            expected = torch.einsum(
                "hs,hsf->hf", torch.softmax(score.diagonal(dim1=0, dim2=1).mT, -1), v[sample, :, seen]
            )
            result = pattern.attend(q, k, v, arrangement)[sample, :, row]
            torch.testing.assert_close(result, expected)


def test_empty_cells_are_not_looked_at_but_look():
    lattice = Lattice((5,), (False,))
    arrangement = full(lattice)
    arrangement.filled[0, 2] = False
    q, k, v = functions(lattice)
    other = v.clone()
    other[:, :, 2] += 1
    first, second = (CentreAttention().attend(q, k, values, arrangement) for values in (v, other))
    kept = [0, 1, 3, 4]
    assert torch.equal(first[:, :, kept], second[:, :, kept])
    assert not torch.equal(first[:, :, 2], second[:, :, 2])
    without = CentreAttention().attend(q[:, :, kept], k[:, :, kept], v[:, :, kept], full(Lattice((4,), (False,))))
    torch.testing.assert_close(first[:, :, kept], without)


def test_a_lattice_without_centres_is_refused():
    lattice = Lattice((4,), (False,))
    with pytest.raises(ValueError, match="needed the arrangement of a PointOperator's cells"):
        CentreAttention().attend(*functions(lattice), lattice)
    with pytest.raises(ValueError, match="radius=-1 must be at least 0"):
        CentreAttention(radius=-1)
