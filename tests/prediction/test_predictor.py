"""Predictions in memory: the same numbers whatever the pieces."""

import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.models.baselines import ffno
from mondrian.prediction import Predictor, predict
from mondrian.resampling import resample
from tests.prediction.cases import BOX, build, directly, small
from tests.unchecked import unchecked


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_pieces_change_nothing(surrogate, samples, batch_size, steps):
    y = predict(surrogate, samples, steps=steps, batch_size=batch_size)
    assert isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, directly(surrogate, samples, steps), atol=1e-6)
    z = predict(surrogate, torch.from_numpy(samples), steps=steps, batch_size=batch_size)
    assert not z.requires_grad
    np.testing.assert_array_equal(z.numpy(), y)


def test_one_sample_is_answered_without_a_batch_axis(surrogate, samples):
    y = predict(surrogate, samples[2])
    assert y.shape == (1, 8, 4)
    np.testing.assert_allclose(y, directly(surrogate, samples)[2], atol=1e-6)
    assert predict(surrogate, torch.from_numpy(samples[2]), steps=2).shape == (2, 8, 4)


def test_a_rollout_is_repeated_application():
    surrogate = build(("u[-1]", "u[0]", "gamma"), ("u[1]", "u[2]"))
    x = np.full((2, 3, 8, 8), 1e-3)
    y = predict(surrogate, x, steps=3)
    once = predict(surrogate, x)
    np.testing.assert_allclose(y[:, :2], once, atol=1e-6)
    for place in (2, 4):
        once = predict(surrogate, np.concatenate([once, x[:, 2:]], axis=1))
        np.testing.assert_allclose(y[:, place : place + 2], once, atol=1e-6)
    assert Predictor(surrogate, applications=3).out_names == tuple(f"u[{n}]" for n in range(1, 7))


@pytest.mark.parametrize("model_dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_computed_in_the_precision_of_the_model_answered_in_that_of_the_input(surrogate, samples, dtype, model_dtype):
    surrogate = surrogate.to(model_dtype)
    x = samples.astype(dtype)
    y = predict(surrogate, x)
    assert y.dtype == x.dtype.newbyteorder("=")
    with torch.no_grad():
        given = torch.promote_types(model_dtype, torch.float32)  # halved only once it is scaled
        expected = surrogate(torch.from_numpy(x.astype(np.float64)).to(given))
    np.testing.assert_array_equal(y, expected.to(torch.from_numpy(y).dtype).numpy())


@pytest.mark.parametrize("dtype", [np.uint8, bool])
def test_whole_numbers_and_booleans_are_answered_in_the_precision_of_the_model(surrogate, dtype):
    x = np.ones((2, 3, 8, 4), dtype=dtype)
    y = predict(surrogate, x)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, directly(surrogate, x.astype(np.float32)), atol=1e-6)
    assert predict(surrogate, torch.from_numpy(x)).dtype == torch.float32


def test_training_continues_after_a_prediction(surrogate, samples):
    surrogate.train()
    surrogate.model.lift.eval()
    before = [module.training for module in surrogate.modules()]
    predict(surrogate, samples)
    assert [module.training for module in surrogate.modules()] == before
    surrogate(torch.from_numpy(samples)).sum().backward()


def test_the_box_is_that_of_the_call():
    model = ffno(1, 1, hidden_channels=4, n_layers=1, modes=(2, 2)).eval()
    x = np.random.default_rng(0).standard_normal((2, 1, 8, 8)).astype(np.float32)
    ring = Grid(extent=(1.0, 1.0), periodic=(True, True))
    y = predict(model, x, grid=ring)
    np.testing.assert_allclose(y, directly(model, x, grid=ring), atol=1e-6)
    assert np.abs(y - predict(model, x)).max() > 1e-4


