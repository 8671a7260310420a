"""Symmetries: images of solutions are solutions, for the real solvers."""

import itertools

import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.data import ArrayFile, Axis, Splits, Window
from mondrian.data.solvers import allen_cahn, navier_stokes
from mondrian.training.order import generator_of
from mondrian.training.symmetries import Symmetries, determinant, moved, symmetries_of

SQUARE = Grid(extent=(2.0, 2.0), points=(16, 16))
TORUS = Grid(extent=(6.283185307179586,) * 2, points=(16, 16), periodic=(True, True))


def test_the_group_of_the_square_has_eight_elements_of_the_cube_forty_eight() -> None:
    both = ("rotations", "reflections")
    cube = Grid(extent=(1.0,) * 3, points=(4,) * 3)
    assert len(Symmetries(SQUARE, both).elements) == 8
    assert len(Symmetries(SQUARE, ("rotations",)).elements) == 4
    assert len(Symmetries(SQUARE, ("reflections",)).elements) == 4
    assert len(Symmetries(cube, ("rotations",)).elements) == 24
    assert len(Symmetries(cube, both).elements) == 48
    assert len(Symmetries(Grid(extent=(1.0, 2.0), points=(8, 16)), both).elements) == 4


def test_determinants_are_those_of_the_matrices() -> None:
    for order, signs in itertools.product(itertools.permutations(range(3)), itertools.product((1, -1), repeat=3)):
        matrix = torch.zeros(3, 3)
        for row, (column, sign) in enumerate(zip(order, signs, strict=True)):
            matrix[row, column] = sign
        assert determinant(order, signs) == round(float(torch.det(matrix)))


def test_images_of_allen_cahn_solutions_are_solutions() -> None:
    start = allen_cahn.initial_condition([1], SQUARE, dtype=torch.float64)
    gamma = torch.tensor([1e-3], dtype=torch.float64)
    end = allen_cahn.solve(start, gamma, SQUARE)
    for order, signs in Symmetries(SQUARE, ("rotations", "reflections")).elements:
        image, solution = (moved(u, order, signs, [0, 0]) for u in (start, end))
        torch.testing.assert_close(allen_cahn.solve(image.contiguous(), gamma, SQUARE), solution, rtol=0, atol=1e-12)


@pytest.mark.parametrize("parity", [-1, 1])
def test_images_of_vorticity_are_solutions_only_if_mirrors_change_its_sign(parity: int) -> None:
    start = navier_stokes.initial_vorticity([1], TORUS, dtype=torch.float64)
    arguments = {"viscosity": 1e-2, "dt": 0.01, "steps": 20, "frames": 1}
    end = navier_stokes.solve(start, TORUS, **arguments)[:, 0]
    symmetries = Symmetries(TORUS, ("rotations", "reflections", "translations"), parity)
    differences = []
    for seed in range(24):
        x, y = symmetries.image(start, end, generator_of(seed))
        differences.append((navier_stokes.solve(x.contiguous(), TORUS, **arguments)[:, 0] - y).abs().max().item())
    if parity == -1:
        assert max(differences) < 1e-10
    else:
        assert max(differences) > 0.1


def test_constant_channels_keep_their_sign() -> None:
    symmetries = Symmetries(TORUS, ("reflections",), -1, constant=(1,))
    x, y = torch.ones(2, 16, 16), torch.ones(1, 16, 16)
    images = [symmetries.image(x, y, generator_of(seed)) for seed in range(16)]
    assert {image[0][0].mean().item() for image in images} == {1.0, -1.0}
    assert {image[0][1].mean().item() for image in images} == {1.0}
    assert all(image[0][0].mean() == image[1].mean() for image in images)
    assert x.eq(1).all()


def test_what_the_equation_or_the_grid_does_not_have_is_refused(allen_cahn_splits: Splits) -> None:
    samples = allen_cahn_splits.dataset("train")
    with pytest.raises(ValueError, match=r"'translations', which data.symmetries=\['rotations'\] do not allow"):
        symmetries_of(samples, ("translations",), allowed=("rotations",), parity=1)
    with pytest.raises(ValueError, match="'turns'; needed some of rotations, reflections, translations"):
        symmetries_of(samples, ("turns",), allowed=(), parity=1)
    with pytest.raises(ValueError, match="no axis of the grid is periodic"):
        Symmetries(SQUARE, ("translations",))
    with pytest.raises(ValueError, match=r"'rotations'; no two axes of .* are alike"):
        Symmetries(Grid(extent=(1.0,), points=(8,)), ("rotations",))
    assert symmetries_of(samples, (), allowed=(), parity=1) is None
    assert symmetries_of(samples, ("rotations",), allowed=("rotations",), parity=1).constant == (1,)


def test_vectors_are_not_turned(tmp_path) -> None:

    np.save(tmp_path / "v.npy", np.zeros((10, 3, 2, 8, 8), dtype=np.float32))
    axes = (Axis.SIMULATION, Axis.TIME, Axis.CHANNEL, Axis.SPACE, Axis.SPACE)
    files = ArrayFile(path=str(tmp_path / "v.npy"), axes=axes, keys=("v",))
    samples = Splits(files=files, window=Window(input=("v",), target=("v",))).dataset("train")
    with pytest.raises(ValueError, match="turns scalar fields only; 'v' is"):
        symmetries_of(samples, ("rotations",), allowed=("rotations",), parity=1)
