"""Position encodings: what they know, and what they must not know."""

import pytest
import torch

from mondrian import (
    Gaze,
    GlobalAttention,
    LearnedPosition,
    Midpoint,
    NeighborhoodAttention,
    RelativeBias,
    Rotary,
    WindowedAttention,
)
from mondrian.attention.position import FLOOR, rotate
from mondrian.decomposition import Lattice
from mondrian.quadrature import Cell

pytestmark = pytest.mark.usefixtures("float64")
SQUARE, TORUS = Lattice((4, 6), (False, False)), Lattice((4, 6), (True, True))


def test_a_learned_position_of_degree_zero_is_one_vector_a_subdomain():
    built = LearnedPosition().build(5, (4, 6))
    assert built.table.shape == (24, 5, 1)
    v = torch.zeros(1, 24, 5, 9)
    added = built(v, Cell.build((3, 3), Midpoint()), SQUARE)
    torch.testing.assert_close(added, built.table.expand(1, 24, 5, 9))


def test_a_learned_function_is_the_same_polynomial_at_every_resolution():
    built = LearnedPosition(degree=2).build(5, (4, 6))
    coarse, fine = Cell.build((3, 3), Midpoint()), Cell.build((9, 9), Midpoint())
    on_coarse = built(torch.zeros(1, 24, 5, 9), coarse, SQUARE).view(24, 5, 3, 3)
    on_fine = built(torch.zeros(1, 24, 5, 81), fine, SQUARE).view(24, 5, 9, 9)
    torch.testing.assert_close(on_fine[..., 1::3, 1::3], on_coarse)
    assert on_coarse.std(dim=(2, 3)).amin() > 1e-4  # a function of space, not a vector
    third_difference = on_fine.diff(n=3, dim=-1)
    torch.testing.assert_close(third_difference, torch.zeros_like(third_difference))


def test_a_tiled_position_repeats_over_the_lattice():
    built = LearnedPosition(tile=(2, 3)).build(5, (2, 3))
    added = built(torch.zeros(1, 24, 5, 4), Cell.build((2, 2), Midpoint()), SQUARE).view(4, 6, 5, 4)
    torch.testing.assert_close(added[:2, :3], added[2:, 3:])
    torch.testing.assert_close(added[0, 4, :, 0], built.table.view(2, 3, 5)[0, 1])


def test_a_learned_position_refuses_other_numbers_of_subdomains_and_says_what_to_choose():
    built = LearnedPosition().build(5, (4, 6))
    other = Lattice((8, 6), (False, False))
    with pytest.raises(ValueError, match=r"subdomains=\(8, 6\), but .* functions for \(4, 6\).*RelativeBias, Gaze"):
        built(torch.zeros(1, 48, 5, 4), Cell.build((2, 2), Midpoint()), other)


def test_the_relative_bias_depends_on_the_offset_alone():
    network = RelativeBias(hidden=7).build(16, 3, 2)
    bias = network(SQUARE.offsets(), SQUARE.reach).view(3, 4, 6, 4, 6)
    torch.testing.assert_close(bias[:, 1:, 1:, 1:, 1:], bias[:, :-1, :-1, :-1, :-1])
    assert not torch.allclose(bias[:, 0, 0, 1, 0], bias[:, 1, 0, 0, 0])  # the way back is another offset


def test_the_relative_bias_is_the_network_at_each_offset():
    network = RelativeBias().build(16, 3, 2)
    offsets = SQUARE.offsets()
    scaled = offsets.sign() * torch.log2(1 + offsets.abs().double()) / 3
    direct = network.second(torch.nn.functional.gelu(network.first(scaled))).permute(2, 0, 1)
    torch.testing.assert_close(network(offsets, SQUARE.reach), direct)


