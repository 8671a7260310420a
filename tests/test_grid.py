"""The box and its cell-centred points."""

import math

import pytest
import torch

from mondrian import Grid

F64 = torch.float64


def test_points_lie_at_the_centres_of_their_cells() -> None:
    grid = Grid(extent=(3.0, 0.5), points=(6, 5), origin=(-1.0, 10.0))
    for axis, (start, length, n) in enumerate(zip(grid.origin, grid.extent, grid.points, strict=True)):
        expected = [start + (j + 0.5) * length / n for j in range(n)]
        assert grid.axis(axis, dtype=F64).tolist() == pytest.approx(expected, rel=1e-15)


def test_points_are_symmetric_about_the_middle_of_the_box_and_one_spacing_apart() -> None:
    grid = Grid(extent=(3.0,), points=(7,), origin=(-1.0,))
    x = grid.axis(0, dtype=F64)
    torch.testing.assert_close(x + x.flip(0), torch.full((7,), 2 * -1.0 + 3.0, dtype=F64), rtol=0, atol=1e-14)
    torch.testing.assert_close(x.diff(), torch.full((6,), grid.spacing[0], dtype=F64), rtol=1e-14, atol=0)


def test_a_cells_points_are_the_averages_of_the_points_of_a_grid_twice_as_fine() -> None:
    coarse = Grid(extent=(2.0,), points=(8,), origin=(0.3,))
    fine = coarse.with_points((16,))
    means = fine.axis(0, dtype=F64).reshape(8, 2).mean(dim=1)
    torch.testing.assert_close(coarse.axis(0, dtype=F64), means, rtol=1e-15, atol=0)


@pytest.mark.parametrize("points", [(4,), (4, 3), (2, 3, 5)])
def test_coordinates_vary_along_their_own_axis_only(points: tuple[int, ...]) -> None:
    dim = len(points)
    grid = Grid(extent=tuple(1.0 + a for a in range(dim)), points=points, origin=(0.5,) * dim)
    x = grid.coordinates(dtype=F64)
    assert x.shape == (dim, *points)
    for axis in range(dim):
        along = grid.axis(axis, dtype=F64).reshape([-1 if a == axis else 1 for a in range(dim)])
        assert torch.equal(x[axis], along.expand(points))


def test_float32_coordinates_are_the_float64_ones_rounded_once() -> None:
    grid = Grid(extent=(0.7,), points=(1000,), origin=(0.1,))
    assert torch.equal(grid.axis(0, dtype=torch.float32), grid.axis(0, dtype=F64).float())


def test_points_cover_the_box_with_their_spacing() -> None:
    grid = Grid(extent=(2.0, 0.3), points=(7, 9))
    assert math.prod(grid.spacing) * math.prod(grid.points) == pytest.approx(2.0 * 0.3, rel=1e-15)


def test_other_points_leave_the_box_as_it_was() -> None:
    grid = Grid(extent=(2.0, 1.0), points=(4, 2), periodic=(True, False), origin=(1.0, 2.0))
    other = grid.with_points((8, 6))
    assert other.points == (8, 6)
    assert (other.extent, other.periodic, other.origin) == (grid.extent, grid.periodic, grid.origin)
    assert other.with_points((4, 2)) == grid


def test_a_grid_is_not_periodic_and_starts_at_zero_unless_told() -> None:
    grid = Grid(extent=(2, 1))
    assert grid == Grid(extent=(2.0, 1.0), periodic=(False, False), origin=(0.0, 0.0))
    assert all(isinstance(length, float) for length in grid.extent)


def test_equal_grids_are_one_key_whether_written_as_lists_or_tuples() -> None:
    assert len({Grid(extent=[2.0], points=[4]), Grid(extent=(2.0,), points=(4,))}) == 1


