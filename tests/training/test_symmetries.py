"""Symmetries: images of solutions are solutions, for the real solvers."""

import itertools
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.data import ArrayFile, Axis, PDEBenchFile, Splits, Window
from mondrian.data.solvers import allen_cahn, navier_stokes
from mondrian.training.order import generator_of
from mondrian.training.symmetries import Parity, Symmetries, determinant, moved, symmetries_of

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
    symmetries = Symmetries(TORUS, ("rotations", "reflections", "translations"), parity, parity)
    differences = []
    for seed in range(24):
        x, y = symmetries.image(start, end, generator_of(seed))
        differences.append((navier_stokes.solve(x.contiguous(), TORUS, **arguments)[:, 0] - y).abs().max().item())
    if parity == -1:
        assert max(differences) < 1e-10
    else:
        assert max(differences) > 0.1


def test_each_channel_has_a_sign_of_its_own() -> None:
    symmetries = Symmetries(TORUS, ("reflections",), (-1, 1), (-1,))
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
    mirrors = symmetries_of(samples, ("reflections",), allowed=("reflections",), parity=-1)
    assert (mirrors.in_parity, mirrors.out_parity) == ((-1, 1), (-1,))  # gamma keeps its sign


def pdebench(file: Path, points: tuple[int, ...], **fields: np.ndarray) -> PDEBenchFile:
    """A file of ten simulations of fields, those with four frames that change in time."""
    with h5py.File(file, "w") as stored:
        for axis, n in zip("xyz", points, strict=False):
            stored[f"{axis}-coordinate"] = (np.arange(n) + 0.5) / n
        for name, values in fields.items():
            stored[name] = np.broadcast_to(values, (10, *values.shape))
    return PDEBenchFile(path=str(file))


def mirrored(files: PDEBenchFile, input: tuple[str, ...], target: tuple[str, ...], parity: Parity) -> Symmetries:
    samples = Splits(files=files, window=Window(input=input, target=target)).dataset("train")
    symmetries = symmetries_of(samples, ("reflections",), allowed=("reflections",), parity=parity)
    assert symmetries is not None
    return symmetries


def test_coefficients_keep_their_sign_unless_it_is_said(tmp_path: Path) -> None:
    nu = np.full((8, 8), 0.1, dtype=np.float32)
    files = pdebench(tmp_path / "a.hdf5", (8, 8), tensor=np.ones((4, 8, 8), dtype=np.float32), nu=nu)
    mirrors = mirrored(files, ("tensor", "nu"), ("tensor",), -1)
    x, y = torch.stack([torch.ones(8, 8), torch.from_numpy(nu)]), torch.ones(1, 8, 8)
    images = [mirrors.image(x, y, generator_of(seed)) for seed in range(16)]
    assert {image[0][0].unique().item() for image in images} == {-1.0, 1.0}
    assert all(torch.equal(image[0][1], x[1]) for image in images)
    assert all(torch.equal(image[0][:1], image[1]) for image in images)
    forced = mirrored(files, ("tensor", "nu"), ("tensor",), {"tensor": -1, "nu": -1})
    assert (forced.in_parity, forced.out_parity) == ((-1, -1), (-1,))
    named = mirrored(files, ("tensor", "nu"), ("tensor", "nu"), {"nu": -1})
    assert (named.in_parity, named.out_parity) == ((1, -1), (1, -1))
    with pytest.raises(ValueError, match=r"data\.parity=-1 is that of fields that change in time; 'nu' does not"):
        mirrored(files, ("tensor",), ("nu",), -1)
    with pytest.raises(ValueError, match=r"data\.parity names 'mu'; the fields are tensor, nu"):
        mirrored(files, ("tensor", "nu"), ("tensor",), {"mu": -1})
    with pytest.raises(ValueError, match=r"data\.parity={'nu': 0} must be 1 or -1"):
        mirrored(files, ("tensor", "nu"), ("tensor",), {"nu": 0})


def test_components_of_a_vector_are_not_turned(tmp_path: Path) -> None:
    plane = pdebench(tmp_path / "plane.hdf5", (8, 8), density=np.ones((4, 8, 8)), Vx=np.ones((4, 8, 8)))
    with pytest.raises(ValueError, match="applies to scalar fields only; 'Vx' is a component of a vector"):
        mirrored(plane, ("density", "Vx"), ("Vx",), {"Vx": -1})
    line = pdebench(tmp_path / "line.hdf5", (8,), density=np.ones((4, 8)), Vx=np.ones((4, 8)))
    assert mirrored(line, ("density", "Vx"), ("Vx",), {"Vx": -1}).in_parity == (1, -1)
    with pytest.raises(ValueError, match=r"'Vx' is a component of a vector: on a line needed data\.parity={Vx: -1}"):
        mirrored(line, ("density", "Vx"), ("Vx",), 1)


def test_vectors_are_not_turned(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.zeros((10, 3, 2, 8, 8), dtype=np.float32))
    axes = (Axis.SIMULATION, Axis.TIME, Axis.CHANNEL, Axis.SPACE, Axis.SPACE)
    files = ArrayFile(path=str(tmp_path / "v.npy"), axes=axes, keys=("v",))
    samples = Splits(files=files, window=Window(input=("v",), target=("v",))).dataset("train")
    with pytest.raises(ValueError, match="applies to scalar fields only; 'v' has the components"):
        symmetries_of(samples, ("rotations",), allowed=("rotations",), parity=1)