def test_the_relative_bias_takes_the_same_values_on_larger_lattices():
    network = RelativeBias().build(16, 3, 2)
    large = Lattice((9, 8), (False, False))
    small_bias = network(SQUARE.offsets(), SQUARE.reach).view(3, 4, 6, 4, 6)
    large_bias = network(large.offsets(), large.reach).view(3, 9, 8, 9, 8)
    torch.testing.assert_close(large_bias[:, 2:6, 1:7, 2:6, 1:7], small_bias)


def test_on_a_torus_the_relative_bias_goes_the_shorter_way_round():
    network = RelativeBias().build(16, 3, 2)
    bias = network(TORUS.offsets(), TORUS.reach).view(3, 4, 6, 4, 6)
    rolled = bias.roll((1, 2, 1, 2), dims=(1, 2, 3, 4))
    torch.testing.assert_close(rolled, bias)


def test_a_gaze_is_a_parabola_round_the_place_that_each_head_looks_at():
    bias = Gaze(sharpness=3.0).build(16, 10, 2)
    table = bias(SQUARE.offsets(), SQUARE.reach)
    places = [(-1, 0), (0, -1), (0, 1), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1), (-1, 0), (0, -1)]
    assert bias.place.tolist() == [list(map(float, place)) for place in places]
    for head, place in enumerate(places):
        expected = -3.0 * (SQUARE.offsets() - torch.tensor(place)).square().sum(dim=-1).double()
        expected = expected.clamp_min(FLOOR)
        torch.testing.assert_close(table[head], expected)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_first_heads_look_along_each_axis_both_ways(dim):
    places = Gaze().build(8, 2 * dim, dim).place
    assert (places.abs().sum(dim=1) == 1).all()
    assert len({tuple(place.tolist()) for place in places}) == 2 * dim


@pytest.mark.parametrize("spec", [GlobalAttention(), NeighborhoodAttention(radius=1)], ids=["global", "neighbours"])
def test_an_unblinking_head_copies_what_its_neighbour_has(spec):
    torus = Lattice((4, 6), (True, True))
    bias = Gaze(sharpness=200.0).build(8, 4, 2)
    q, k, v = torch.randn(3, 2, 4, 24, 5)
    seen = spec.attend(q, k, v, torus, bias, scale=0.1).view(2, 4, 4, 6, 5)
    for head, place in enumerate(bias.place.long().tolist()):
        neighbour = v.view(2, 4, 4, 6, 5)[:, head].roll([-step for step in place], dims=(1, 2))
        torch.testing.assert_close(seen[:, head], neighbour)


def on_ring(bias: torch.nn.Module, *counts: int) -> torch.Tensor:
    """The biases of a lattice that closes along every axis."""
    ring = Lattice(counts, (True,) * len(counts))
    return bias(ring.offsets(), ring.reach, counts)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_on_a_ring_the_heads_that_look_both_ways_are_mirror_images(n):
    backward, forward = on_ring(Gaze().build(8, 2, 1), n)
    mirror = -torch.arange(n) % n
    torch.testing.assert_close(forward, backward[mirror][:, mirror])
    for head, step in ((backward, -1), (forward, 1)):
        assert torch.equal(head.argmax(dim=1), (torch.arange(n) + step) % n)
        torch.testing.assert_close(head.amax(dim=1), torch.zeros(n))


@pytest.mark.parametrize("place", [0.3, 1.0, 1.9, -2.4, 7.25])
def test_on_a_ring_a_gaze_takes_the_nearest_of_all_images(place):
    bias = Gaze(sharpness=1.5).build(8, 1, 1)
    torch.nn.init.constant_(bias.place, place)
    for n in (1, 2, 4, 5):
        cells = torch.arange(n)
        images = cells[None, :, None] - cells[:, None, None] + n * torch.arange(-20, 21) - place
        nearest = (-1.5 * images.square().amin(dim=-1)).clamp_min(FLOOR)
        torch.testing.assert_close(on_ring(bias, n)[0], nearest)


