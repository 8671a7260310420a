"""Files of arrays: every kind holds the same predictions."""

import numpy as np
import pytest
import torch

from mondrian.data.sources import PairFile
from mondrian.prediction import predict_file
from tests.prediction.cases import ARRAYS, build, directly, load, save, small


@pytest.mark.parametrize("batch_size", [2, 32])
@pytest.mark.parametrize("target", ARRAYS)
@pytest.mark.parametrize("source", ARRAYS)
def test_every_kind_of_file_holds_the_same_predictions(surrogate, samples, tmp_path, source, target, batch_size):
    given, made = save(tmp_path / f"x.{source}", samples), tmp_path / "new" / f"y.{target}"
    report = predict_file(surrogate, given, made, steps=2, batch_size=batch_size)
    assert (report.samples, report.channels, report.not_finite) == (7, ("u[1]", "u[2]"), 0)
    y = load(made)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, directly(surrogate, samples, 2), atol=1e-6)
    assert [path.name for path in made.parent.iterdir()] == [made.name]


@pytest.mark.parametrize("kind", ARRAYS)
def test_one_sample_in_a_file(surrogate, samples, tmp_path, kind):
    predict_file(surrogate, save(tmp_path / f"x.{kind}", samples[1].astype(np.float64)), tmp_path / f"y.{kind}")
    y = load(tmp_path / f"y.{kind}")
    assert (y.shape, y.dtype) == ((1, 8, 4), np.float64)
    np.testing.assert_allclose(y, directly(surrogate, samples[1:2])[0], atol=1e-6)


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_arrays_by_columns_and_packed_ones(surrogate, samples, tmp_path, kind):
    by_columns = np.asfortranarray(samples).astype(">f8", order="K")
    file = tmp_path / f"x.{kind}"
    np.save(file, by_columns) if kind == "npy" else np.savez_compressed(file, by_columns)
    predict_file(surrogate, file, tmp_path / "y.npy", batch_size=3)
    y = np.load(tmp_path / "y.npy")
    assert y.dtype == np.float64
    np.testing.assert_allclose(y, directly(surrogate, samples), atol=1e-6)


@pytest.mark.parametrize("kind", ["npz", "pt"])
@pytest.mark.parametrize("gamma", ["each", "one", "field"])
def test_arrays_by_the_names_of_channels_and_fields(surrogate, samples, tmp_path, kind, gamma):
    if gamma == "one":
        samples[:, 2] = 2e-3
    numbers = {"each": samples[:, 2, 0, 0].astype(np.float64), "one": np.array(2e-3), "field": samples[:, 2]}[gamma]
    by_field = {"u": samples[:, :2], "gamma": numbers, "other": np.array([True])}
    by_channel = {"u[0]": samples[:, 1], "u[-1]": samples[:, 0], "gamma": numbers}
    for arrays in (by_field, by_channel):
        if kind == "npz":
            np.savez(tmp_path / "x.npz", **arrays)
        else:
            torch.save({key: torch.from_numpy(value) for key, value in arrays.items()}, tmp_path / "x.pt")
        predict_file(surrogate, tmp_path / f"x.{kind}", tmp_path / "y.npy", batch_size=3)
        y = np.load(tmp_path / "y.npy")
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, directly(surrogate, samples), atol=1e-6)


def test_a_field_of_several_channels_goes_by_its_name(tmp_path):
    """The file that it was trained on: `x` is `x_0`, `x_1`, `x_2` there, and `y` no input."""
    x = np.random.default_rng(0).standard_normal((5, 3, 8, 4)).astype(np.float32)
    torch.save({"x": torch.from_numpy(x), "y": torch.from_numpy(x)}, tmp_path / "pairs.pt")
    trained_on = PairFile(path=str(tmp_path / "pairs.pt")).open()
    surrogate = build(trained_on.field("x").channels, trained_on.field("y").channels)
    report = predict_file(surrogate, tmp_path / "pairs.pt", tmp_path / "y.npy", batch_size=2)
    assert (report.samples, report.channels) == (5, ("y_0", "y_1", "y_2"))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), directly(surrogate, x), atol=1e-6)


def test_vectors_of_several_steps_go_by_the_name_of_field_component_or_channel(samples, tmp_path):
    surrogate = build(("v_x[-1]", "v_y[-1]", "v_x[0]", "v_y[0]", "gamma"), ("v_x[1]", "v_y[1]"))
    x = np.concatenate([samples[:, :2], 2 * samples[:, :2], samples[:, 2:]], axis=1)
    numbers = x[:, 4, 0, 0]
    channels = {name: x[:, place] for place, name in enumerate(surrogate.spec.in_names)}
    for arrays in ({"v": x[:, :4]}, {"v_x": x[:, [0, 2]], "v_y": x[:, [1, 3]]}, channels):
        np.savez(tmp_path / "x.npz", **arrays | {"gamma": numbers})
        predict_file(surrogate, tmp_path / "x.npz", tmp_path / "y.npy")
        np.testing.assert_allclose(np.load(tmp_path / "y.npy"), directly(surrogate, x), atol=1e-6)


