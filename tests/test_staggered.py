"""The decomposition shifted by half a subdomain: points move to points, and nothing is lost on the way."""

import math
from itertools import pairwise, product

import pytest
import torch
from torch import Tensor

from mondrian import Decomposition, Grid
from mondrian.decomposition import StaggeredDecomposition, cut

F64 = torch.float64


def decompose(cell: tuple[int, ...], counts: tuple[int, ...], periodic: tuple[bool, ...]) -> Decomposition:
    points = tuple(n * count for n, count in zip(cell, counts, strict=True))
    return Decomposition(Grid(extent=(1.0,) * len(cell), points=points, periodic=periodic), counts)


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(0))


def cells_of(decomposition: Decomposition, batch: int = 2, channels: int = 3) -> Tensor:
    return noise(batch, decomposition.lattice.size, channels, math.prod(decomposition.cell_points))


def moved_coordinates(staggered: StaggeredDecomposition) -> Tensor:
    """`(cell, axis, point)`: where the points of the moved cells lie; outside the box where they reach over it."""
    base = staggered.base
    axes = []
    for n, count, ring, spacing in zip(
        base.cell_points, staggered.lattice.counts, base.grid.periodic, base.grid.spacing, strict=True
    ):
        first = n // 2 if ring else n // 2 - n  # the point of the base that becomes the first of the moved ones
        axes.append((first + torch.arange(n * count, dtype=F64) + 0.5) * spacing)
    return cut(torch.stack(torch.meshgrid(*axes, indexing="ij"))[None], staggered.lattice.counts)[0]


def cases() -> list[Decomposition]:
    cells = [(1,), (2,), (3,), (4,), (5,), (4, 2), (3, 5), (4, 3), (2, 4, 2), (3, 2, 1)]
    counts = [(3,), (1,), (1,), (3,), (4,), (2, 3), (2, 3), (3, 1), (2, 1, 3), (2, 3, 2)]
    return [
        decompose(cell, count, rings)
        for cell, count in zip(cells, counts, strict=True)
        for rings in product([False, True], repeat=len(cell))
    ]


def label(decomposition: Decomposition) -> str:
    rings = "".join("ring" if ring else "line" for ring in decomposition.grid.periodic)
    return f"{decomposition.cell_points}x{decomposition.subdomains}-{rings}"


@pytest.mark.parametrize("decomposition", cases(), ids=label)
def test_moving_there_and_back_loses_nothing_at_any_resolution(decomposition: Decomposition) -> None:
    staggered, cells = decomposition.staggered(), cells_of(decomposition)
    moved = staggered.move(cells)
    assert moved.shape == (2, staggered.lattice.size, 3, cells.shape[-1])
    assert torch.equal(staggered.back(moved), cells)


@pytest.mark.parametrize("decomposition", cases(), ids=label)
def test_every_moved_value_is_the_value_of_the_base_at_that_place_or_at_its_mirror_image(
    decomposition: Decomposition,
) -> None:
    staggered = decomposition.staggered()
    coordinates = decomposition.cut(decomposition.grid.coordinates(dtype=F64)[None])
    values = staggered.move(coordinates)[0]  # the function u(x) = x
    expected = moved_coordinates(staggered)
    for axis, ring in enumerate(decomposition.grid.periodic):
        place = expected[:, axis]
        expected[:, axis] = place % 1.0 if ring else 1 - (1 - place.abs()).abs()
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("rings", list(product([False, True], repeat=2)))
def test_an_axis_that_is_not_periodic_has_one_cell_more(rings: tuple[bool, bool]) -> None:
    staggered = decompose((4, 4), (3, 2), rings).staggered()
    assert staggered.lattice.periodic == rings
    assert staggered.lattice.counts == tuple(n if ring else n + 1 for n, ring in zip((3, 2), rings, strict=True))


def test_on_a_periodic_axis_the_move_is_a_roll_by_half_a_subdomain() -> None:
    decomposition = decompose((4, 6), (3, 2), (True, True))
    u = noise(2, 3, *decomposition.grid.points)
    back = tuple(-length / 2 for length in decomposition.size)
    rolled = decomposition.cut(decomposition.shift(u, back))
    assert torch.equal(decomposition.staggered().move(decomposition.cut(u)), rolled)


def test_moving_twice_round_a_ring_moves_by_a_whole_subdomain() -> None:
    decomposition = decompose((4,), (5,), (True,))
    staggered, cells = decomposition.staggered(), cells_of(decomposition)
    assert torch.equal(staggered.move(staggered.move(cells)), cells.roll(-1, dims=1))


def test_an_interface_of_the_base_lies_inside_a_moved_cell() -> None:
    decomposition = decompose((4,), (3,), (False,))
    number = torch.arange(3, dtype=F64).reshape(1, 3, 1, 1).expand(1, 3, 1, 4)  # each cell holds its own number
    held = decomposition.staggered().move(number)[0, :, 0]
    assert held.tolist() == [[0, 0, 0, 0], [0, 0, 1, 1], [1, 1, 2, 2], [2, 2, 2, 2]]


def test_an_interface_lies_inside_a_moved_cell_with_an_odd_number_of_points_too() -> None:
    decomposition = decompose((3,), (3,), (True,))
    number = torch.arange(3, dtype=F64).reshape(1, 3, 1, 1).expand(1, 3, 1, 3)
    held = decomposition.staggered().move(number)[0, :, 0]
    assert held.tolist() == [[0, 0, 1], [1, 1, 2], [2, 2, 0]]


