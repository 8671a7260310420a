"""The example: its meshes and solver are right, and it goes from nothing to a picture."""

import math
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

import mondrian
from mondrian.points import PointOperator

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import poisson_mesh

    return poisson_mesh


def test_the_meshes_fill_the_domain_and_nothing_else(example):
    discs = np.array([[0.3, 0.4, 0.15], [0.7, 0.6, 0.1]])
    for spacing in (0.08, 0.04):
        mesh = example.triangulate(discs, spacing)
        sides = np.maximum(8, np.round(2 * np.pi * discs[:, 2] / spacing))
        polygons = (discs[:, 2] ** 2 * sides / 2 * np.sin(2 * np.pi / sides)).sum()
        assert mesh.volumes().sum().item() == pytest.approx(1 - polygons, rel=1e-9)
        assert mesh.volumes().min() > 1e-2 * spacing**2
        rim = example.distance(mesh.vertices.numpy()[mesh.boundary().numpy()], discs)
        assert np.abs(rim).max() < 1e-12


def test_its_solver_is_of_second_order(example):
    def error(spacing):
        mesh = example.triangulate(np.empty((0, 3)), spacing)
        x, y = mesh.vertices.numpy().T
        truth = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
        return np.abs(example.solve_poisson(mesh, 5 * np.pi**2 * truth) - truth).max()

    assert math.log2(error(1 / 16) / error(1 / 32)) == pytest.approx(2.0, abs=0.3)


@pytest.mark.parametrize("partition", ["boxes", "metis"])
def test_it_goes_from_nothing_to_a_picture(tmp_path, partition):
    words = f"--partition {partition} --meshes 4 --tests 2 --steps 3 --batch 2 --channels 8 --spacing 0.12".split()
    run = subprocess.run(
        [sys.executable, EXAMPLES / "poisson_mesh.py", *words, "--folder", tmp_path],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "twice as fine" in run.stdout
    picture = matplotlib.image.imread(tmp_path / f"poisson_{partition}.png")
    assert picture.std() > 0.05
    assert isinstance(mondrian.from_pretrained(tmp_path / f"model_{partition}"), PointOperator)
