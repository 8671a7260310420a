"""The meshes and the solver are right, and a data set is a function of its seed."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mondrian.data.meshes import PerforatedPoisson
from mondrian.data.meshes.poisson import write_poisson
from mondrian.data.solvers.poisson import distance, solve_poisson, triangulate
from mondrian.points import read_mesh
from tests.meshes.conftest import COUNTS


def test_the_meshes_fill_the_domain_and_nothing_else():
    discs = np.array([[0.3, 0.4, 0.15], [0.7, 0.6, 0.1]])
    for spacing in (0.08, 0.04):
        mesh = triangulate(discs, spacing)
        sides = np.maximum(8, np.round(2 * np.pi * discs[:, 2] / spacing))
        polygons = (discs[:, 2] ** 2 * sides / 2 * np.sin(2 * np.pi / sides)).sum()
        assert mesh.volumes().sum().item() == pytest.approx(1 - polygons, rel=1e-9)
        assert mesh.volumes().min() > 1e-2 * spacing**2
        rim = np.flatnonzero(np.abs(distance(mesh.vertices.numpy(), discs)) < 1e-9)
        assert rim.tolist() == mesh.boundary().tolist()


def test_the_solver_is_of_second_order():
    def error(spacing):
        mesh = triangulate(np.empty((0, 3)), spacing)
        x, y = mesh.vertices.numpy().T
        truth = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
        return np.abs(solve_poisson(mesh, 5 * np.pi**2 * truth) - truth).max()

    assert math.log2(error(1 / 16) / error(1 / 32)) == pytest.approx(2.0, abs=0.3)


def test_a_seed_is_one_domain_and_one_source_whatever_the_mesh():
    problem = PerforatedPoisson(spacing=0.1)
    mesh, again, fine = problem.solve(3), problem.solve(3), replace(problem, spacing=0.05).solve(3)
    assert torch.equal(mesh.fields["u"], again.fields["u"])
    area, fine_area = (each.volumes().sum().item() for each in (mesh, fine))
    assert area == pytest.approx(fine_area, rel=0.01)
    mean, fine_mean = (
        ((each.point_set().weights * each.fields["u"]).sum() / each.volumes().sum()).item() for each in (mesh, fine)
    )
    assert mean == pytest.approx(fine_mean, rel=0.1)
    assert mesh.fields["u"][mesh.boundary()].abs().max() == 0
    assert not torch.equal(problem.solve(4).vertices, mesh.vertices)


def test_what_was_killed_resumes_and_gives_the_same_files(folder, tmp_path):
    problem = PerforatedPoisson(spacing=0.15)
    write_poisson(tmp_path, problem, {"train": 2}, seed=1)
    first = (tmp_path / "train/00000.vtu").stat().st_mtime_ns
    write_poisson(tmp_path, problem, COUNTS, seed=1)
    assert (tmp_path / "train/00000.vtu").stat().st_mtime_ns == first
    for path in folder.rglob("*.vtu"):
        one, other = read_mesh(path), read_mesh(tmp_path / path.relative_to(folder))
        assert torch.equal(one.vertices, other.vertices)
        assert torch.equal(one.fields["u"], other.fields["u"])
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def test_other_settings_in_the_same_folder_are_refused(folder):
    with pytest.raises(ValueError, match="seed was 1, now it is 2; needed the same settings, or another folder"):
        write_poisson(folder, PerforatedPoisson(spacing=0.15), COUNTS, seed=2)


def test_shares_make_the_whole_and_other_parts_are_refused(folder, tmp_path):
    problem = PerforatedPoisson(spacing=0.15)
    for number in range(3):
        write_poisson(tmp_path, problem, COUNTS, seed=1, share=(number, 3))
    names = [sorted(path.relative_to(root) for path in root.rglob("*.vtu")) for root in (tmp_path, folder)]
    assert names[0] == names[1]
    with pytest.raises(ValueError, match="test_big cannot be made; needed parts among train, valid, test, test_fine"):
        write_poisson(tmp_path, problem, {"test_big": 1}, seed=1)


@pytest.mark.parametrize("settings", [{"spacing": 0.0}, {"spacing": 0.5}, {"most_discs": 0}])
def test_settings_out_of_range_are_named(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name}="):
        PerforatedPoisson(**settings)
