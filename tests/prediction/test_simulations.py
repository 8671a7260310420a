"""Simulations in The Well's layout become the frames that follow, with their times."""

import numpy as np
import pytest
from the_well.data import WellDataset

from mondrian.data.datasets import WindowDataset
from mondrian.data.sources import WellFiles
from mondrian.data.store import Simulations, write_shard
from mondrian.prediction import predict_file
from mondrian.prediction.simulations import Frames
from mondrian.surrogate import Window
from tests.prediction.cases import BOX, build, directly, save, small


@pytest.mark.parametrize("batch_size", [2, 32])
def test_simulations_become_the_frames_that_follow(surrogate, simulations, tmp_path, batch_size):
    write_shard(tmp_path / "x.hdf5", simulations, name="test", identity={})
    made = tmp_path / "made" / "y.hdf5"
    predict_file(surrogate, tmp_path / "x.hdf5", made, steps=4, batch_size=batch_size)
    window = WindowDataset(WellFiles(path=str(tmp_path / "x.hdf5")).open(), Window(("u", "gamma"), ("u",), 2, 1))
    assert window.in_channels == surrogate.spec.in_names
    first = np.stack([sample["x"].numpy() for sample in window if sample["step"] == 0])
    y = directly(surrogate, first, 4, simulations.grid)

    source = WellFiles(path=str(made)).open()
    assert (source.grid, source.steps) == (simulations.grid, (4,) * 5)
    np.testing.assert_array_equal(source.times, [9.0, 12.0, 15.0, 18.0])  # the file's own, then its last interval
    np.testing.assert_allclose(source.fields["gamma"].numbers().ravel(), simulations.scalars["gamma"])
    for simulation in range(5):
        frames = source.fields["u"].read(simulation, slice(0, 4))
        np.testing.assert_allclose(frames[:, 0], y[simulation], atol=1e-6)

    well = WellDataset(path=str(made.parent), n_steps_input=2, n_steps_output=2, normalize_time_grid=False)
    assert len(well) == 5
    sample = well[3]
    np.testing.assert_allclose(sample["input_fields"][..., 0].numpy(), y[3, :2], atol=1e-6)
    np.testing.assert_allclose(sample["output_fields"][..., 0].numpy(), y[3, 2:], atol=1e-6)
    np.testing.assert_allclose(sample["constant_scalars"].numpy(), simulations.scalars["gamma"][3:4], rtol=1e-6)
    np.testing.assert_array_equal(sample["input_time_grid"].numpy(), [9.0, 12.0])

    predict_file(surrogate, tmp_path / "x.hdf5", tmp_path / "y.npy", steps=4)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), y, atol=1e-6)
    predict_file(surrogate, made, tmp_path / "further.h5")  # and what came out goes in
    assert WellFiles(path=str(tmp_path / "further.h5")).open().times.tolist() == [15.0]
    assert made.stat().st_size < y.nbytes + 2**15  # nothing is left of the room that was taken for it


