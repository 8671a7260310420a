"""Some rows of a lattice, with the rows that they see beside them, attend as they do in the whole."""

import pytest
import torch

from mondrian.decomposition import Lattice
from mondrian.lattice import LatticeRows, Rows, Slab
from tests.attention.cases import CASES, LATTICES, bias, functions, gaze, patterns

pytestmark = pytest.mark.usefixtures("float64")


def stretches(lattice):
    """The first row, some in the middle, the last two, and all."""
    count = lattice.counts[0]
    return [(0, 1), (1, count // 2 + 1), (count - 2, count), (0, count)]


@pytest.mark.parametrize(("place", "kind"), CASES)
@pytest.mark.parametrize("biased", [bias, gaze])
def test_rows_attend_as_in_the_whole(place, kind, biased):
    lattice = LATTICES[place]
    spec, network = patterns(lattice)[kind], biased(lattice)
    q, k, v = functions(lattice)
    for start, stop in stretches(lattice):
        rows = Rows(lattice, start, stop)
        keys = spec.seen_by(rows)
        for attend in (spec.attend, spec.definition):
            expected = attend(q, k, v, lattice, network)[:, :, rows.cells()]
            part = attend(
                q[:, :, rows.cells()], k[:, :, keys.cells()], v[:, :, keys.cells()], LatticeRows(rows, keys), network
            )
            torch.testing.assert_close(part, expected)
            weights = torch.randn_like(part)
            result, wanted = (
                torch.autograd.grad((y * weights).sum(), (q, k, v, *network.parameters())) for y in (part, expected)
            )
            torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_the_rows_that_are_seen_are_those_of_the_definition_and_no_more_than_whole_windows(place, kind):
    lattice = LATTICES[place]
    spec = patterns(lattice)[kind]
    for start, stop in stretches(lattice):
        rows = Rows(lattice, start, stop)
        sees = torch.ones_like(spec.sees(lattice)) if kind == "zero rule" else spec.sees(lattice)
        needed = sees[rows.cells()].any(dim=0).view(lattice.counts[0], -1).any(dim=1).nonzero().flatten()
        held = torch.arange(*((seen := spec.seen_by(rows)).start, seen.stop)) % lattice.counts[0]
        assert torch.equal(held.sort().values, needed)


def test_rows_know_their_places():
    lattice = Lattice((5, 3), (True, False))
    rows = Rows(lattice, -2, 2)
    assert torch.equal(lattice.positions()[rows.cells()], rows.positions())
    assert torch.equal(rows.local_row(rows.positions()[:, 0]), torch.arange(4).repeat_interleave(3))
    assert torch.equal(LatticeRows(rows, rows).offsets(), lattice.offsets()[rows.cells()][:, rows.cells()])
    assert Rows.within(lattice, -3, 4) == Rows(lattice, -3, 2)
    assert Rows.within(Lattice((5,), (False,)), -3, 9) == Rows(Lattice((5,), (False,)), 0, 5)


@pytest.mark.parametrize(("start", "stop"), [(2, 2), (-1, 2), (4, 6), (0, 6)])
def test_rows_that_are_not_there_are_refused(start, stop):
    with pytest.raises(ValueError, match=f"rows {start} to {stop}"):
        Rows(Lattice((5,), (False,)), start, stop)


def test_a_slab_by_itself_sees_itself():
    slab = Slab(Lattice((6,), (True,)), 1, 4)
    u = torch.randn(2, 3, 4, 5)
    rows, (seen,) = slab.gather(patterns(slab.lattice)["neighbourhood"], u)
    assert rows == LatticeRows(slab.rows, slab.rows)
    assert seen is u
