"""One application: every number is one that can be worked out by hand."""

import math
from dataclasses import replace
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
import torch

from mondrian import Grid
from mondrian.data import ArrayFile, Axis, Splits, Window
from mondrian.data.restriction import block_average
from mondrian.evaluation import evaluate
from mondrian.evaluation.baselines import carried
from mondrian.surrogate import Scale, SurrogateSpec
from tests.evaluation.cases import Moved, array_splits, generated, surrogate, travelling

METRICS = ("mae", "mse", "relative_l2", "maximum")


@pytest.mark.parametrize("points", [(16,), (8, 12)], ids=["1-D", "2-D"])
def test_the_exact_operator_has_no_error(points: tuple[int, ...], tmp_path: Path) -> None:
    results = evaluate(surrogate(shift=1), array_splits(tmp_path, travelling(10, 2, points)))
    (entry,) = results.one_step
    assert entry.points == points
    assert [entry.model[name].mean for name in METRICS] == [0.0] * 4
    assert entry.persistence["mae"].mean > 0.5
    assert max(entry.spectrum.error) == 0
    assert entry.spectrum.prediction == entry.spectrum.truth
    assert [band.relative_error.mean for band in entry.bands] == [0.0] * len(entry.bands)


def test_a_model_that_is_off_by_a_constant(tmp_path: Path) -> None:
    u = np.broadcast_to(np.array([2.0, -2.0, 2.0, -2.0]), (10, 2, 4))
    (entry,) = evaluate(surrogate(offset=0.25), array_splits(tmp_path, u)).one_step
    for name, value in {"mae": 0.25, "mse": 0.0625, "relative_l2": 0.125, "maximum": 0.25}.items():
        mean = entry.model[name]
        assert (mean.mean, mean.low, mean.high, mean.count) == pytest.approx((value, value, value, 2))
    # All energy of the truth, 4, is at the grid's end of the spectrum; that of the error, 1/16, is its mean.
    assert entry.spectrum.wavenumber == pytest.approx((0, math.tau, 2 * math.tau))
    assert entry.spectrum.truth == pytest.approx((0, 0, 4))
    assert entry.spectrum.error == pytest.approx((0.0625, 0, 0))
    assert entry.spectrum.prediction == pytest.approx((0.0625, 0, 4))


def test_windows_of_a_simulation_are_averaged_before_simulations_are(tmp_path: Path) -> None:
    u = np.zeros((10, 4, 4))
    splits = array_splits(tmp_path, u)
    one, other = splits.dataset("test").simulations
    u[one, 1:] = np.array([6.0, 6.0, 6.0])[:, None]  # changes of 6, 0, 0
    u[other, 1:] = np.array([1.0, 2.0, 3.0])[:, None]  # changes of 1, 1, 1
    results = evaluate(surrogate(factor=0.0), array_splits(tmp_path, u))
    (entry,) = results.one_step
    assert entry.samples == 6
    assert entry.persistence["mae"].mean == pytest.approx((2 + 1) / 2)
    assert entry.persistence["maximum"].mean == pytest.approx((2 + 1) / 2)
    assert entry.persistence["mse"].mean == pytest.approx((12 + 1) / 2)
    assert entry.model["mae"].mean == pytest.approx((6 + 2) / 2)
    assert entry.model["mae"].count == results.simulations == 2


def test_a_bootstrap_interval_contains_the_mean(tmp_path: Path) -> None:
    u = np.random.default_rng(1).standard_normal((40, 3, 8))
    (entry,) = evaluate(surrogate(), array_splits(tmp_path, u)).one_step
    for side in (entry.model, entry.persistence, entry.training_mean):
        for value in side.values():
            assert value.low < value.mean < value.high
            assert value.count == 8
    assert entry.model == entry.persistence  # the identity is the persistence baseline


