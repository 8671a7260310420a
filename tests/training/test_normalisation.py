"""Scales: exact moments, of the training part alone, one for all steps of a field."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mondrian.data import ArrayFile, Axis, Splits, Window
from mondrian.data.protocol import digest
from mondrian.surrogate import Scale
from mondrian.training.grids import GridData
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
    with pytest.raises(ValueError, match=r"data\.log names 'nu'; the data set's channels are of \['gamma', 'u'\]"):
        fit_scales(samples, log=("nu",))
    with pytest.raises(ValueError, match=r"log names 'u', which has values of -0\.5; needed positive ones"):
        fit_scales(samples, log=("u",))


def stored(folder: Path, values: np.ndarray) -> Splits:
    np.save(folder / "p.npy", values)
    files = ArrayFile(path=str(folder / "p.npy"), axes=(Axis.SIMULATION, Axis.TIME, Axis.SPACE), keys=("p",))
    return Splits(files=files, window=Window(input=("p",), target=("p",)))


@pytest.mark.parametrize("mean, deviation", [(101325.0, 0.01), (1e8, 1.0)])
def test_fields_that_float32_cannot_tell_from_constants_are_refused(
    mean: float, deviation: float, tmp_path: Path
) -> None:
    noise = np.random.default_rng(0).normal(size=(10, 4, 32))
    splits = stored(tmp_path, mean + deviation * noise)
    with pytest.raises(ValueError, match=r"'p' has mean .* float32 would lose \d+%; needed trainer\.precision="):
        fit_scales(splits.dataset("train"))
    data = GridData(splits, batch_size=1, max_steps=1, dtype=torch.float64)
    in_scales, _ = fit_scales(data.train)
    assert in_scales[0].factor == pytest.approx(deviation, rel=0.1)
    assert data.train[0]["x"].dtype == data.valid[0]["y"].dtype == torch.float64
    assert digest(data.train) == digest(GridData(splits, batch_size=1, max_steps=1).train)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_constants_and_what_is_stored_in_float32_are_taken_as_they_are(kind: type, tmp_path: Path) -> None:
    constant, _ = fit_scales(stored(tmp_path, np.full((10, 4, 32), 0.1, dtype=kind)).dataset("train"))
    assert constant[0].factor == 1
    coarse = (1e5 + np.random.default_rng(0).integers(0, 2, size=(10, 4, 32)) / 64).astype(np.float32)
    rounded, _ = fit_scales(stored(tmp_path, coarse.astype(kind)).dataset("train"))
    assert rounded[0].factor == pytest.approx(1 / 128, rel=0.1)
