"""Predictions slab by slab are those of whole fields, and no more of a file is read than a slab needs."""

from dataclasses import replace

import h5py
import numpy as np
import pytest

from mondrian import Grid, nbr_no, vit_no
from mondrian.commands.predict import run
from mondrian.data.sources.base import Field
from mondrian.data.store import Simulations, write_shard
from mondrian.prediction import predict_file, predict_slabs
from mondrian.surrogate import Scale, SurrogateSpec

GRID = Grid(extent=(4.0, 1.0), points=(48, 6), periodic=(True, False))


@pytest.fixture
def model():
    """u[0], gamma -> u[1], of sixteen rows, each of which depends on three others on both sides."""
    spec = nbr_no(
        2, 1, hidden_channels=8, n_layers=2, radius=1, subdomains=(16, 3), grid=replace(GRID, points=()), stagger=True
    ).spec
    u = Scale(0.3, 2.0)
    return SurrogateSpec(spec, ("u[0]", "gamma"), ("u[1]",), (u, Scale(-3.0, 0.5, log=True)), (u,)).build().eval()


@pytest.fixture
def simulations(tmp_path):
    random = np.random.default_rng(1)
    data = Simulations(
        grid=GRID,
        times=np.array([0.0, 6.0]),
        fields={"u": random.standard_normal((3, 2, *GRID.points))},
        scalars={"gamma": 10 ** random.uniform(-4, -2, 3)},
    )
    write_shard(tmp_path / "start.hdf5", data, name="start", identity={})
    return tmp_path / "start.hdf5"


def test_simulations_slab_by_slab(model, simulations, tmp_path, monkeypatch):
    predict_file(model, simulations, tmp_path / "whole.hdf5")
    most, read = 0, Field.read

    def noted(self, simulation, steps, rows=slice(None)):
        nonlocal most
        most = max(most, len(range(*rows.indices(GRID.points[0]))))
        return read(self, simulation, steps, rows)

    monkeypatch.setattr(Field, "read", noted)
    made = predict_slabs(model, simulations, tmp_path / "slabs.hdf5", rows=3, batch_size=2)
    assert (made.samples, made.points, made.not_finite) == (3, (48, 6), 0)
    assert most == 3 * (3 + 2 * 3)  # points of three rows, and of three more on both sides
    with h5py.File(tmp_path / "whole.hdf5") as one, h5py.File(tmp_path / "slabs.hdf5") as other:
        np.testing.assert_allclose(other["t0_fields/u"][:], one["t0_fields/u"][:], rtol=1e-4, atol=1e-6)
        for group in ("scalars", "dimensions"):
            for key in one[group]:
                np.testing.assert_array_equal(other[group][key][:], one[group][key][:])
        assert dict(other.attrs) == dict(one.attrs)


@pytest.mark.parametrize("kind", ["npy", "npz", "names", "single"])
def test_arrays_slab_by_slab(kind, model, tmp_path):
    random = np.random.default_rng(2)
    x = random.standard_normal((3, 2, *GRID.points)).astype(np.float32)
    x[:, 1] = 1e-3
    path = tmp_path / f"x.{'npz' if kind in ('npz', 'names') else 'npy'}"
    if kind == "names":
        np.savez(path, u=x[:, 0], gamma=np.full(3, 1e-3, dtype=np.float32))
    elif kind == "npz":
        np.savez(path, x)
    else:
        np.save(path, x[0] if kind == "single" else x)
    predict_file(model, path, tmp_path / "whole.npy")
    predict_slabs(model, path, tmp_path / "slabs.npy", rows=5)
    whole, slabs = (np.load(tmp_path / f"{name}.npy") for name in ("whole", "slabs"))
    assert slabs.shape == whole.shape
    np.testing.assert_allclose(slabs, whole, rtol=1e-4, atol=1e-6)


def test_the_command_takes_rows(model, simulations, tmp_path, capsys):
    model.save_pretrained(tmp_path / "model")
    run([str(tmp_path / "model"), str(simulations), "-o", str(tmp_path / "y.hdf5"), "--rows", "4"])
    assert "3 samples, u[1] at 48 x 6 points" in capsys.readouterr().out
    predict_file(model, simulations, tmp_path / "whole.hdf5")
    with h5py.File(tmp_path / "whole.hdf5") as one, h5py.File(tmp_path / "y.hdf5") as other:
        np.testing.assert_allclose(other["t0_fields/u"][:], one["t0_fields/u"][:], rtol=1e-4, atol=1e-6)


def test_numbers_that_are_not_finite_are_counted_once_a_sample(model, simulations, tmp_path):
    for parameter in model.model.projection.parameters():
        parameter.data.fill_(float("inf"))
    assert predict_slabs(model, simulations, tmp_path / "y.hdf5", rows=4).not_finite == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "rows=0 at a time, and no processes"),
        ({"rows": 2, "steps": 2}, "steps=2 need the whole field after each"),
        ({"rows": 2, "output": "y.pt"}, r"needed one of \.npy, \.hdf5, \.h5"),
        ({"rows": 2, "output": "start.hdf5"}, "is the input"),
    ],
)
def test_what_cannot_be_done_slab_by_slab_is_refused(options, message, model, simulations, tmp_path):
    output = tmp_path / options.pop("output", "y.hdf5")
    with pytest.raises(ValueError, match=message):
        predict_slabs(model, simulations, output, **options)
    assert not (tmp_path / "y.hdf5").exists()


def test_models_that_see_everything_leave_no_file_behind(simulations, tmp_path):
    spec = vit_no(2, 1, hidden_channels=8, n_layers=1, subdomains=(16, 3), grid=replace(GRID, points=())).spec
    plain = SurrogateSpec(spec, ("u[0]", "gamma"), ("u[1]",), (Scale(), Scale()), (Scale(),)).build()
    with pytest.raises(ValueError, match="GlobalAttention attends to all 16 rows at once"):
        predict_slabs(plain, simulations, tmp_path / "y.hdf5", rows=2)
    assert not list(tmp_path.glob("*y.hdf5*"))
