"""Scales: exact moments, of the training part alone, one for all steps of a field."""

import numpy as np
import pytest
import torch

from mondrian.data import Splits
from mondrian.surrogate import Scale
from mondrian.training.normalisation import Moments, fit_scales


def test_moments_of_chunks_are_those_of_the_whole() -> None:
    values = torch.randn(1000, dtype=torch.float64) * 1e-3 + 1e3  # where a sum of squares would lose all digits
    moments = Moments()
    for chunk in values.split([1, 300, 299, 400]):
        moments.add(chunk)
    assert moments.count == 1000
    assert moments.mean == pytest.approx(values.mean().item(), rel=1e-14)
    assert moments.deviation == pytest.approx(values.numpy().std(), rel=1e-9)


def test_scaled_training_samples_have_mean_zero_and_deviation_one(allen_cahn_splits: Splits) -> None:
    samples = allen_cahn_splits.dataset("train")
    in_scales, out_scales = fit_scales(samples, log=("gamma",))
    x = torch.stack([sample["x"] for sample in (samples[n] for n in range(len(samples)))]).double()
    y = torch.stack([sample["y"] for sample in (samples[n] for n in range(len(samples)))]).double()
    for values, scale in [(x[:, 0], in_scales[0]), (x[:, 1].log10(), in_scales[1]), (y[:, 0], out_scales[0])]:
        scaled = (values - scale.shift) / scale.factor
        assert scaled.mean().item() == pytest.approx(0, abs=1e-9)
        assert scaled.std(correction=0).item() == pytest.approx(1, abs=1e-9)
    assert [scale.log for scale in in_scales] == [False, True]


def test_steps_of_one_field_share_their_scale(navier_stokes_splits: Splits) -> None:
    samples = navier_stokes_splits.dataset("train")
    in_scales, out_scales = fit_scales(samples, method="scale")
    everything = np.concatenate([samples[n]["x"].numpy().ravel() for n in range(len(samples))]).astype(np.float64)
    assert in_scales[0] == in_scales[1]
    assert in_scales[0].shift == 0
    assert in_scales[0].factor == pytest.approx(everything.std(), rel=1e-9)
    assert out_scales[0] != in_scales[0]  # of other frames


def test_none_leaves_everything_as_it_is(allen_cahn_splits: Splits) -> None:
    in_scales, out_scales = fit_scales(allen_cahn_splits.dataset("train"), method="none")
    assert (*in_scales, *out_scales) == (Scale(),) * 3


def test_bad_settings_are_named(allen_cahn_splits: Splits) -> None:
    samples = allen_cahn_splits.dataset("train")
    with pytest.raises(ValueError, match="normalise=some is not known; needed one of standard, scale, none"):
        fit_scales(samples, method="some")
    with pytest.raises(ValueError, match=r"log names 'nu'; the data set's channels are of \['gamma', 'u'\]"):
        fit_scales(samples, log=("nu",))
    with pytest.raises(ValueError, match=r"log names 'u', which has values of -0\.5; needed positive ones"):
        fit_scales(samples, log=("u",))