@pytest.mark.parametrize(
    "change, message",
    [
        ({"x": np.ones((2, 2, 8, 4))}, r"x has shape .*needed \(batch, 3 channels \(u\[-1\], u\[0\], gamma\), 2 space"),
        ({"x": np.ones((8, 4))}, r"x has shape \(8, 4\)"),
        ({"x": np.ones((0, 3, 8, 4))}, "at least one sample"),
        ({"x": np.ones((1, 3, 8, 4), dtype=complex)}, "dtype complex128; needed real numbers"),
        ({"x": torch.ones((1, 3, 8, 4), dtype=torch.complex64)}, "complex64; needed real numbers"),
        ({"steps": 0}, "steps=0 must be at least 1"),
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"grid": Grid(extent=(1.0,))}, "grid has 1 axes; the model has 2"),
        ({"out_grid": Grid(extent=(1.0,), points=(4,))}, "out_grid=.* must have points along 2 axes"),
        ({"out_grid": Grid(extent=(2.0, 1.0))}, "out_grid=.* must have points along 2 axes"),
        ({"out_grid": Grid(extent=(3.0, 1.0), points=(4, 4))}, "needed to stay within the source, 0.0 to 2.0"),
        ({"grid": Grid(extent=(1.0, 1.0), points=(4, 4))}, r"x has \(8, 4\) points; the grid has \(4, 4\)"),
    ],
)
def test_what_does_not_fit_is_refused(surrogate, change, message):
    with unchecked(), pytest.raises(ValueError, match=message):
        predict(surrogate, **{"x": np.ones((1, 3, 8, 4)), **change})


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_is_named_by_sample_and_channel(surrogate, samples, value):
    x = samples.astype(np.float64)
    x[5, 1, 3, 2] = value  # 1e300 is infinite in the precision of the model
    with pytest.raises(ValueError, match=r"sample 5, channel 'u\[0\]' holds NaN or infinite values \(in float32\)"):
        predict(surrogate, x, batch_size=2)


@pytest.mark.parametrize("value", [0.0, -1e-3])
def test_what_has_no_logarithm_is_named_by_sample_and_channel(surrogate, samples, value):
    samples[4, 2] = value
    with pytest.raises(ValueError, match=rf"sample 4, channel 'gamma' holds {value:g}; needed positive"):
        predict(surrogate, samples, batch_size=3)


def test_a_model_without_names_is_applied_but_not_rolled_out(samples):
    for model in (small(3, 1).eval(), ffno(3, 1, hidden_channels=4, n_layers=1, modes=(2, 2)).eval()):
        np.testing.assert_allclose(predict(model, samples, batch_size=2), directly(model, samples), atol=1e-6)
        with pytest.raises(ValueError, match="only a Surrogate knows them"):
            predict(model, samples, steps=2)


@pytest.mark.parametrize("steps", [1, 3])
def test_any_points_in_and_any_points_out(surrogate, steps):
    x = np.full((3, 3, 7, 9), 1e-3, dtype=np.float32)
    x[:, :2] = np.random.default_rng(0).standard_normal((3, 2, 7, 9))
    y = predict(surrogate, x, steps=steps)
    np.testing.assert_allclose(y, directly(surrogate, x, steps), atol=1e-6)
    out = Grid(extent=(2.0, 1.0), points=(11, 5), ends=(2, 0))
    z = predict(surrogate, x, steps=steps, out_grid=out, batch_size=2)
    assert z.shape == (3, steps, 11, 5)
    if steps == 1:
        with torch.no_grad():
            expected = surrogate(torch.from_numpy(x), None, out)
    else:  # what is fed back stands on the points of the input
        expected = resample(torch.from_numpy(y), BOX.with_points((7, 9)), out)
    np.testing.assert_allclose(z, expected.numpy(), atol=1e-5)
    again = predict(surrogate, torch.from_numpy(x), steps=steps, out_grid=out, batch_size=2)
    np.testing.assert_array_equal(again.numpy(), z)


def test_models_without_names_answer_at_other_points_too(samples):
    out = Grid(extent=(1.0, 1.0), points=(5, 6))
    ours, other = small(3, 1).eval(), ffno(3, 1, hidden_channels=4, n_layers=1, modes=(2, 2)).eval()
    samples = torch.from_numpy(samples)
    with torch.no_grad():
        torch.testing.assert_close(predict(ours, samples, out_grid=out), ours(samples, None, out))
        there = out.with_points(tuple(samples.shape[2:]))
        torch.testing.assert_close(predict(other, samples, out_grid=out), resample(other(samples), there, out))
