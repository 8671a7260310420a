"""Rollouts: exact operators stay exact, errors grow as they must, and what blows up is counted and not lost."""

import math
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from mondrian.data import ArrayFile, Axis, PDEBenchFile, Splits, Window
from mondrian.evaluation import Trajectories, evaluate
from tests.evaluation.cases import array_splits, generated, surrogate, travelling

PAIRS = Window(input=("u",), target=("u",), steps_in=2, steps_out=2)


def means(values) -> list[float]:
    return [value.mean for value in values]


@pytest.mark.parametrize("points", [(16,), (8, 12)], ids=["1-D", "2-D"])
def test_the_exact_operator_stays_exact_at_all_times(points: tuple[int, ...], tmp_path: Path) -> None:
    splits = array_splits(tmp_path, travelling(10, 9, points))
    (rollout,) = evaluate(surrogate(shift=1), splits).rollout
    assert rollout.points == points
    assert (rollout.simulations, rollout.horizon, rollout.start, rollout.diverged) == (2, 8, 0.0, 0)
    assert rollout.times == tuple(range(1, 9))
    assert means(rollout.mae) == means(rollout.relative_l2) == [0.0] * 8
    assert means(rollout.correlation) == pytest.approx([1.0] * 8)
    assert rollout.correlation_time.mean == 8.0  # it is at least that
    assert rollout.mean_relative_l2.mean == 0
    assert max(rollout.spectrum.error) == 0


def test_two_frames_in_two_out_up_to_an_odd_horizon(tmp_path: Path) -> None:
    splits = array_splits(tmp_path, travelling(10, 9, (16,)), PAIRS)
    model = surrogate(("u[-1]", "u[0]"), ("u[1]", "u[2]"), shift=1)
    results = evaluate(model, splits, horizon=5)
    (rollout,) = results.rollout
    assert (rollout.horizon, rollout.start, rollout.times) == (5, 1.0, (2.0, 3.0, 4.0, 5.0, 6.0))
    assert means(rollout.mae) == [0.0] * 5
    assert results.fields["16/rollout_truth"].shape == (2, 5, 1, 16)
    np.testing.assert_array_equal(results.fields["16/rollout_truth"], results.fields["16/rollout_prediction"])
    np.testing.assert_array_equal(results.fields["16/rollout_times"], rollout.times)


def test_a_rollout_is_no_longer_than_the_times_that_are_known(tmp_path: Path) -> None:
    """Those of the first simulation, which may be shorter than the ones that are looked at."""
    u = travelling(10, 9, (16,))
    with h5py.File(tmp_path / "u.hdf5", "w") as file:
        for number, frames in enumerate(u):
            steps = 5 if number == 0 else 9
            file[f"{number:04d}/data"] = frames[:steps, :, None].astype(np.float32)
            file[f"{number:04d}/grid/x"] = np.arange(16.0)
            file[f"{number:04d}/grid/t"] = np.arange(float(steps))
    splits = Splits(
        files=PDEBenchFile(path=str(tmp_path / "u.hdf5"), periodic=(True,)),
        window=Window(input=("data",), target=("data",)),
        fractions=(0.6, 0.2, 0.2),
        seed=0,
    )
    assert 0 not in splits.dataset("test").simulations
    (rollout,) = evaluate(surrogate(("data[0]",), ("data[1]",), shift=1), splits).rollout
    assert rollout.times == (1.0, 2.0, 3.0, 4.0)
    assert means(rollout.mae) == [0.0] * 4


def test_a_constant_error_adds_up_and_leaves_the_correlation(tmp_path: Path) -> None:
    u = np.broadcast_to(np.array([1.0, -1.0, 1.0, -1.0]), (10, 5, 4))
    (rollout,) = evaluate(surrogate(offset=0.5), array_splits(tmp_path, u)).rollout
    assert means(rollout.mae) == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert means(rollout.relative_l2) == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert rollout.mean_relative_l2.mean == pytest.approx(1.25)
    assert means(rollout.correlation) == pytest.approx([1.0] * 4)
    assert rollout.spectrum.error[0] == pytest.approx(4.0)  # of the last frame


def test_the_correlation_time_lies_between_frames_on_the_clock_of_the_data(tmp_path: Path) -> None:
    # The truth turns by a quarter a frame, the model stands still: correlations cos(pi/2) = 0, -1, 0.
    x = math.tau * np.arange(16) / 16
    frames = np.stack([np.sin(x - math.pi / 2 * step) for step in range(4)])
    u = np.broadcast_to(frames, (4, 4, 16))
    times = np.array([10.0, 11.0, 12.0, 13.0])
    splits = generated(tmp_path, {"train": {(16,): u}, "test": {(16,): u}}, times)
    (rollout,) = evaluate(surrogate(), splits).rollout
    assert (rollout.start, rollout.times) == (10.0, (11.0, 12.0, 13.0))
    assert means(rollout.correlation) == pytest.approx([0.0, -1.0, 0.0], abs=1e-6)
    assert rollout.correlation_time.mean == pytest.approx(10.2)  # linear from 1 at the start to 0: 0.8 after a fifth


