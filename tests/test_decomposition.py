"""Cutting a box into cells and joining them again; the lattice of the cells."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mondrian import Decomposition, Grid
from mondrian.decomposition import Lattice, cut, join
from tests.unchecked import unchecked

F64 = torch.float64
repeatable = settings(derandomize=True, deadline=None, max_examples=60)


def ramp(*shape: int) -> Tensor:
    """A tensor whose entries are all different."""
    return torch.arange(math.prod(shape), dtype=F64).reshape(shape)


@st.composite
def decompositions(draw: st.DrawFn) -> Decomposition:
    dim = draw(st.integers(1, 3))
    sizes = st.tuples(*[st.integers(1, 4)] * dim)
    counts, points = draw(sizes), draw(sizes)
    extent = draw(st.tuples(*[st.floats(0.1, 10.0)] * dim))
    periodic = draw(st.tuples(*[st.booleans()] * dim))
    total = tuple(n * count for n, count in zip(points, counts, strict=True))
    with unchecked():  # the checks draw random numbers, which hypothesis does not allow here
        return Decomposition(Grid(extent=extent, points=total, periodic=periodic), counts)


channels_and_batch = st.tuples(st.integers(1, 3), st.integers(1, 3))

# Cut and join


@repeatable
@given(decompositions(), channels_and_batch)
def test_joining_what_was_cut_gives_back_every_number(decomposition: Decomposition, leading: tuple[int, int]) -> None:
    u = ramp(*leading, *decomposition.grid.points)
    assert torch.equal(decomposition.join(decomposition.cut(u)), u)


@repeatable
@given(decompositions(), channels_and_batch)
def test_cutting_what_was_joined_gives_back_every_number(
    decomposition: Decomposition, leading: tuple[int, int]
) -> None:
    batch, channels = leading
    cells = ramp(batch, decomposition.lattice.size, channels, math.prod(decomposition.cell_points))
    assert torch.equal(decomposition.cut(decomposition.join(cells)), cells)


@repeatable
@given(decompositions())
def test_every_cell_holds_its_own_block_of_the_grid(decomposition: Decomposition) -> None:
    u = ramp(2, 3, *decomposition.grid.points)
    cells = decomposition.cut(u)
    for number, place in enumerate(decomposition.lattice.positions().tolist()):
        block = tuple(slice(i * n, (i + 1) * n) for i, n in zip(place, decomposition.cell_points, strict=True))
        assert torch.equal(cells[:, number], u[(slice(None), slice(None), *block)].flatten(2))


@repeatable
@given(decompositions())
def test_cells_partition_the_box_into_equal_physical_sizes(decomposition: Decomposition) -> None:
    grid, (first, *_) = decomposition.grid, decomposition.size
    volume = math.prod(decomposition.size) * decomposition.lattice.size
    assert volume == pytest.approx(math.prod(grid.extent), rel=1e-12)
    assert first == pytest.approx(grid.spacing[0] * decomposition.cell_points[0], rel=1e-12)
    x = decomposition.cut(grid.coordinates(dtype=F64)[None])[0]  # cell axis point
    centre = (torch.tensor(grid.origin) + torch.tensor(decomposition.size, dtype=F64) / 2)[None]
    centre = centre + decomposition.lattice.positions() * torch.tensor(decomposition.size, dtype=F64)
    torch.testing.assert_close(x.mean(dim=-1), centre, rtol=1e-10, atol=1e-10)


def test_one_subdomain_is_the_whole_grid_and_one_point_a_cell_is_the_flattened_grid() -> None:
    grid = Grid(extent=(1.0, 1.0), points=(3, 4))
    u = ramp(2, 5, 3, 4)
    assert torch.equal(Decomposition(grid, (1, 1)).cut(u), u.flatten(2)[:, None])
    assert torch.equal(Decomposition(grid, (3, 4)).cut(u), u.flatten(2).transpose(1, 2)[..., None])


def test_cutting_a_transposed_function_transposes_cells_and_points() -> None:
    u = ramp(1, 2, 6, 12)
    cells = cut(u, (2, 3)).reshape(1, 2, 3, 2, 3, 4)
    turned = cut(u.transpose(2, 3), (3, 2)).reshape(1, 3, 2, 2, 4, 3)
    assert torch.equal(turned, cells.transpose(1, 2).transpose(4, 5))


def test_the_gradient_of_cut_is_join_and_the_gradient_of_join_is_cut() -> None:
    decomposition = Decomposition(Grid(extent=(1.0, 2.0), points=(4, 6)), (2, 3))
    u = ramp(1, 2, 4, 6).requires_grad_()
    cells = decomposition.cut(u)
    cotangent = torch.randn(cells.shape, dtype=F64, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad(cells, u, cotangent)
    assert torch.equal(gradient, decomposition.join(cotangent))
    values = cotangent.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(decomposition.join(values), values, u.detach())
    assert torch.equal(gradient, decomposition.cut(u.detach()))


def test_join_is_the_sum_of_the_extensions_by_zero() -> None:
    counts, points = (2, 3), (2, 2)
    cells = ramp(1, 6, 1, 4) + 1
    alone = [torch.where(torch.arange(6)[:, None, None] == i, cells, 0.0) for i in range(6)]
    assert torch.equal(sum(join(each, counts, points) for each in alone), join(cells, counts, points))


# By size


@pytest.mark.parametrize(
    "extent, points, size, counts",
    [
        ((1.0,), (12,), (0.25,), (4,)),
        ((2.0, 1.0), (8, 8), (0.5, 0.5), (4, 2)),
        ((0.3,), (9,), (0.1,), (3,)),  # 0.1 has no finite binary expansion
        ((1.0, 2.0, 3.0), (2, 4, 6), (0.5, 1.0, 1.0), (2, 2, 3)),
        ((1.0,), (4,), (1.0,), (1,)),
    ],
)
def test_a_physical_size_gives_the_counts_that_it_fits(
    extent: tuple[float, ...], points: tuple[int, ...], size: tuple[float, ...], counts: tuple[int, ...]
) -> None:
    grid = Grid(extent=extent, points=points)
    decomposition = Decomposition.by_size(grid, size)
    assert decomposition == Decomposition(grid, counts)
    assert decomposition.size == pytest.approx(size, rel=1e-12)


@repeatable
@given(decompositions())
def test_cutting_by_the_size_of_the_subdomains_is_cutting_by_their_number(decomposition: Decomposition) -> None:
    assert Decomposition.by_size(decomposition.grid, decomposition.size) == decomposition


def test_a_wider_box_has_more_subdomains_of_the_same_size() -> None:
    for length in (1.0, 2.0, 5.0):
        grid = Grid(extent=(length,), points=(int(8 * length),))
        assert Decomposition.by_size(grid, (0.5,)).subdomains == (int(2 * length),)


@pytest.mark.parametrize("size", [(0.3,), (0.7,), (2.0,), (1e9,), (0.24,)])
def test_a_size_that_does_not_fit_a_whole_number_of_times_is_refused(size: tuple[float]) -> None:
    with pytest.raises(ValueError, match=rf"size=\({size[0]},\) does not divide extent=\(1\.0,\)"):
        Decomposition.by_size(Grid(extent=(1.0,), points=(12,)), size)


@pytest.mark.parametrize("size", [(math.nan,), (math.inf,), (0.0,), (-0.5,), (), (0.5, 0.5)])
def test_a_size_that_is_no_length_for_each_axis_is_refused(size: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"size=\(.*must hold 1 finite positive lengths"):
        Decomposition.by_size(Grid(extent=(1.0,), points=(12,)), size)


# Shift


def test_a_shift_moves_a_function_by_a_physical_amount() -> None:
    grid = Grid(extent=(2.0, 3.0), points=(16, 12), periodic=(True, True))
    decomposition = Decomposition(grid, (4, 3))
    amount = (0.375, -1.25)  # 3 points forward, 5 back

    def f(x: Tensor) -> Tensor:  # periodic on the box
        return torch.exp(torch.sin(2 * torch.pi * x[0] / 2.0)) + torch.cos(2 * torch.pi * x[1] / 3.0 + 1)

    x = grid.coordinates(dtype=F64)
    moved = f(x - torch.tensor(amount, dtype=F64)[:, None, None])
    torch.testing.assert_close(decomposition.shift(f(x)[None, None], amount)[0, 0], moved, rtol=0, atol=1e-13)


@pytest.mark.parametrize("points", [8, 16, 32])
def test_the_same_physical_shift_is_the_same_number_of_subdomains_at_every_resolution(points: int) -> None:
    decomposition = Decomposition(Grid(extent=(1.0,), points=(points,), periodic=(True,)), (4,))
    u = ramp(1, 1, points)
    moved = decomposition.shift(u, decomposition.size)
    assert torch.equal(decomposition.cut(moved), decomposition.cut(u).roll(1, dims=1))


def test_a_shift_there_and_back_and_a_shift_by_the_whole_box_change_nothing() -> None:
    decomposition = Decomposition(Grid(extent=(1.0, 2.0, 1.0), points=(4, 4, 2)), (2, 2, 1))
    u = ramp(2, 3, 4, 4, 2)
    there = decomposition.shift(u, (0.25, 0.5, 0.5))
    assert not torch.equal(there, u)
    assert torch.equal(decomposition.shift(there, (-0.25, -0.5, -0.5)), u)
    assert torch.equal(decomposition.shift(u, (1.0, 2.0, 1.0)), u)


@pytest.mark.parametrize(
    "amount, message",
    [
        ((0.1,), r"amount=\(0\.1,\) must be a whole number of spacings, \(0\.125,\)"),
        ((0.25, 0.25), r"amount=\(0\.25, 0\.25\) must hold 1 finite lengths"),
        ((math.nan,), r"amount=\(nan,\) must hold 1 finite lengths"),
        ((math.inf,), r"amount=\(inf,\) must hold 1 finite lengths"),
    ],
)
def test_a_shift_by_a_part_of_a_spacing_or_by_no_lengths_is_refused(amount: tuple[float, ...], message: str) -> None:
    decomposition = Decomposition(Grid(extent=(1.0,), points=(8,)), (2,))
    with pytest.raises(ValueError, match=message):
        decomposition.shift(ramp(1, 1, 8), amount)


@pytest.mark.parametrize("space", [(16,), (8, 8)])
def test_a_shift_of_a_function_on_another_grid_is_refused(space: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="u has shape"):
        Decomposition(Grid(extent=(1.0,), points=(8,)), (2,)).shift(ramp(1, 1, *space), (0.125,))


# Bad decompositions and tensors


@pytest.mark.parametrize(
    "subdomains, message",
    [
        ((2,), r"subdomains=\(2,\) has 1 axes; the grid has 2"),
        ((2, 2, 2), r"subdomains=\(2, 2, 2\) has 3 axes; the grid has 2"),
        ((0, 2), r"subdomains=\(0, 2\) must hold whole numbers of at least 1"),
        ((-2, 2), r"subdomains=\(-2, 2\) must hold whole numbers of at least 1"),
        ((8, 8), r"subdomains=\(8, 8\) do not divide the points=\(30, 30\)"),
        ((60, 1), r"subdomains=\(60, 1\) do not divide the points=\(30, 30\)"),
    ],
)
def test_subdomains_that_do_not_fit_the_grid_are_refused(subdomains: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Decomposition(Grid(extent=(1.0, 1.0), points=(30, 30)), subdomains)


@pytest.mark.parametrize("count", [2.0, 1.5, math.nan, True])
@unchecked()
def test_a_number_of_subdomains_that_is_no_integer_is_refused(count: float) -> None:
    with pytest.raises(ValueError, match=rf"subdomains=\({count},\) must hold whole numbers"):
        Decomposition(Grid(extent=(1.0,), points=(8,)), (count,))


@unchecked()
def test_subdomains_written_as_a_list_are_those_of_the_tuple() -> None:
    grid = Grid(extent=(1.0,), points=(8,))
    assert len({Decomposition(grid, [2]), Decomposition(grid, (2,))}) == 1


def test_a_box_without_points_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match=r"extent=\(1\.0,\) has no points"):
        Decomposition(Grid(extent=(1.0,)), (2,))


@pytest.mark.parametrize("shape", [(1, 1, 8), (1, 1, 6, 4), (1, 1, 4, 6, 1)])
def test_cutting_a_function_of_another_grid_is_refused_with_both_shapes(shape: tuple[int, ...]) -> None:
    decomposition = Decomposition(Grid(extent=(1.0, 1.0), points=(4, 6)), (2, 2))
    with pytest.raises(ValueError, match=r"u has shape \(1, 1, .*needed \(batch, channel, \*\(4, 6\)\)"):
        decomposition.cut(ramp(*shape))


@pytest.mark.parametrize("cells, points", [(3, 6), (4, 5), (6, 4)])
def test_joining_cells_of_another_decomposition_is_refused(cells: int, points: int) -> None:
    decomposition = Decomposition(Grid(extent=(1.0, 1.0), points=(4, 6)), (2, 2))
    with pytest.raises(ValueError, match=rf"cells has shape \(1, {cells}, 2, {points}\); needed 4 cells of \(2, 3\)"):
        decomposition.join(ramp(1, cells, 2, points))


# The lattice


LATTICES = [
    Lattice((1,), (True,)),
    Lattice((5,), (False,)),
    Lattice((5,), (True,)),
    Lattice((6,), (True,)),
    Lattice((4, 3), (True, False)),
    Lattice((3, 4, 2), (False, True, True)),
]
every_lattice = pytest.mark.parametrize("lattice", LATTICES, ids=repr)


def ways(lattice: Lattice, start: tuple[int, ...], end: tuple[int, ...]) -> list[int]:
    """Number of steps between two cells along each axis, by walking both ways round a ring."""
    steps = []
    for i, j, count, ring in zip(start, end, lattice.counts, lattice.periodic, strict=True):
        steps.append(min((j - i) % count, (i - j) % count) if ring else abs(j - i))
    return steps


def places(lattice: Lattice) -> list[tuple[int, ...]]:
    return list(product(*map(range, lattice.counts)))


@every_lattice
def test_positions_count_the_cells_in_axis_order(lattice: Lattice) -> None:
    assert [tuple(place) for place in lattice.positions().tolist()] == places(lattice)
    assert lattice.size == len(places(lattice))


@every_lattice
@pytest.mark.parametrize("radius", [0, 1, 2, 10])
def test_neighbours_are_the_cells_within_the_radius_by_brute_force(lattice: Lattice, radius: int) -> None:
    expected = [
        [number for number, end in enumerate(places(lattice)) if max(ways(lattice, start, end)) <= radius]
        for start in places(lattice)
    ]
    assert lattice.neighbours(radius) == expected
    near = lattice.near(radius)
    assert [row.nonzero().flatten().tolist() for row in near] == expected
    assert torch.equal(near, near.mT)


def test_neighbours_wrap_on_a_periodic_axis_and_stop_on_another() -> None:
    assert Lattice((5,), (True,)).neighbours(1)[0] == [0, 1, 4]
    assert Lattice((5,), (False,)).neighbours(1)[0] == [0, 1]
    corner = Lattice((4, 4), (True, False)).neighbours(1)[0]
    assert corner == [0, 1, 4, 5, 12, 13]


@every_lattice
def test_a_radius_of_the_reach_sees_everything_and_one_less_does_not(lattice: Lattice) -> None:
    widest = max(lattice.reach)
    assert lattice.near(widest).all()
    if widest > 0:
        assert not lattice.near(widest - 1).all()


@every_lattice
def test_offsets_lead_from_the_first_cell_to_the_second_by_the_shortest_way(lattice: Lattice) -> None:
    offsets = lattice.offsets()
    for i, start in enumerate(places(lattice)):
        for j, end in enumerate(places(lattice)):
            offset = offsets[i, j].tolist()
            assert [abs(step) for step in offset] == ways(lattice, start, end)
            arrived = [
                (a + step) % count if ring else a + step
                for a, step, count, ring in zip(start, offset, lattice.counts, lattice.periodic, strict=True)
            ]
            assert arrived == list(end)


@every_lattice
def test_the_reach_is_the_largest_offset_along_each_axis(lattice: Lattice) -> None:
    assert lattice.reach == tuple(lattice.offsets().abs().amax(dim=(0, 1)).tolist())


def test_offsets_on_a_ring_depend_on_the_difference_of_the_cells_only() -> None:
    for count in (2, 3, 6, 7):
        offsets = Lattice((count,), (True,)).offsets()[..., 0]
        for i in range(count):
            assert torch.equal(offsets[i], offsets[0].roll(i))
        assert offsets.min() == -(count // 2)
        assert offsets.max() == (count - 1) // 2


def test_the_lattice_of_a_decomposition_takes_its_rings_from_the_grid() -> None:
    grid = Grid(extent=(1.0, 2.0), points=(4, 9), periodic=(False, True))
    assert Decomposition(grid, (2, 3)).lattice == Lattice((2, 3), (False, True))


def test_points_at_vertices_are_not_cut():
    with pytest.raises(ValueError, match=r"grid has ends=\(2,\); needed cell-centred points"):
        Decomposition(Grid(extent=(1.0,), points=(8,), ends=(2,)), (2,))
