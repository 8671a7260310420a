"""Attention patterns: each fast path against the full masked score matrix, and the limits where they meet."""

import pytest
import torch

from mondrian import GlobalAttention, NeighborhoodAttention, WindowedAttention
from mondrian.attention.tiles import best_tile
from mondrian.decomposition import Lattice
from tests.attention.cases import CASES, LATTICES, bias, functions, gaze, patterns

pytestmark = pytest.mark.usefixtures("float64")


def values_and_gradients(attend, qkv, lattice, network, scale=1.0):
    u = attend(*qkv, lattice, network, scale=scale)
    weights = list(network.parameters()) if network is not None else []
    return u, torch.autograd.grad(u.sin().sum(), [*qkv, *weights])


def assert_same(first, second, **tolerance):
    torch.testing.assert_close(first[0], second[0], **tolerance)
    for slope, true in zip(first[1], second[1], strict=True):
        torch.testing.assert_close(slope, true, **tolerance)


@pytest.mark.parametrize(("place", "kind"), CASES)
@pytest.mark.parametrize("biased", [lambda _: None, bias, gaze], ids=["plain", "biased", "gaze"])
def test_the_fast_path_equals_the_masked_score_matrix_in_values_and_gradients(place, kind, biased):
    lattice = LATTICES[place]
    spec = patterns(lattice)[kind]
    qkv, network = functions(lattice), biased(lattice)
    fast = values_and_gradients(spec.attend, qkv, lattice, network)
    plain = values_and_gradients(spec.definition, qkv, lattice, network)
    assert_same(fast, plain, rtol=1e-10, atol=1e-10)
    q, k, v = qkv
    with torch.no_grad():  # nothing learns: a kernel of the engine
        torch.testing.assert_close(spec.attend(q, k, v, lattice, network), plain[0], rtol=1e-10, atol=1e-10)
    scaled = values_and_gradients(spec.attend, qkv, lattice, network, scale=0.3)
    assert_same(scaled, values_and_gradients(spec.definition, qkv, lattice, network, scale=0.3), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(scaled[0], spec.definition(0.3 * q, k, v, lattice, network), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_no_cell_sees_beyond_its_pattern(place, kind):
    lattice = LATTICES[place]
    spec = patterns(lattice)[kind]
    q, k, v = (part.detach() for part in functions(lattice))
    u = spec.attend(q, k, v, lattice)
    far = ~spec.sees(lattice)[0]
    k, v = k.clone(), v.clone()
    k[:, :, far] += 1
    if kind != "zero rule":  # there the far values count by definition; their keys do not
        v[:, :, far] += 1
    torch.testing.assert_close(spec.attend(q, k, v, lattice)[:, :, 0], u[:, :, 0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("place", ["1-D", "1-D ring", "2-D", "2-D torus", "2-D mixed", "3-D"])
@pytest.mark.parametrize("biased", [lambda _: None, bias, gaze], ids=["plain", "biased", "gaze"])
def test_one_window_or_a_radius_as_wide_as_the_domain_is_global_attention(place, biased):
    lattice = LATTICES[place]
    qkv, network = functions(lattice), biased(lattice)
    everywhere = values_and_gradients(GlobalAttention().attend, qkv, lattice, network)
    one_window = WindowedAttention(window=lattice.counts)
    wide = NeighborhoodAttention(radius=max(lattice.counts) - 1)
    literal = NeighborhoodAttention(radius=max(lattice.counts) - 1, zero_far=True)
    for spec in (one_window, wide, literal):
        assert_same(values_and_gradients(spec.attend, qkv, lattice, network), everywhere, rtol=1e-10, atol=1e-10)


def test_a_radius_of_nothing_returns_the_values():
    lattice = LATTICES["2-D large"]
    q, k, v = functions(lattice)
    torch.testing.assert_close(NeighborhoodAttention(radius=0).attend(q, k, v, lattice), v)


@pytest.mark.parametrize("kind", ["windowed", "shifted", "neighbourhood", "zero rule", "large windows"])
def test_on_a_torus_moving_the_cells_by_whole_windows_moves_the_output(kind):
    lattice = LATTICES["2-D torus"]
    spec = patterns(lattice)[kind]
    step = spec.window if isinstance(spec, WindowedAttention) else (1, 3)

    def moved(u):
        return u.unflatten(2, lattice.counts).roll(step, dims=(2, 3)).flatten(2, 3)

    qkv, network = functions(lattice), bias(lattice)
    u = spec.attend(*qkv, lattice, network)
    torch.testing.assert_close(spec.attend(*(moved(part) for part in qkv), lattice, network), moved(u))


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_on_a_ring_rolling_by_a_whole_window_changes_nothing_but_the_place(shift):
    lattice = LATTICES["1-D ring"]
    spec = WindowedAttention(window=(4,), shift=(shift,))
    qkv = functions(lattice)
    u = spec.attend(*qkv, lattice)
    for step, same in ((4, True), (8, True), (2, False)):
        rolled = spec.attend(*(part.roll(step, dims=2) for part in qkv), lattice)
        assert torch.allclose(rolled, u.roll(step, dims=2), atol=1e-12) == same


def test_shifted_windows_do_not_join_opposite_ends_unless_the_axis_is_a_ring():
    spec = WindowedAttention(window=(4,), shift=(2,))
    assert not spec.sees(Lattice((12,), (False,)))[0, 11]
    assert spec.sees(Lattice((12,), (True,)))[0, 11]


def test_the_literal_zero_rule_lets_far_cells_take_part_with_weight_one():
    lattice = Lattice((5,), (False,))
    q = torch.zeros(1, 1, 5, 3)
    v = torch.arange(5.0).view(1, 1, 5, 1).expand(-1, -1, -1, 3)
    zero = NeighborhoodAttention(radius=1, zero_far=True).attend(q, q, v, lattice)
    torch.testing.assert_close(zero, torch.full_like(zero, 2.0))  # all scores are zero: the mean of everything
    excluded = NeighborhoodAttention(radius=1).attend(q, q, v, lattice)
    torch.testing.assert_close(excluded[0, 0, :, 0], torch.tensor([0.5, 1.0, 2.0, 3.0, 3.5]))


def test_the_zero_rule_is_stable_for_large_scores():
    lattice = Lattice((16,), (False,))
    q, k, v = (part.detach() * 40 for part in functions(lattice))
    spec = NeighborhoodAttention(radius=2, zero_far=True)
    torch.testing.assert_close(spec.attend(q, k, v, lattice), spec.definition(q, k, v, lattice))


EXTREMES = {
    "one cell": (Lattice((1,), (False,)), 0),
    "one cell of a ring": (Lattice((1, 1), (True, True)), 0),
    "itself alone": (Lattice((13, 16), (False, True)), 0),
    "some near": (Lattice((13, 16), (False, True)), 1),
    "all but one near": (Lattice((4, 3), (False, False)), 2),
    "all near": (Lattice((4, 3), (False, False)), 3),
    "all near on a ring": (Lattice((5,), (True,)), 2),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", EXTREMES)
@pytest.mark.parametrize("size", [1e-4, 1.0, 10.0, 15.0, 20.0, 100.0, 1e4])
@pytest.mark.parametrize("sign", [-1, 0, 1], ids=["below nought", "both signs", "above nought"])
def test_every_pattern_is_its_definition_with_scores_of_any_size(dtype, case, size, sign):
    lattice, radius = EXTREMES[case]
    draw = torch.Generator().manual_seed(int(size) + sign)
    q, k, v = (torch.randn(2, 2, lattice.size, 3, generator=draw, dtype=torch.float64) for _ in range(3))
    q, k = (q, k) if sign == 0 else (q.abs(), sign * k.abs())
    scale = size / torch.einsum("bhif,bhjf->bhij", q, k).abs().amax().item()
    window = tuple(n if ring else min(2, n) for n, ring in zip(lattice.counts, lattice.periodic, strict=True))
    patterns = [GlobalAttention(), WindowedAttention(window=window), WindowedAttention(window=lattice.counts)]
    patterns += [NeighborhoodAttention(radius=radius), NeighborhoodAttention(radius=radius, zero_far=True)]
    q, k, v = (part.to(dtype) for part in (q, k, v))
    slack = 16 * torch.finfo(dtype).eps * (size + lattice.size)  # the scores are rounded, relative to the largest
    for spec in patterns:
        exact = spec.definition(q.double(), k.double(), v.double(), lattice, scale=scale)
        u = spec.attend(q, k, v, lattice, scale=scale)
        assert (u.double() - exact).abs().amax() <= slack * v.abs().amax(), spec


@pytest.mark.parametrize("case", EXTREMES)
def test_the_zero_rule_has_the_gradients_of_its_definition_with_large_scores(case):
    lattice, radius = EXTREMES[case]
    spec, qkv = NeighborhoodAttention(radius=radius, zero_far=True), functions(lattice)
    for scale in (-20.0, 20.0):
        fast, plain = (values_and_gradients(way, qkv, lattice, None, scale) for way in (spec.attend, spec.definition))
        assert_same(fast, plain, rtol=1e-7, atol=1e-9)


def test_tiles_do_less_work_than_the_full_matrix_where_there_is_something_to_save():
    large = Lattice((32, 32), (False, False))
    tile = best_tile(large, 2)
    assert tile is not None
    tiles = (32 // tile[0]) * (32 // tile[1])
    assert tiles * tile[0] * tile[1] * (tile[0] + 4) * (tile[1] + 4) < large.size**2 / 4
    assert best_tile(Lattice((4, 4), (False, False)), 2) is None
    assert best_tile(Lattice((4, 4), (True, True)), 2) is None


@pytest.mark.parametrize(
    ("spec", "lattice", "message"),
    [
        (
            WindowedAttention(window=(8,)),
            Lattice((6,), (False,)),
            r"window=\(8,\) is larger than the \(6,\) subdomains",
        ),
        (WindowedAttention(window=(4,)), Lattice((6,), (True,)), r"window=\(4,\) must divide the \(6,\) subdomains"),
        (WindowedAttention(window=(2, 2)), Lattice((6,), (True,)), r"window=\(2, 2\) has 2 axes; the decomposition 1"),
        (
            NeighborhoodAttention(radius=6),
            Lattice((6, 4), (True, False)),
            r"radius=6 is too large for \(6, 4\).*at most 5",
        ),
    ],
)
def test_a_pattern_that_does_not_fit_is_refused(spec, lattice, message):
    q = torch.randn(1, 1, lattice.size, 4)
    for attend in (spec.attend, spec.definition):
        with pytest.raises(ValueError, match=message):
            attend(q, q, q, lattice)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: WindowedAttention(window=(4, 4), shift=(4, 0)),
            r"shift=\(4, 0\) must be at least 0 and less",
        ),
        (lambda: WindowedAttention(window=(4, 4), shift=(1,)), r"shift=\(1,\) of the same length"),
        (lambda: WindowedAttention(window=(0,)), r"window=\(0,\) must be positive"),
        (lambda: NeighborhoodAttention(radius=-1), "radius=-1 must be at least 0"),
        (lambda: GlobalAttention(n_heads=0), "n_heads=0"),
        (lambda: GlobalAttention(spatial_heads=(2, 0)), r"spatial_heads=\(2, 0\) must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