def test_persistence_of_what_stays_is_exact_and_the_training_mean_is_that_of_the_targets(tmp_path: Path) -> None:
    x = np.arange(8.0)
    u = np.empty((10, 3, 8))
    u[:] = x
    splits = array_splits(tmp_path, u)
    for place, simulation in enumerate(splits.dataset("train").simulations):
        u[simulation] += place  # 0 to 5: 2.5 in the mean
    (entry,) = evaluate(surrogate(factor=0.0), array_splits(tmp_path, u)).one_step
    assert entry.persistence["mae"].mean == entry.persistence["maximum"].mean == 0
    assert entry.training_mean["mae"].mean == pytest.approx(2.5)
    assert entry.training_mean["maximum"].mean == pytest.approx(2.5)


def test_the_training_mean_leaves_out_what_was_not_trained_on(tmp_path: Path) -> None:
    train, test = np.zeros((3, 2, 4)), np.zeros((2, 2, 4))
    train[1:] = 9.0
    splits = generated(tmp_path, {"train": {(4,): train}, "test": {(4,): test}}, np.array([0.0, 1.0]))
    first = evaluate(surrogate(), replace(splits, simulations=1)).one_step[0]
    assert first.training_mean["mae"].mean == 0
    assert evaluate(surrogate(), splits).one_step[0].training_mean["mae"].mean == pytest.approx(6.0)


def test_several_resolutions_with_the_training_mean_carried_to_each(tmp_path: Path) -> None:
    train = {(4,): np.broadcast_to(np.array([0.0, 1.0, 2.0, 3.0]), (2, 2, 4))}
    test = {(n,): np.zeros((3, 2, n)) for n in (8, 4, 2, 6)}
    splits = generated(tmp_path, {"train": train, "test": test}, np.array([0.0, 1.0]), phases=True)  # between walls
    results = evaluate(surrogate(offset=1.0), splits)
    assert [entry.points for entry in results.one_step] == [(2,), (4,), (6,), (8,)]
    assert [entry.model["mae"].mean for entry in results.one_step] == [1.0] * 4
    # Averaged to (0.5, 2.5), as it is, and the same line through the centres of 6 and of 8 cells.
    ends = [entry.training_mean["maximum"].mean for entry in results.one_step]
    assert ends == pytest.approx([2.5, 3.0, 4 * 5.5 / 6 - 0.5, 4 * 7.5 / 8 - 0.5])
    line = [np.abs(4 * (np.arange(n) + 0.5) / n - 0.5).mean() for n in (2, 4, 6, 8)]
    assert [entry.training_mean["mae"].mean for entry in results.one_step] == pytest.approx(line)
    assert math.isnan(results.one_step[0].model["relative_l2"].mean)  # relative to nothing
    assert results.one_step[0].model["relative_l2"].count == 0


@pytest.mark.parametrize(
    "settings, target",
    [
        ({}, {"points": (24,)}),  # neither divides the other
        ({"periodic": (True,)}, {"points": (24,)}),
        ({"periodic": (True,)}, {"points": (32,)}),
        ({}, {"points": (25,), "ends": (2,)}),
        ({"points": (17,), "ends": (2,)}, {"points": (24,), "ends": (0,)}),
        ({}, {"points": (24,), "extent": (2.000001,)}),  # as another file rounds it
    ],
    ids=["walls", "ring", "finer ring", "to vertices", "from vertices", "rounded box"],
)
def test_a_smooth_field_is_carried_to_any_grid(settings: dict, target: dict) -> None:
    source = Grid(**{"extent": (2.0,), "points": (16,), **settings})
    there = replace(source, **target)
    wave, wanted = (torch.sin(math.pi * grid.axis(0, dtype=torch.float64))[None] for grid in (source, there))
    assert (carried(wave, source, there) - wanted).abs().max() < 0.006  # fourth order; at the ends from one side


