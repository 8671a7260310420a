"""Groups of cells: each cell looks from one place, and sees in its group exactly what its pattern lets it see."""

import pytest
import torch

from mondrian import WindowedAttention
from mondrian.attention.tiles import best_tile, tiles, windows
from mondrian.decomposition import Lattice
from tests.attention.cases import CASES, LATTICES, patterns

GROUPED = [(place, kind) for place, kind in CASES if kind not in ("global", "zero rule")]


def groups_of(lattice, spec):
    if isinstance(spec, WindowedAttention):
        return windows(lattice, spec.window, spec.shift, torch.device("cpu"))
    return tiles(lattice, spec.radius, torch.device("cpu"))


@pytest.mark.parametrize(("place", "kind"), GROUPED)
def test_joining_the_groups_undoes_the_split(place, kind):
    lattice = LATTICES[place]
    groups = groups_of(lattice, patterns(lattice)[kind])
    if groups is not None:
        u = torch.randn(2, 3, lattice.size, 5)
        assert torch.equal(groups.join(groups.split(u, groups.queries)), u)


@pytest.mark.parametrize(("place", "kind"), GROUPED)
def test_each_cell_sees_in_its_group_what_its_pattern_says_and_every_cell_once(place, kind):
    lattice = LATTICES[place]
    spec = patterns(lattice)[kind]
    groups = groups_of(lattice, spec)
    if groups is None:
        return
    count, inner = groups.queries.shape
    seen = torch.ones(count, inner, groups.keys.shape[1]).bool() if groups.hidden is None else groups.hidden == 0
    for cell, place_in_groups in enumerate(groups.back.tolist()):
        group, query = divmod(place_in_groups, inner)
        seen_cells = groups.keys[group][seen[group, query]]
        assert sorted(seen_cells.tolist()) == spec.sees(lattice)[cell].nonzero().flatten().tolist()
        true = lattice.offsets()[cell, seen_cells]
        assert torch.equal(groups.offsets[query][seen[group, query]], true)


def test_a_tile_need_not_be_a_square():
    assert best_tile(Lattice((32, 32), (False, False)), 2) == (4, 8)
    assert best_tile(Lattice((2, 512), (False, False)), 1) == (2, 8)