def test_a_start_alone_is_enough(surrogate, simulations, tmp_path):
    start = Simulations(
        grid=simulations.grid,
        times=simulations.times[:2],
        fields={"u": simulations.fields["u"][:, :2]},
        scalars=simulations.scalars,
    )
    write_shard(tmp_path / "start.hdf5", start, name="test", identity={})
    write_shard(tmp_path / "whole.hdf5", simulations, name="test", identity={})
    for name in ("start", "whole"):
        predict_file(surrogate, tmp_path / f"{name}.hdf5", tmp_path / f"{name}.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "start.npy"), np.load(tmp_path / "whole.npy"))


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_arrays_become_simulations_on_the_models_box(surrogate, samples, tmp_path, kind):
    if kind == "npy":
        np.save(tmp_path / "x.npy", samples)
    else:
        np.savez(tmp_path / "x.npz", u=samples[:, :2], gamma=samples[:, 2, 0, 0])
    predict_file(surrogate, tmp_path / f"x.{kind}", tmp_path / "y.hdf5", steps=2, batch_size=4)
    source = WellFiles(path=str(tmp_path / "y.hdf5")).open()
    assert source.grid == BOX.with_points((8, 4))
    assert source.times.tolist() == [1.0, 2.0]
    assert ("gamma" in source.fields) == (kind == "npz")
    y = directly(surrogate, samples, 2)
    for simulation in range(7):
        np.testing.assert_allclose(source.fields["u"].read(simulation, slice(0, 2))[:, 0], y[simulation], atol=1e-6)


def test_fields_without_time_are_one_frame(tmp_path):
    surrogate = build(("a",), ("p", "q"))
    np.savez(tmp_path / "x.npz", a=np.ones((2, 8, 4)))
    predict_file(surrogate, tmp_path / "x.npz", tmp_path / "y.hdf5")
    source = WellFiles(path=str(tmp_path / "y.hdf5")).open()
    assert (sorted(source.fields), source.times.tolist()) == (["p", "q"], [0.0])
    assert source.fields["q"].read(1, slice(0, 1)).dtype == np.float64


def test_frames_from_no_frame_are_those_of_the_start(simulations, tmp_path):
    surrogate = build(("gamma",), ("u[0]", "u[1]"))
    write_shard(tmp_path / "x.hdf5", simulations, name="test", identity={})
    window = WindowDataset(WellFiles(path=str(tmp_path / "x.hdf5")).open(), Window(("gamma",), ("u",), steps_out=2))
    assert window.out_channels == surrogate.spec.out_names
    predict_file(surrogate, tmp_path / "x.hdf5", tmp_path / "y.hdf5")
    source = WellFiles(path=str(tmp_path / "y.hdf5")).open()
    assert source.times.tolist() == [0.0, 6.0]  # the frames that it was trained on
    x = np.stack([sample["x"].numpy() for sample in window])
    y = directly(surrogate, x, grid=simulations.grid)
    np.testing.assert_allclose(source.fields["u"].read(4, slice(0, 2))[:, 0], y[4], atol=1e-6)
    with pytest.raises(ValueError, match=r"\('gamma',\) -> .* cannot be rolled out; no input changes in time"):
        predict_file(surrogate, tmp_path / "x.hdf5", tmp_path / "y.hdf5", steps=2)


def test_steps_of_several_fields_are_told_apart(tmp_path):
    surrogate = build(("u[0]", "v[0]"), ("u[1]", "v[1]", "u[2]", "v[2]"))
    x = np.random.default_rng(0).standard_normal((3, 2, 8, 4)).astype(np.float32)
    predict_file(surrogate, save(tmp_path / "x.npy", x), tmp_path / "y.hdf5", steps=2)
    y = directly(surrogate, x, 2)
    source = WellFiles(path=str(tmp_path / "y.hdf5")).open()
    assert source.times.tolist() == [1.0, 2.0, 3.0, 4.0]
    for place, name in enumerate("uv"):
        np.testing.assert_allclose(source.fields[name].read(1, slice(0, 4))[:, 0], y[1, place::2], atol=1e-6)
    with pytest.raises(ValueError, match="not all of the same steps"):
        Frames(("u[1]", "v[1]", "u[2]"))


def test_simulations_that_do_not_fit_are_refused(surrogate, simulations, tmp_path):
    file = tmp_path / "x.hdf5"
    write_shard(file, simulations, name="test", identity={})
    cases = [
        (build(("u[-4]", "u[0]"), ("u[1]",)), {}, r"simulation 0 of .* has 4 steps; the model takes 5"),
        (build(("w[0]",), ("w[1]",)), {}, r"has no 'w' for channel 'w\[0\]'; it has \['gamma', 'u'\]"),
        (build(("u",), ("p",)), {}, r"'u' changes in time; the model takes 'u'"),
        (small(3, 1), {}, "needs one array"),
        (surrogate, {"grid": BOX}, "names its own box"),
        (surrogate, {"split": "test"}, "is one file"),
    ]
    for model, options, message in cases:
        with pytest.raises(ValueError, match=message):
            predict_file(model, file, tmp_path / "y.hdf5", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["x.hdf5"]
    with pytest.raises(ValueError, match=r"points=\(16, 8\) are not available; .* has \(8, 4\)"):
        predict_file(surrogate, tmp_path, tmp_path / "y.hdf5", points=(16, 8))