@pytest.mark.parametrize("length", [math.nan, math.inf, -math.inf, 0.0, -1.0])
def test_an_extent_that_is_no_length_is_refused_by_name_and_value(length: float) -> None:
    with pytest.raises(ValueError, match=rf"extent=\(1\.0, {length}\).*finite positive"):
        Grid(extent=(1.0, length))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"extent": ()}, r"extent=\(\).*one positive length"),
        ({"extent": (1.0, 1.0), "points": (4,)}, r"points=\(4,\) has 1 entries.*needs 2"),
        ({"extent": (1.0,), "points": (4, 4)}, r"points=\(4, 4\) has 2 entries.*needs 1"),
        ({"extent": (1.0, 1.0), "periodic": (True,)}, r"periodic=\(True,\) has 1 entries.*needs 2"),
        ({"extent": (1.0,), "origin": (0.0, 0.0)}, r"origin=\(0\.0, 0\.0\) has 2 entries.*needs 1"),
        ({"extent": (1.0,), "points": (4.5,)}, r"points=\(4\.5,\); needed tuple\[int, ...\]"),
        ({"extent": (1.0,), "points": (4.0,)}, r"points=\(4\.0,\); needed tuple\[int, ...\]"),
        ({"extent": (1.0,), "points": (math.nan,)}, r"points=\(nan,\); needed tuple\[int, ...\]"),
        ({"extent": (1.0,), "points": (math.inf,)}, r"points=\(inf,\); needed tuple\[int, ...\]"),
        ({"extent": (1.0,), "points": (0,)}, r"points=\(0,\).*at least 1"),
        ({"extent": (1.0,), "points": (-3,)}, r"points=\(-3,\).*at least 1"),
        ({"extent": (1.0,), "points": (True,)}, r"points=\(True,\); needed tuple\[int, ...\]"),
        ({"extent": 1.0}, r"extent=1\.0; needed tuple\[float, ...\]"),
        ({"extent": ("a", "b")}, r"extent=\('a', 'b'\); needed tuple\[float, ...\]"),
        ({"extent": (1.0,), "points": 8}, r"points=8; needed tuple\[int, ...\]"),
        ({"extent": (1.0,), "periodic": (1,)}, r"periodic=\(1,\); needed tuple\[bool, ...\]"),
        ({"extent": (1.0,), "origin": (math.nan,)}, r"origin=\(nan,\).*finite"),
        ({"extent": (1.0,), "origin": (-math.inf,)}, r"origin=\(-inf,\).*finite"),
    ],
)
def test_bad_arguments_are_refused_by_name_value_and_need(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Grid(**arguments)


def test_a_box_without_points_says_so_when_asked_for_them() -> None:
    box = Grid(extent=(2.0,))
    for ask in (lambda: box.spacing, lambda: box.axis(0), lambda: box.coordinates()):
        with pytest.raises(ValueError, match=r"extent=\(2\.0,\) has no points; needed grid\.with_points"):
            ask()


def test_points_at_the_vertices_run_from_end_to_end() -> None:
    grid = Grid(extent=(3.0,), points=(7,), origin=(-1.0,), ends=(2,))
    assert grid.axis(0, dtype=F64).tolist() == pytest.approx([-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0], abs=1e-15)
    assert (grid.spacing, grid.intervals, grid.is_cell_centred) == ((0.5,), (6,), False)


def test_a_ring_has_its_start_once_or_twice() -> None:
    once = Grid(extent=(2.0,), points=(4,), periodic=(True,), ends=(1,))
    twice = Grid(extent=(2.0,), points=(5,), periodic=(True,), ends=(2,))
    assert once.axis(0, dtype=F64).tolist() == [0.0, 0.5, 1.0, 1.5]
    assert twice.axis(0, dtype=F64).tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert once.spacing == twice.spacing == (0.5,)
    assert once.intervals == twice.intervals == (4,)


def test_vertices_twice_as_fine_hold_the_coarse_ones() -> None:
    coarse, fine = (Grid(extent=(2.0,), points=(n,), origin=(0.3,), ends=(2,)) for n in (9, 17))
    torch.testing.assert_close(fine.axis(0, dtype=F64)[::2], coarse.axis(0, dtype=F64), rtol=1e-15, atol=0)


def test_a_cell_centred_grid_is_described_as_before_vertices_were_known() -> None:
    grid = Grid(extent=(1.0,), points=(4,))
    assert set(grid.to_json()) == {"spec", "extent", "points", "periodic", "origin"}
    for other in (grid, Grid(extent=(1.0,), points=(4,), ends=(2,))):
        assert Grid.from_json(other.to_json()) == other


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"extent": (1.0, 1.0), "ends": (2,)}, r"ends=\(2,\) has 1 entries.*needs 2"),
        ({"extent": (1.0,), "ends": (3,)}, r"ends=\(3,\) must be 0 \(cell-centred\), 1 or 2"),
        ({"extent": (1.0,), "ends": (True,)}, r"ends=\(True,\); needed tuple\[int, ...\]"),
        ({"extent": (1.0,), "ends": (1,)}, r"ends=\(1,\) leaves out an end of a non-periodic axis.*needed 2"),
        ({"extent": (1.0,), "points": (1,), "ends": (2,)}, r"points=\(1,\) are too few for ends=\(2,\)"),
    ],
)
def test_impossible_ends_are_refused_by_name_value_and_need(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Grid(**arguments)
