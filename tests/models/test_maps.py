"""Attention maps are the weights that the model computes with, located at its subdomains."""

import pytest
import torch

from mondrian import (
    Boxes,
    GlobalAttention,
    Grid,
    NeighborhoodAttention,
    RelativeBias,
    SeparableMixture,
    WindowedAttention,
    point_no,
    unet_no,
    vit_no,
)
from mondrian.decomposition import Decomposition, Lattice
from mondrian.lattice import LatticeRows, Rows
from mondrian.models.baselines import FNOSpec
from mondrian.models.maps import attention_map
from mondrian.models.transformer import TransformerSpec
from mondrian.surrogate import Scale, SurrogateSpec

pytestmark = pytest.mark.usefixtures("float64")


def model(**settings):
    defaults = {"operator": SeparableMixture(terms=4, skip=True), "subdomains": (4, 4), "positions": (RelativeBias(),)}
    return TransformerSpec(in_channels=1, out_channels=1, hidden_channels=16, **(defaults | settings)).build()


@pytest.mark.parametrize("periodic", [(False, False), (True, True), (True, False)])
@pytest.mark.parametrize(
    "attention",
    [NeighborhoodAttention(n_heads=2, radius=1), WindowedAttention(n_heads=2, window=(2, 2), shift=(1, 1))],
)
def test_the_map_reproduces_the_output_of_the_attention_layer(periodic, attention) -> None:
    net = model(attention=attention, grid=Grid(extent=(1.0, 1.0), periodic=periodic), stagger=True)
    calls = []
    for block in net.blocks:
        block.attention.register_forward_hook(lambda layer, given, answer: calls.append((layer, given, answer.clone())))
    x = torch.randn(2, 1, 16, 16)
    maps = attention_map(net, x)
    assert len(maps) == len(calls) == 4
    for each, (layer, (u, cell, lattice), answer) in zip(maps, calls, strict=True):
        torch.testing.assert_close(each.weights.sum(dim=-1), torch.ones(2, 2, lattice.size))
        assert torch.equal(each.weights[0, 0] > 0, layer.spec.sees(lattice))
        _, _, v = layer.project(u, cell, parts=3)
        values = layer._heads(v, cell)
        again = layer.out(layer._merge(each.weights @ values, u, cell), cell)
        torch.testing.assert_close(again, answer)


def test_boxes_are_those_of_the_subdomains_and_of_the_moved_ones() -> None:
    """Each box holds the points that its cell holds; mirrored and wrapped ones reach over the ends."""
    grid = Grid(extent=(1.0, 1.0), points=(12, 20), periodic=(True, False))
    net = model(subdomains=(3, 4), grid=grid.with_points(()), stagger=True, n_layers=2)
    plain, moved = attention_map(net, torch.zeros(1, 1, 12, 20))
    base = Decomposition(grid, (3, 4))
    places = torch.stack(torch.broadcast_tensors(*grid.coordinates(dtype=torch.float64)))[None]  # of each point
    cells = {"plain": base.cut(places), "moved": base.staggered().move(base.cut(places))}
    for each, held in ((plain, cells["plain"]), (moved, cells["moved"])):
        boxes = each.boxes
        for number, box in enumerate(boxes):
            inside = (0.3 * box[:, 0] + 0.7 * box[:, 1]) % 1 if each is plain else box.mean(dim=1) % 1
            over = (box.mean(dim=1) < 0) | (box.mean(dim=1) > 1)
            if not over[1]:  # beyond a wall there is nothing
                assert each.at(inside.tolist()) == number
        assert len(boxes) == each.lattice.size == held.shape[1]
        for box, points in zip(boxes, held[0], strict=True):
            for axis, (low, high) in enumerate(box.tolist()):
                x = points[axis]
                inside = [(low < x) & (x < high)]
                if grid.periodic[axis]:
                    inside.append((low < x + 1) & (x + 1 < high))
                else:  # what lies beyond a wall is the mirror image of what is inside
                    inside += [(low < -x) & (-x < high), (low < 2 - x) & (2 - x < high)]
                assert torch.stack(inside).any(dim=0).all()