def test_what_blows_up_has_infinite_errors_and_no_correlation_and_is_counted(tmp_path: Path) -> None:
    u = np.ones((10, 5, 4))
    u[:, :, 0] = 2.0
    splits = array_splits(tmp_path, u)
    one, _ = splits.dataset("test").simulations
    u[one] *= 1e-30  # times 1e25 a step, this one leaves float32 after three steps, the other after two
    (rollout,) = evaluate(surrogate(factor=1e25), array_splits(tmp_path, u)).rollout
    assert math.isfinite(rollout.mae[0].mean)
    assert means(rollout.mae)[1:] == [math.inf] * 3
    assert means(rollout.relative_l2)[1:] == [math.inf] * 3
    assert means(rollout.correlation) == pytest.approx([1.0, 0.5, 0.0, 0.0])
    assert rollout.mae[1].count == 2
    assert rollout.mean_relative_l2.mean == math.inf
    assert rollout.diverged == 2
    assert set(rollout.spectrum.prediction) == {math.inf}


def test_what_is_lost_stays_lost_even_if_the_model_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = surrogate()

    def overflow_and_return(x, grid=None):
        return torch.where(x.isfinite(), x * 1e25, 1.0)  # 1, 1e25, infinity, 1

    monkeypatch.setattr(model.model, "forward", overflow_and_return)
    (rollout,) = evaluate(model, array_splits(tmp_path, np.ones((10, 5, 4)))).rollout
    assert means(rollout.mae) == [pytest.approx(1e25), math.inf, math.inf, math.inf]
    assert rollout.diverged == 2


def test_fields_that_stay_constant_are_given_again_and_not_counted(tmp_path: Path) -> None:
    u = travelling(4, 5, (8,))
    splits = generated(tmp_path, {"train": {(8,): u}, "test": {(8,): u}}, np.arange(5.0))
    given = replace(splits, window=Window(input=("u", "gamma"), target=("u",)))
    results = evaluate(surrogate(("u[0]", "gamma"), source=0, shift=1), given, simulations=3)
    assert (results.rollout[0].simulations, means(results.rollout[0].mae)) == (3, [0.0] * 4)
    predicted = replace(splits, window=Window(input=("u", "gamma"), target=("u", "gamma")))
    results = evaluate(surrogate(("u[0]", "gamma"), ("u[1]", "gamma"), source=0, shift=1), predicted)
    assert means(results.rollout[0].mae) == [0.0] * 4
    assert results.fields["8/rollout_prediction"].shape == (2, 4, 1, 8)


@pytest.mark.parametrize("horizon, frames", [(0, None), (1, None), (2, 2), (3, 3), (100, 4)])
def test_a_horizon_of_one_application_is_no_rollout_and_a_long_one_ends_with_the_data(
    horizon: int, frames: int | None, tmp_path: Path
) -> None:
    splits = array_splits(tmp_path, travelling(10, 5, (8,)))
    rollout = evaluate(surrogate(shift=1), splits, horizon=horizon).rollout
    assert [entry.horizon for entry in rollout] == ([] if frames is None else [frames])


def test_what_does_not_predict_its_own_input_is_not_rolled_out(tmp_path: Path) -> None:
    u = travelling(10, 6, (8,))
    np.savez(tmp_path / "two.npz", u=u, v=u)
    files = ArrayFile(path=str(tmp_path / "two.npz"), axes=(Axis.SIMULATION, Axis.TIME, Axis.SPACE), keys=("u", "v"))
    window = Window(input=("u",), target=("v",))
    results = evaluate(surrogate(("u[0]",), ("v[1]",)), Splits(files=files, window=window))
    assert results.rollout == ()
    assert results.one_step[0].persistence is None


def test_batches_do_not_change_the_result(tmp_path: Path) -> None:
    splits = array_splits(tmp_path, np.random.default_rng(2).standard_normal((25, 6, 8)))
    model = surrogate(factor=0.5)
    rollouts: list[Trajectories] = [evaluate(model, splits, batch_size=size).rollout[0] for size in (1, 2, 32)]
    assert rollouts[0] == rollouts[1] == rollouts[2]
    assert rollouts[0].simulations == 5
