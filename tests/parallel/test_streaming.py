"""Fields worked off slab by slab are what they are in one piece."""

import pytest
import torch
import torch.distributed as dist

from mondrian import NeighborhoodAttention, vit_no
from mondrian.lattice import Rows
from mondrian.parallel import Processes, SpreadModel, needed_rows, stream
from tests.models.cases import small

pytestmark = pytest.mark.usefixtures("float64")


class Field:
    """A field that remembers how much of it was read at once."""

    def __init__(self, x):
        self.x = x
        self.most = 0

    def read(self, start, stop):
        self.most = max(self.most, stop - start)
        return self.x[:, :, start:stop]


@pytest.mark.parametrize("kind", ["swin", "nbr"])
@pytest.mark.parametrize("stagger", [False, True])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("relative", [False, True])
def test_slab_by_slab_is_the_whole(kind, stagger, periodic, relative):
    model = small(kind, periodic=periodic, relative=relative, stagger=stagger, subdomains=(24, 4), n_layers=3)
    field = Field(torch.randn(1, 2, 24 * 3, 4 * 2))
    grid = model.spec.default_grid.with_points((72, 8))
    with torch.no_grad():
        expected = model(field.x)
        for rows in (5, 24):
            field.most = 0
            slabs = list(stream(model, field.read, grid, rows=rows))
            assert [row for row, _ in slabs] == list(range(0, 72, 3 * rows))
            torch.testing.assert_close(torch.cat([y for _, y in slabs], dim=2), expected)
            assert (field.most < 72) == (rows == 5)


@pytest.mark.parametrize("periodic", [False, True])
def test_a_whole_that_slabs_depend_on_is_computed_once(periodic):
    model = small("nbr", periodic=periodic, subdomains=(8, 2), n_layers=4)
    x, read = torch.randn(1, 2, 16, 4), []

    def rows_of(start, stop):
        read.append((start, stop))
        return x[:, :, start:stop]

    with torch.no_grad():
        slabs = list(stream(model, rows_of, model.spec.default_grid.with_points((16, 4)), rows=1))
        torch.testing.assert_close(torch.cat([y for _, y in slabs], dim=2), model(x))
    assert read.count((0, 16)) == 1


def test_the_rows_that_are_read_are_all_that_matter_and_no_more():
    model = small("nbr", stagger=True, subdomains=(24, 2), n_layers=3)
    x = torch.randn(1, 2, 96, 4)
    whole = model.spec.decompose(model.spec.default_grid.with_points((96, 4)))
    held = needed_rows(model.spec, whole, Rows(whole.lattice, 10, 12))
    matters = torch.autograd.functional.jacobian(lambda u: model(u)[:, :, 40:48].sum(), x).abs().amax(dim=(0, 1, 3))
    rows = matters.view(24, 4).amax(dim=1).nonzero().flatten()
    assert (held.start, held.stop) == (rows[0], rows[-1] + 1) == (6, 16)


@pytest.mark.parametrize("kind", ["vit", "swin", "nbr"])
@pytest.mark.parametrize("stagger", [False, True])
def test_one_process_alone_is_a_group_too(kind, stagger, tmp_path):
    """On a ring its own rows are its neighbours."""
    model = small(kind, periodic=True, stagger=stagger, subdomains=(8, 4), n_layers=2)
    x = torch.randn(1, 2, 8 * 3, 4 * 2)
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    try:
        spread = SpreadModel(model, Processes(dist.group.WORLD))(x)
    finally:
        dist.destroy_process_group()
    torch.testing.assert_close(spread, model(x))


def test_what_sees_everything_cannot_be_streamed():
    model = vit_no(2, 3, hidden_channels=8, subdomains=(8, 2))
    grid = model.spec.default_grid.with_points((16, 4))
    with pytest.raises(ValueError, match="GlobalAttention attends to all 8 rows at once"):
        next(stream(model, Field(torch.randn(1, 2, 16, 4)).read, grid, rows=1))
    with pytest.raises(ValueError, match="rows=0 of subdomains at a time are too few"):
        next(stream(small("nbr"), Field(torch.randn(1, 2, 16, 12)).read, grid.with_points((16, 12)), rows=0))
    assert NeighborhoodAttention(zero_far=True).seen_by(Rows(model.spec.decompose(grid).lattice, 3, 4)).is_whole


def test_cuts_that_do_not_divide_the_points_are_refused():
    model = small("nbr")
    grid = model.spec.default_grid.with_points((18, 12))
    with pytest.raises(ValueError, match=r"do not divide the points=\(18, 12\)"):
        next(stream(model, Field(torch.randn(1, 2, 18, 12)).read, grid, rows=2))