def test_on_a_torus_a_gaze_knows_the_offset_alone_and_turns_with_the_lattice():
    bias = Gaze().build(8, 8, 2)
    torch.nn.init.normal_(bias.place, std=2.0)
    table = on_ring(bias, 4, 3).view(8, 4, 3, 4, 3)
    torch.testing.assert_close(table.roll((1, 2, 1, 2), dims=(1, 2, 3, 4)), table)


def test_a_ring_beside_a_wall_leaves_the_way_to_the_wall_alone():
    bias = Gaze().build(8, 3, 2)
    torch.nn.init.normal_(bias.place, std=2.0)
    mixed = Lattice((4, 6), (False, True))
    table = bias(mixed.offsets(), mixed.reach, (0, 6))
    along = [
        Lattice((n,), (ring,)).offsets()[..., None, :] - bias.place[:, axis, None]
        for axis, (n, ring) in enumerate(zip(mixed.counts, mixed.periodic, strict=True))
    ]
    wall = along[0].square().sum(-1)
    ring = torch.stack([along[1] + shift for shift in range(-18, 19, 6)]).square().amin(dim=0).sum(-1)
    expected = -2.0 * (wall[:, None, :, None] + ring[None, :, None, :]).permute(4, 0, 1, 2, 3).reshape(3, 24, 24)
    torch.testing.assert_close(table, expected.clamp_min(FLOOR))


def test_a_gaze_makes_no_denormal_weights():
    line = Lattice((64,), (False,))
    bias = Gaze(sharpness=2.0).build(8, 2, 1).float()
    zero = torch.zeros(1, 2, 64, 1)
    weights = GlobalAttention().weights(zero.float(), zero.float(), line, bias)
    assert weights.amin() > torch.finfo(torch.float32).tiny
    sharp = Gaze(sharpness=1.9).build(8, 2, 1)  # beyond the floor nothing counts, so nothing is learned either
    sharp(line.offsets(), line.reach).sum().backward()
    assert sharp.log_sharpness.grad.isfinite().all()


def test_without_rings_a_gaze_is_what_it_was_to_the_last_bit():
    bias = Gaze().build(8, 4, 2)
    torch.nn.init.normal_(bias.place)
    ways = SQUARE.offsets().to(bias.place.dtype)[..., None, :]
    parabola = (-bias.log_sharpness.exp() * (ways - bias.place).square().sum(dim=-1)).permute(2, 0, 1)
    parabola = parabola.clamp_min(FLOOR)
    for rings in ((), (0, 0)):
        assert torch.equal(bias(SQUARE.offsets(), SQUARE.reach, rings), parabola)


@pytest.mark.parametrize("n", [2, 3])
def test_on_the_smallest_rings_every_pattern_copies_the_neighbour_it_looks_at(n):
    ring, bias = Lattice((n,), (True,)), Gaze(sharpness=400.0).build(8, 2, 1)
    q, k, v = torch.randn(3, 1, 2, n, 5)
    for spec in (GlobalAttention(), WindowedAttention(window=(n,)), NeighborhoodAttention(radius=1)):
        for attend in (spec.attend, spec.definition):
            seen = attend(q, k, v, ring, bias, scale=0.1)
            for head, step in enumerate((-1, 1)):
                torch.testing.assert_close(seen[:, head], v[:, head].roll(-step, dims=1))


def test_neighbours_on_a_ring_that_is_not_seen_all_round_do_not_know_how_long_it_is():
    bias = Gaze().build(8, 2, 1)
    torch.nn.init.normal_(bias.place, std=2.0)
    q, k, v = torch.randn(3, 1, 2, 4, 5)
    for spec in (NeighborhoodAttention(radius=1), WindowedAttention(window=(2,), shift=(1,))):
        once = spec.attend(q, k, v, Lattice((4,), (True,)), bias)
        twice = spec.attend(*(part.repeat(1, 1, 2, 1) for part in (q, k, v)), Lattice((8,), (True,)), bias)
        torch.testing.assert_close(twice, once.repeat(1, 1, 2, 1))