@pytest.mark.parametrize("points", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("axis", [0, 1])
def test_opposite_sides_never_meet_on_an_axis_that_is_not_periodic(points: int, axis: int) -> None:
    """What happens near one end changes nothing in the moved cells of the other half, whatever the other axis does."""
    rings = (axis != 0, axis != 1)
    decomposition = decompose((points, points), (8, 8), rings)
    staggered, u = decomposition.staggered(), noise(1, 1, *decomposition.grid.points)
    for end in (0, 1):
        changed = u.clone()
        total = decomposition.grid.points[axis]
        changed.narrow(axis + 2, end * (total - points), points).add_(1.0)
        before, after = (staggered.move(decomposition.cut(function)) for function in (u, changed))
        differs = (before != after).flatten(2).any(dim=2)[0].reshape(staggered.lattice.counts).any(dim=1 - axis)
        near, far = (differs[:5], differs[5:]) if end == 0 else (differs[-5:], differs[:-5])
        assert near.any()
        assert not far.any()


@pytest.mark.parametrize("points", [2, 3, 4, 5])
def test_on_a_ring_the_two_ends_do_meet(points: int) -> None:
    decomposition = decompose((points,), (4,), (True,))
    staggered, u = decomposition.staggered(), torch.zeros(1, 1, 4 * points, dtype=F64)
    u[..., 0] = 1.0
    assert (staggered.move(decomposition.cut(u))[0, -1] != 0).any()


@pytest.mark.parametrize("points", [2, 4, 6])
def test_the_cells_that_reach_over_the_boundary_are_their_own_mirror_images(points: int) -> None:
    decomposition = decompose((points,), (4,), (False,))
    moved = decomposition.staggered().move(cells_of(decomposition))
    for cell in (moved[:, 0], moved[:, -1]):
        assert torch.equal(cell, cell.flip(-1))
    inner = moved[:, 1:-1]
    assert (inner - inner.flip(-1)).abs().max() > 0.1


@pytest.mark.parametrize("points", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("ring", [False, True])
def test_a_constant_stays_a_constant_also_on_a_single_cell(points: int, ring: bool) -> None:
    for count in (1, 2, 4):
        decomposition = decompose((points,), (count,), (ring,))
        staggered = decomposition.staggered()
        moved = staggered.move(torch.full((1, count, 1, points), 3.0, dtype=F64))
        assert (moved == 3.0).all()
        assert (staggered.back(moved) == 3.0).all()


def distance_from_half_a_subdomain(decomposition: Decomposition) -> float:
    """How far the moved cells of a smooth function are from the function half a subdomain further on."""
    size = decomposition.size[0]
    x = decomposition.grid.axis(0, dtype=F64)
    cells = decomposition.cut(torch.sin(2 * torch.pi * x)[None, None])
    further = decomposition.cut(torch.sin(2 * torch.pi * (x + size / 2))[None, None])
    return (decomposition.staggered().move(cells) - further).abs().max().item()


def test_an_odd_number_of_points_moves_by_half_a_subdomain_to_first_order_and_an_even_one_exactly() -> None:
    errors = [distance_from_half_a_subdomain(decompose((n,), (3,), (True,))) for n in (9, 27, 81)]
    orders = [math.log(coarse / fine, 3) for coarse, fine in pairwise(errors)]
    assert orders == pytest.approx([1.0, 1.0], abs=0.05)
    assert distance_from_half_a_subdomain(decompose((8,), (3,), (True,))) < 1e-14


@pytest.mark.parametrize("cell", [(2,), (3,), (4, 3), (1, 2), (3, 2, 1)])
def test_moving_is_linear(cell: tuple[int, ...]) -> None:
    decomposition = decompose(cell, (2,) * len(cell), (False, True, False)[: len(cell)])
    staggered, u = decomposition.staggered(), cells_of(decomposition)
    v = u.flip(0) ** 2
    for carry in (staggered.move, lambda cells: staggered.back(staggered.move(cells))):
        torch.testing.assert_close(carry(2 * u - 3 * v), 2 * carry(u) - 3 * carry(v), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", [(2,), (3,), (4, 3), (2, 3, 2)])
@pytest.mark.parametrize("ring", [False, True])
def test_gradients_of_moving_and_coming_back_are_right(cell: tuple[int, ...], ring: bool) -> None:
    decomposition = decompose(cell, (2,) * len(cell), (ring,) * len(cell))
    staggered = decomposition.staggered()
    cells = cells_of(decomposition, batch=1, channels=1).requires_grad_()
    assert torch.autograd.gradcheck(staggered.move, cells)
    moved = noise(1, staggered.lattice.size, 1, math.prod(cell)).requires_grad_()
    assert torch.autograd.gradcheck(staggered.back, moved)


def test_the_mirrored_half_gives_its_gradient_to_the_points_it_mirrors() -> None:
    decomposition = decompose((4,), (2,), (False,))
    cells = cells_of(decomposition, batch=1, channels=1).requires_grad_()
    decomposition.staggered().move(cells).sum().backward()
    assert cells.grad.flatten().tolist() == [2, 2, 1, 1, 1, 1, 2, 2]  # seen twice: itself and its image


def test_what_lies_outside_the_box_is_left_behind_on_the_way_back() -> None:
    decomposition = decompose((4,), (2,), (False,))
    staggered = decomposition.staggered()
    moved = noise(1, 3, 1, 4).requires_grad_()
    staggered.back(moved).sum().backward()
    assert moved.grad.flatten().tolist() == [0, 0, *[1] * 8, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("points", [4, 3])
def test_moving_keeps_the_dtype(dtype: torch.dtype, points: int) -> None:
    decomposition = decompose((points,), (4,), (False,))
    cells = cells_of(decomposition).to(dtype)
    moved = decomposition.staggered().move(cells)
    assert moved.dtype == dtype
    assert torch.equal(moved.double(), decomposition.staggered().move(cells.double()))
