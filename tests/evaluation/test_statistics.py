"""The bootstrap against scipy's, its coverage, and what is left out."""

import math

import numpy as np
import pytest
import scipy.stats
import torch

from mondrian.evaluation import statistics
from mondrian.evaluation.statistics import Summary, bootstrap_interval, summary
from tests.unchecked import unchecked


def generator(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("confidence", [0.5, 0.95])
def test_the_interval_is_scipys(confidence):
    values = generator().lognormal(size=80)
    low, high = bootstrap_interval(values, confidence, resamples=20_000, seed=1)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, confidence_level=confidence, method="percentile", rng=generator(2)
    ).confidence_interval
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.03 * (theirs.high - theirs.low))


def test_for_many_samples_it_is_the_normal_interval():
    values = generator().exponential(size=4000)
    half = 1.96 * values.std(ddof=1) / math.sqrt(len(values))
    low, high = bootstrap_interval(values)
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_it_covers_the_true_mean_as_often_as_it_says(confidence):
    draw, trials = generator(), 400
    intervals = [bootstrap_interval(draw.normal(3.0, 2.0, 60), confidence, 500, seed) for seed in range(trials)]
    covered = np.mean([low <= 3.0 <= high for low, high in intervals])
    spread = math.sqrt(confidence * (1 - confidence) / trials)
    assert covered == pytest.approx(confidence, abs=3 * spread + 1 / 60)


def test_by_hand_for_two_values():
    # of two values, the means of resamples are 0, 1 and 2 with probabilities 1/4, 1/2 and 1/4
    values = np.array([0.0, 2.0])
    assert bootstrap_interval(values, confidence=0.95) == (0.0, 2.0)
    assert bootstrap_interval(values, confidence=0.3) == (1.0, 1.0)


def test_chunks_do_not_show(monkeypatch):
    values = generator().normal(size=37)
    whole = bootstrap_interval(values, resamples=100)
    monkeypatch.setattr(statistics, "CHUNK", 100)
    assert bootstrap_interval(values, resamples=100) == pytest.approx(whole, rel=1e-14)
    monkeypatch.setattr(statistics, "CHUNK", 1)
    assert bootstrap_interval(values, resamples=100) == pytest.approx(whole, rel=1e-14)
    means = [values[row].mean() for row in generator().integers(0, 37, (100, 37))]
    assert whole == pytest.approx(np.quantile(means, [0.025, 0.975]), rel=1e-14)


def test_it_is_deterministic_and_shifts_and_scales_with_the_values():
    values = generator().normal(size=50)
    low, high = bootstrap_interval(values)
    assert bootstrap_interval(values) == (low, high)
    assert bootstrap_interval(values, seed=1) != (low, high)
    assert bootstrap_interval(3 * values + 1) == pytest.approx((3 * low + 1, 3 * high + 1))
    state = np.random.get_state()[1].copy()  # noqa: NPY002  the global generator is not touched
    bootstrap_interval(values)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002


def test_a_higher_confidence_is_a_wider_interval_about_the_mean():
    values = generator().exponential(size=50)
    bounds = [bootstrap_interval(values, confidence) for confidence in (0.99, 0.9, 0.5)]
    lows, highs = zip(*bounds, strict=True)
    assert [*lows, values.mean(), *highs[::-1]] == sorted([*lows, values.mean(), *highs])


def test_the_summary_leaves_out_nan_and_counts_the_rest():
    values = np.array([1.0, math.nan, 2.0, 6.0, math.nan])
    before = values.copy()
    low, high = bootstrap_interval(values[[0, 2, 3]], 0.8, 300, 5)
    assert summary(values, confidence=0.8, resamples=300, seed=5) == Summary(3.0, low, high, 3)
    np.testing.assert_array_equal(values, before)


def test_the_summary_of_one_value_or_none():
    one, none = summary(np.array([4.0, math.nan])), summary(np.array([math.nan]))
    assert (one.mean, one.count) == (4.0, 1)
    assert (none.count, summary(np.zeros(0)).count) == (0, 0)
    assert all(math.isnan(value) for value in (one.low, one.high, none.mean, none.low, none.high))


def test_an_infinite_error_is_not_hidden():
    values = np.append(generator().uniform(size=99), math.inf)  # in 37 of 100 resamples it is not drawn
    result = summary(values)
    assert (result.mean, result.high, result.count) == (math.inf, math.inf, 100)
    assert 0 < result.low < 1
    assert summary(np.full(5, math.inf)) == Summary(math.inf, math.inf, math.inf, 5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_tensors_are_values_too(dtype):
    values = torch.rand(20, requires_grad=True).to(dtype)
    assert summary(values) == summary(values.detach().double().numpy())


def test_equal_values_have_no_spread():
    assert bootstrap_interval(np.full(10, 0.25)) == (0.25, 0.25)


@unchecked()
def test_bad_input_is_refused_by_name():
    for bad in ([1.0], [], [1.0, math.nan], [1.0, -math.inf]):
        with pytest.raises(ValueError, match=r"values=.* must be at least two numbers"):
            bootstrap_interval(np.array(bad))
    with pytest.raises(ValueError, match=r"values has shape \(2, 3\)"):
        summary(np.zeros((2, 3)))
    for confidence in (0.0, 1.0, 95.0, math.nan):
        with pytest.raises(ValueError, match=f"confidence={confidence}"):
            bootstrap_interval(np.arange(3.0), confidence)
    with pytest.raises(ValueError, match="resamples=0"):
        bootstrap_interval(np.arange(3.0), resamples=0)