def test_a_gaze_refuses_a_sharpness_that_is_none():
    for sharpness in (0.0, -1.0, torch.inf, torch.nan):
        with pytest.raises(ValueError, match=r"sharpness=.* must be positive and finite"):
            Gaze(sharpness=sharpness)


def scores(lattice: Lattice, rotary: Rotary, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """Inner products of one function, put into every cell, with another."""
    angles = rotary.angles(q.shape[0] // 2, lattice, q.device)
    q, k = (rotate(u.expand(1, lattice.size, 1, *u.shape), angles) for u in (q, k))
    return torch.einsum("bihcp,bjhcp->ij", q, k)


@pytest.mark.parametrize("lattice", [SQUARE, TORUS, Lattice((5,), (False,)), Lattice((3, 4, 5), (True, False, True))])
def test_rotated_scores_depend_on_the_offset_alone(lattice):
    q, k = torch.randn(2, 13, 4)  # an odd channel stays as it is
    table = scores(lattice, Rotary(), q, k)
    scores_at: dict[tuple[int, ...], float] = {}
    offsets = lattice.offsets()
    for i in range(lattice.size):
        for j in range(lattice.size):
            offset = tuple(offsets[i, j].tolist())
            assert table[i, j].item() == pytest.approx(scores_at.setdefault(offset, table[i, j].item()), abs=1e-10)
    assert len({round(value, 6) for value in scores_at.values()}) > 1


def test_rotation_keeps_the_length_of_a_function():
    angles = Rotary().angles(6, SQUARE, torch.device("cpu"))
    u = torch.randn(2, 24, 3, 12, 5)
    torch.testing.assert_close(rotate(u, angles).norm(dim=3), u.norm(dim=3))


def test_rotary_needs_two_channels_an_axis():
    with pytest.raises(ValueError, match="Rotary needs 4 channels a head in 2 dimensions; got 2"):
        Rotary().angles(1, SQUARE, torch.device("cpu"))
    with pytest.raises(ValueError, match=r"base=1.0 must be greater than 1"):
        Rotary(base=1.0)


def test_in_low_precision_a_rotation_still_knows_the_offset_alone_on_a_long_line():
    line, u = Lattice((64,), (False,)), torch.randn(8, 1)
    turned = rotate(u.expand(1, 64, 1, 8, 1).bfloat16(), Rotary(base=20.0).angles(4, line, u.device)).double()
    scores = torch.einsum("cdp,edp->ce", turned[0, :, 0], turned[0, :, 0])
    moved = scores[1:, 1:] - scores[:-1, :-1]
    assert moved.abs().amax() < 0.02 * u.square().sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lattice", [SQUARE, TORUS], ids=["square", "torus"])
def test_every_position_stays_near_itself_in_lower_precision(dtype, lattice):
    size = {torch.float32: 1e-5, torch.bfloat16: 0.03}[dtype]
    cells = [Cell.build((4, 3), Midpoint(), dtype=kind) for kind in (torch.float64, dtype)]
    v = torch.randn(1, lattice.size, 6, 12)
    learned = LearnedPosition(degree=2, tile=(2, 3)).build(6, (2, 3))
    network = RelativeBias().build(16, 3, 2)
    offsets, reach = lattice.offsets(), lattice.reach
    angles = Rotary().angles(3, lattice, v.device)
    exact = (learned(v, cells[0], lattice), network(offsets, reach), rotate(v[:, :, None], angles))
    low = (
        learned.to(dtype)(v.to(dtype), cells[1], lattice),
        network.to(dtype)(offsets, reach),
        rotate(v[:, :, None].to(dtype), angles),
    )
    for one, other in zip(low, exact, strict=True):
        assert one.dtype == dtype
        assert (one.double() - other).abs().amax() < size * other.abs().amax()


def test_a_width_below_zero_is_refused():
    with pytest.raises(ValueError, match="hidden=-1 must be at least 0"):
        RelativeBias(hidden=-1)