def test_another_field_is_not_taken_for_one_with_a_longer_name(samples, tmp_path):
    surrogate = build(("u", "wall_distance"), ("v",))
    np.savez(tmp_path / "x.npz", u=samples[:, 0], wall=samples[:, 1])
    with pytest.raises(ValueError, match=r"wall \(7, 8, 4\) does not fit the other arrays; needed \(7, 1, 8, 4\)"):
        predict_file(surrogate, tmp_path / "x.npz", tmp_path / "y.npy")


@pytest.mark.parametrize("kind", ARRAYS)
def test_booleans_are_zeros_and_ones(tmp_path, kind):
    """As they are in training: neuraloperator's Darcy files hold the medium so."""
    surrogate = build(("x",), ("y",))
    x = np.random.default_rng(0).random((5, 1, 8, 4)) > 0.5
    predict_file(surrogate, save(tmp_path / f"x.{kind}", x), tmp_path / "y.npy")
    torch.save({"x": torch.from_numpy(x[:, 0]), "y": torch.ones(5, 8, 4)}, tmp_path / "pairs.pt")
    predict_file(surrogate, tmp_path / "pairs.pt", tmp_path / "named.npy")
    for made in ("y.npy", "named.npy"):
        y = np.load(tmp_path / made)
        assert y.dtype == np.float32
        np.testing.assert_allclose(y, directly(surrogate, x.astype(np.float32)), atol=1e-6)


def test_whole_numbers_do_not_round_the_numbers_beside_them(surrogate, tmp_path):
    np.savez(tmp_path / "x.npz", u=np.ones((2, 2, 8, 4), dtype=np.int64), gamma=np.float32(1e-3))
    predict_file(surrogate, tmp_path / "x.npz", tmp_path / "y.npy")
    x = np.ones((2, 3, 8, 4), dtype=np.float32)
    x[:, 2] = 1e-3
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), directly(surrogate, x), atol=1e-6)


@pytest.mark.parametrize(
    "arrays, message",
    [
        ({"u": np.ones((2, 2, 8, 4))}, r"holds \['u'\] but nothing for channel 'gamma'; needed u\[-1\], u\[0\], gamma"),
        ({"u": np.ones((2, 3, 8, 4)), "gamma": 1.0}, r"u \(2, 3, 8, 4\) does not fit .* needed \(2, 2, 8, 4\)"),
        ({"u": np.ones((2, 2, 8, 4)), "gamma": np.ones(3)}, r"gamma \(3,\) does not fit .*\(2, 8, 4\) or \(2,\) or"),
        ({"u": np.ones((2, 8)), "gamma": 1.0}, r"u \(2, 8\); needed a field"),
        ({"u": 1.0, "gamma": 1.0}, "holds only numbers"),
        ({"u": np.ones((2, 2, 8, 4), dtype=complex), "gamma": 1.0}, "dtype complex128; needed real numbers"),
        ({"a": np.ones(3), "b": np.ones(3)}, "nothing for channel"),
        ({}, "holds no arrays"),
    ],
)
def test_named_arrays_that_do_not_fit_are_refused(surrogate, tmp_path, arrays, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        predict_file(surrogate, tmp_path / "x.npz", tmp_path / "y.npy")
    assert not (tmp_path / "y.npy").exists()


def test_a_model_without_names_takes_files_of_one_array(samples, tmp_path):
    model = small(3, 1).eval()
    np.savez(tmp_path / "x.npz", u=samples)
    predict_file(model, tmp_path / "x.npz", tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), directly(model, samples), atol=1e-6)
    with pytest.raises(ValueError, match=r"y\.hdf5 needs the names of fields"):
        predict_file(model, tmp_path / "x.npz", tmp_path / "y.hdf5")
    np.savez(tmp_path / "two.npz", u=samples, v=samples)
    with pytest.raises(ValueError, match="without channel names needs one array"):
        predict_file(model, tmp_path / "two.npz", tmp_path / "y.npy")


def test_predictions_that_are_not_finite_are_counted(surrogate, samples, tmp_path):
    x = np.full((3, 3, 8, 4), 1e-3, dtype=np.float16)
    x[1, :2] = 6e4
    with torch.no_grad():
        for parameter in surrogate.model.projection.parameters():
            parameter.mul_(1e4)
    report = predict_file(surrogate, save(tmp_path / "x.npy", x), tmp_path / "y.npy", batch_size=2)
    assert report.not_finite == int((~np.isfinite(np.load(tmp_path / "y.npy"))).any(axis=(1, 2, 3)).sum()) > 0


def test_packed_arrays_that_are_damaged_are_named(surrogate, samples, tmp_path):
    x = np.random.default_rng(2).choice(abs(samples).ravel(), (200, 3, 8, 4))  # many equal numbers, which pack well
    np.savez_compressed(tmp_path / "x.npz", x)
    whole = (tmp_path / "x.npz").read_bytes()
    for place in np.linspace(100, len(whole) - 200, 20, dtype=int):
        (tmp_path / "x.npz").write_bytes(whole[:place] + bytes(50) + whole[place + 50 :])
        with pytest.raises((ValueError, OSError), match=r"x\.npz"):
            predict_file(surrogate, tmp_path / "x.npz", tmp_path / "y.npy", batch_size=200)