@pytest.mark.parametrize("periodic", [True, False])
def test_a_field_is_carried_to_larger_cells_by_block_averages(periodic: bool) -> None:
    grid = Grid(extent=(2.0, 1.0), points=(12, 8), periodic=(periodic,) * 2)
    field = torch.randn(3, 12, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for points in ((6, 4), (4, 8), (1, 2)):
        torch.testing.assert_close(carried(field, grid, grid.with_points(points)), block_average(field, points))
    assert carried(field, grid, grid).equal(field)


def test_bands_are_those_of_the_training_grid_and_one_for_what_only_finer_grids_carry(tmp_path: Path) -> None:
    shapes = {"train": {(16,): travelling(2, 2, (16,))}, "test": {(n,): travelling(2, 2, (n,)) for n in (8, 16, 32)}}
    results = evaluate(surrogate(shift=1), generated(tmp_path, shapes, np.array([0.0, 1.0])))
    coarse, same, fine = ([(band.low, band.high) for band in entry.bands] for entry in results.one_step)
    unit = math.pi  # 2 pi / 2
    assert same[0][0] == 0
    assert same[-1][1] == pytest.approx(8 * unit)
    assert fine[: len(same) - 1] == same[:-1]
    assert fine[-2] == pytest.approx((same[-1][0], 8.5 * unit))
    assert fine[-1] == pytest.approx((8.5 * unit, 16 * unit))
    assert coarse[0] == same[0]
    assert coarse[-1][1] == pytest.approx(4 * unit)


def test_error_at_interfaces_is_measured_for_allen_cahn_only(tmp_path: Path) -> None:
    u = np.ones((3, 2, 64))
    u[:, :, :32] = -1
    (tmp_path / "phases").mkdir()
    (tmp_path / "others").mkdir()
    both = {"train": {(64,): u}, "test": {(64,): u}}
    phases = generated(tmp_path / "phases", both, np.array([0.0, 1.0]), phases=True)
    others = generated(tmp_path / "others", both, np.array([0.0, 1.0]))
    entry = evaluate(surrogate(offset=0.5), phases).one_step[0]
    assert entry.model["interface"].mean == pytest.approx(0.5)
    assert entry.persistence["interface"].mean == 0
    assert "interface" not in evaluate(surrogate(), others).one_step[0].model
    assert "interface" in evaluate(surrogate(), others, interface=True).one_step[0].model
    assert "interface" not in evaluate(surrogate(), phases, interface=False).one_step[0].model


def test_targets_that_are_no_input_have_no_persistence(tmp_path: Path) -> None:
    np.savez(tmp_path / "pairs.npz", a=np.ones((10, 8)), b=np.full((10, 8), 3.0))
    files = ArrayFile(path=str(tmp_path / "pairs.npz"), axes=(Axis.SIMULATION, Axis.SPACE), keys=("a", "b"))
    splits = Splits(files=files, window=Window(input=("a",), target=("b",)))
    results = evaluate(surrogate(("a",), ("b",)), splits)
    assert results.one_step[0].persistence is None
    assert results.one_step[0].model["mae"].mean == 2.0
    assert results.one_step[0].training_mean["mae"].mean == 0.0
    assert results.rollout == ()


def test_channels_are_averaged_and_each_is_relative_to_itself(tmp_path: Path) -> None:
    u = np.empty((10, 2, 2, 4))
    u[:, :, 0], u[:, :, 1] = 1.0, 100.0
    splits = array_splits(tmp_path, u, channels=True)
    model = surrogate(("u_0[0]", "u_1[0]"), ("u_0[1]", "u_1[1]"))  # answers channel 1 twice
    (entry,) = evaluate(model, splits).one_step
    assert entry.model["mae"].mean == pytest.approx(99 / 2)
    assert entry.model["relative_l2"].mean == pytest.approx(99 / 2)
    assert entry.persistence["mae"].mean == 0


def test_each_of_several_fields_has_errors_of_its_own(tmp_path: Path) -> None:
    u = np.empty((10, 3, 2, 4))
    u[:, :, 0] = np.array([1.0, 2.0, 4.0])[:, None]
    u[:, :, 1] = 100.0
    window = Window(input=("u",), target=("u",), steps_out=2)
    model = surrogate(("u_0[0]", "u_1[0]"), ("u_0[1]", "u_1[1]", "u_0[2]", "u_1[2]"), source=0)  # answers 1
    (entry,) = evaluate(model, array_splits(tmp_path, u, window, channels=True)).one_step
    first, other = entry.by_field["u_0"], entry.by_field["u_1"]
    assert list(entry.by_field) == ["u_0", "u_1"]  # frames of a field together
    assert first.model["mae"].mean == first.persistence["mae"].mean == pytest.approx((1 + 3) / 2)
    assert first.model["relative_l2"].mean == pytest.approx((1 / 2 + 3 / 4) / 2)
    assert other.model["mae"].mean == pytest.approx(99)
    assert other.model["relative_l2"].mean == pytest.approx(0.99)
    assert other.persistence["mae"].mean == other.training_mean["mae"].mean == 0
    assert entry.model["mae"].mean == pytest.approx((2 + 99) / 2)
    assert first.model["mae"].count == 2


def test_frames_of_one_field_are_not_told_apart(tmp_path: Path) -> None:
    splits = array_splits(tmp_path, travelling(10, 3, (8,)), Window(input=("u",), target=("u",), steps_out=2))
    (entry,) = evaluate(surrogate(out_names=("u[1]", "u[2]"), shift=1), splits).one_step
    assert entry.by_field is None


def test_a_prediction_that_is_not_finite_has_infinite_error(tmp_path: Path) -> None:
    u = travelling(10, 2, (8,))
    (entry,) = evaluate(surrogate(factor=math.inf), array_splits(tmp_path, u)).one_step
    assert {value.mean for value in entry.model.values()} == {math.inf}
    assert entry.model["mae"].count == 2
    assert set(entry.spectrum.error) == {math.inf}
    assert all(math.isfinite(value) for value in entry.spectrum.truth)
    assert {band.relative_error.mean for band in entry.bands} == {math.inf}


def test_no_more_than_a_batch_is_held_and_the_last_one_may_be_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = array_splits(tmp_path, travelling(50, 2, (8,)))
    model = surrogate(shift=1)
    alive: list[int] = []
    answers = []
    genuine = type(model).forward

    def watched(self, x, grid=None):
        answer = genuine(self, x, grid)
        alive.append(sum(old() is not None for old in answers))
        answers.append(ref(answer))
        return answer

    monkeypatch.setattr(type(model), "forward", watched)
    (entry,) = evaluate(model, splits, batch_size=4).one_step
    sizes = [shape[0] for shape, *_ in model.model.calls]
    assert sizes == [1, 4, 4, 2, 4]  # a try, ten samples, four for pictures
    assert max(alive) <= 1  # at most the previous answer, until its name is given to the next
    assert entry.samples == 10


def test_the_model_is_called_at_rest_on_the_grid_of_the_data_and_left_as_it_was(tmp_path: Path) -> None:
    splits = generated(
        tmp_path, {"train": {(4,): np.ones((2, 2, 4))}, "test": {(8,): np.ones((2, 2, 8))}}, np.array([0.0, 1.0])
    )
    model = surrogate()
    model.train()
    model.model.eval()
    evaluate(model, splits)
    for _, grid, training, inference in model.model.calls:
        assert grid == Grid(extent=(2.0,), points=(8,), periodic=(True,))
        assert not training
        assert inference
    assert model.training
    assert not model.model.training
    model(torch.ones(1, 1, 8)).sum().backward()


def test_a_model_in_double_precision_is_given_its_own(tmp_path: Path) -> None:
    splits = array_splits(tmp_path, travelling(10, 3, (8,)))
    results = evaluate(surrogate(shift=1).double(), splits)
    assert results.one_step[0].model["mae"].mean == 0
    assert results.fields["8/prediction"].dtype == np.float32


def test_a_model_in_half_precision_is_given_what_it_scales_in_single(tmp_path: Path) -> None:
    """Fields far from zero beside their deviation, which half precision would round away."""
    splits = array_splits(tmp_path, 101325 + travelling(10, 4, (8,)))
    scale = (Scale(shift=101325.0),)
    model = SurrogateSpec(Moved(shift=1), ("u[0]",), ("u[1]",), scale, scale).build().eval().bfloat16()
    results = evaluate(model, splits)
    assert results.one_step[0].model["mae"].mean < 0.02
    assert results.rollout[0].mae[-1].mean < 0.02


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu(tmp_path: Path) -> None:
    splits = array_splits(tmp_path, travelling(10, 4, (8,)))
    results = evaluate(surrogate(shift=1).cuda(), splits)
    assert results.one_step[0].model["mae"].mean == 0
    assert results.rollout[0].mean_relative_l2.mean == 0