def test_a_surrogate_has_the_attention_maps_of_its_model_for_physical_inputs() -> None:
    net = model()
    spec = SurrogateSpec(net.spec, ("u[0]",), ("u[1]",), (Scale(shift=3.0, factor=2.0),), (Scale(),))
    surrogate = spec.build()
    surrogate.model.load_state_dict(net.state_dict())
    x = torch.randn(1, 1, 16, 16)
    for one, other in zip(attention_map(surrogate, 3 + 2 * x), attention_map(net, x), strict=True):
        assert one.block == f"model.{other.block}"
        torch.testing.assert_close(one.weights, other.weights)


def test_levels_of_a_unet_have_lattices_of_their_own() -> None:
    net = unet_no(in_channels=1, out_channels=1, hidden_channels=8, subdomains=(8, 8), levels=2)
    sizes = [each.lattice.counts for each in attention_map(net, torch.randn(1, 1, 32, 32))]
    assert {(8, 8), (4, 4)} == set(sizes)
    assert sizes[0] == sizes[-1] == (8, 8)  # down and up again


def test_blocks_of_a_unet_are_staggered_in_the_order_in_which_they_come() -> None:
    net = unet_no(in_channels=1, out_channels=1, hidden_channels=8, n_layers=1, subdomains=(4,), levels=2, stagger=True)
    assert [each.start for each in attention_map(net, torch.randn(1, 1, 16))] == [(0.0,), (0.0,), (-0.5,)]


def test_the_share_of_one_subdomain_makes_no_table_of_all_pairs() -> None:
    lattice = Lattice((256, 256), (True, False))  # all pairs would be 32 GiB of offsets
    rows = LatticeRows(Rows(lattice, 3, 4), Rows(lattice, 0, 256))
    windows = WindowedAttention(window=(4, 4), shift=(2, 2))
    for pattern, seen in ((NeighborhoodAttention(radius=2), 25), (windows, 16), (GlobalAttention(), 256**2)):
        assert int(pattern.sees(rows)[100].sum()) == seen


def test_looking_leaves_nothing_behind_even_when_it_fails() -> None:
    net = model()
    with pytest.raises(ValueError, match="channel"):
        attention_map(net, torch.randn(1, 3, 16, 16))
    assert all(not block.attention._forward_pre_hooks for block in net.blocks)
    assert attention_map(net, torch.randn(1, 1, 16, 16))[0].weights.requires_grad is False
    assert all(not block.attention._forward_pre_hooks for block in net.blocks)


def test_models_without_subdomains_have_none() -> None:
    fno = FNOSpec(in_channels=1, out_channels=1, grid=Grid(extent=(1.0, 1.0)), hidden_channels=4, modes=(4, 4)).build()
    assert attention_map(fno.double(), torch.randn(1, 1, 16, 16)) == []
    vit = vit_no(in_channels=1, out_channels=1, subdomains=(2, 2), hidden_channels=8)
    assert len(attention_map(vit, torch.randn(1, 1, 8, 8))) == 4


@pytest.mark.parametrize("periodic", [(False, False), (True, True)])
def test_one_query_has_the_same_weights_as_among_all(periodic) -> None:
    grid = Grid(extent=(1.0, 1.0), periodic=periodic)
    net = model(attention=NeighborhoodAttention(n_heads=2, radius=1), grid=grid, stagger=True)
    x = torch.randn(2, 1, 16, 16)
    for whole, alone in zip(attention_map(net, x), attention_map(net, x, at=(0.6, 0.1)), strict=True):
        number = whole.at((0.6, 0.1))
        assert alone.weights.shape[2] == 1
        torch.testing.assert_close(alone.weights[:, :, 0], whole.weights[:, :, number])


def test_models_of_points_are_refused_and_not_answered_with_nothing() -> None:
    net = point_no(in_channels=1, out_channels=1, hidden_channels=8, partition=Boxes(subdomains=(2, 2)))
    with pytest.raises(ValueError, match="model=PointOperator has no lattice of subdomains; needed a model"):
        attention_map(net, torch.randn(1, 1, 9))


@pytest.mark.parametrize("place", [(0.5,), (1.2, 0.0), (-0.1, 0.5)])
def test_a_place_outside_of_the_domain_is_refused(place) -> None:
    (first, *_) = attention_map(model(), torch.randn(1, 1, 16, 16))
    with pytest.raises(ValueError, match="must be from 0 to 1 along each of 2 axes"):
        first.at(place)
