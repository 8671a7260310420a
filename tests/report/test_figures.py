"""What the figures show is what the files say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes

from mondrian.drawing.planes import CUTS, ERROR, ONE_SIGNED, SIGNED, Limits, plane
from mondrian.drawing.style import Picture
from mondrian.evaluation import Evaluation
from mondrian.evaluation.arrays import Fields
from mondrian.evaluation.statistics import Summary
from mondrian.report.curves import best, draw_histories, draw_history, logged
from mondrian.report.errors import draw_errors, of_one_run
from mondrian.report.fields import constants, draw_fields, varying_inputs
from mondrian.report.rollouts import draw_frames, draw_rollouts, picked
from mondrian.report.spectra import draw_spectra
from tests.report.synthetic import make_run

PLANES = ((8, 8), (16, 16))


def read(folder: Path, points: tuple[tuple[int, ...], ...] = PLANES) -> tuple[Evaluation, Fields]:
    run = make_run(folder / "run", points=points)
    return Evaluation.load(run.evaluation), Fields.load(run.evaluation / "fields.npz")


def line(ax: Axes, label: str) -> tuple[list[float], list[float]]:
    (drawn,) = [line for line in ax.lines if line.get_label() == label]
    return np.asarray(drawn.get_xdata()).tolist(), np.asarray(drawn.get_ydata()).tolist()


def cuts(ax: Axes) -> tuple[list[float], list[float]]:
    """Places of the upright and of the level lines between subdomains."""
    ends = [(line.get_xdata(), line.get_ydata()) for line in ax.lines if line.get_label() == CUTS]
    upright = [float(x[0]) for x, y in ends if x[0] == x[1]]
    return upright, [float(y[0]) for x, y in ends if y[0] == y[1]]


# Curves


def test_the_curves_are_the_rows_that_were_logged(tmp_path: Path) -> None:
    figure = draw_history(make_run(tmp_path / "run").history())
    loss, loss_in_time, rate, rate_in_time = figure.axes
    assert line(loss, "training") == ([0, 10, 20, 30], [1.0, 0.5, 0.25, 0.125])
    assert line(loss, "validation") == ([10, 20, 30], [0.6, 0.3, 0.4])
    assert line(loss, "best") == ([20], [0.3])
    assert line(loss_in_time, "validation") == ([2, 4, 6], [0.6, 0.3, 0.4])
    assert rate.lines[0].get_ydata().tolist() == rate_in_time.lines[0].get_ydata().tolist() == [0.001, 0.002, 0.001, 0]
    assert loss.get_yscale() == "log"
    assert rate.get_yscale() == "linear"


def test_curves_against_steps_alone_where_no_time_was_logged(tmp_path: Path) -> None:
    history = make_run(tmp_path / "run").history()
    del history["seconds"]
    assert len(draw_history(history).axes) == 2


def test_many_noisy_losses_are_drawn_with_their_running_mean() -> None:
    steps = np.arange(200.0)
    history = {"step": steps, "train_loss": np.where(steps % 2 == 0, 2.0, 0.5)}
    ax = draw_history(history).axes[0]
    assert line(ax, "_training, each logged step")[1] == history["train_loss"].tolist()
    assert line(ax, "training")[1][100] == pytest.approx(1.0, rel=0.4)  # the geometric mean of 2 and 1/2


def test_the_best_validation_ignores_what_is_no_number() -> None:
    steps = np.array([1.0, 2.0, 3.0])
    assert best({"step": steps, "valid_loss": np.array([np.nan, 0.5, np.inf])}) == (2, 0.5)
    assert best({"step": steps, "valid_loss": np.full(3, np.nan)}) is None
    assert best({}) is None
    assert len(logged({"step": steps}, "valid_loss")[0]) == 0


def test_several_runs_have_a_line_each(tmp_path: Path) -> None:
    history = make_run(tmp_path / "run").history()
    (ax,) = draw_histories({"one": history, "two": {}}).axes
    assert line(ax, "one") == ([10, 20, 30], [0.6, 0.3, 0.4])
    assert line(ax, "two") == ([], [])


# Fields


def test_fields_stand_in_rows_of_resolutions_with_common_colours(tmp_path: Path) -> None:
    metrics, fields = read(tmp_path)
    figure = draw_fields(fields, metrics.in_channels, metrics.out_channels, sample=1)
    panels = [ax for ax in figure.axes if ax.images]
    assert len(panels) == 2 * 4  # two resolutions; input, truth, prediction, error
    titles = [ax.get_title() for ax in panels[:4]]
    assert titles == ["input u[0]", "truth u[1]", "prediction u[1]", "absolute error"]
    for row, points in enumerate(PLANES):
        images = [ax.images[0] for ax in panels[4 * row : 4 * row + 4]]
        samples = fields.one_step[points]
        for image, values in zip(
            images[:3], (samples.input[1, 0], samples.truth[1, 0], samples.prediction[1, 0]), strict=True
        ):
            np.testing.assert_allclose(image.get_array(), values.T)  # axis 0 to the right
        np.testing.assert_allclose(images[3].get_array(), np.abs(samples.prediction - samples.truth)[1, 0].T)
        assert images[1].get_clim() == images[2].get_clim() == panels[1].images[0].get_clim()
        assert images[3].get_clim() == panels[3].images[0].get_clim()
        assert images[0].get_clim() != images[1].get_clim()
        assert images[0].get_extent() == [0.0, 2.0, 0.0, 1.0]
        assert panels[4 * row].get_ylabel() == f"{points[0]} × {points[1]}"
    mean = (0.1 * 63 + 0.3) / 64
    assert panels[3].get_xlabel() == f"mean {mean:.2g}"


def test_the_cuts_are_those_of_the_subdomains(tmp_path: Path) -> None:
    metrics, fields = read(tmp_path)
    for ax in draw_fields(fields, metrics.in_channels, metrics.out_channels).axes:
        if ax.images:
            upright, level = cuts(ax)
            assert upright == [1.0]  # 2 subdomains on a length of 2
            assert level == [0.25, 0.5, 0.75]  # 4 on a length of 1


def test_a_model_without_subdomains_has_no_cuts(tmp_path: Path) -> None:
    metrics, fields = read(tmp_path)
    bare = Fields(fields.grid, (), fields.one_step, fields.rollout)
    assert all(
        cuts(ax) == ([], []) for ax in draw_fields(bare, metrics.in_channels, metrics.out_channels).axes if ax.images
    )


def test_inputs_that_are_numbers_are_written_and_not_drawn(tmp_path: Path) -> None:
    metrics, fields = read(tmp_path)
    assert varying_inputs(fields, metrics.in_channels, "u[1]") == [0]
    assert constants(fields, metrics.in_channels, 0) == "gamma = 0.0012"
    assert constants(fields, metrics.in_channels, 1) == "gamma = 0.0034"


def test_of_several_input_frames_the_last_is_drawn_and_the_target_first(tmp_path: Path) -> None:
    _, fields = read(tmp_path)
    frames = dict(fields.one_step)
    for points, samples in frames.items():
        twice = np.concatenate([samples.input[:, :1]] * 4, axis=1)
        frames[points] = type(samples)(twice, samples.truth, samples.prediction)
    several = Fields(fields.grid, fields.subdomains, frames, {})
    assert varying_inputs(several, ["a", "w[0]", "w[1]", "b"], "w[2]") == [2, 0, 3]


def test_fields_on_a_line_are_lines(tmp_path: Path) -> None:
    metrics, fields = read(tmp_path, ((16,), (32,)))
    figure = draw_fields(fields, metrics.in_channels, metrics.out_channels)
    assert not any(ax.images for ax in figure.axes)
    source, both, error = figure.axes[:3]
    x, truth = line(both, "truth u[1]")
    samples = fields.one_step[(16,)]
    np.testing.assert_allclose(x, (np.arange(16) + 0.5) / 8)
    np.testing.assert_allclose(truth, samples.truth[0, 0])
    np.testing.assert_allclose(line(both, "prediction u[1]")[1], samples.prediction[0, 0])
    np.testing.assert_allclose(error.lines[0].get_ydata(), np.abs(samples.prediction - samples.truth)[0, 0])
    assert cuts(source) == ([1.0], [])


def test_fields_in_space_are_shown_by_the_middle_slice(tmp_path: Path) -> None:
    metrics, fields = read(tmp_path, ((4, 4, 4), (8, 8, 8)))
    panels = [ax for ax in draw_fields(fields, metrics.in_channels, metrics.out_channels).axes if ax.images]
    np.testing.assert_allclose(panels[5].images[0].get_array(), fields.one_step[8, 8, 8].truth[0, 0, :, :, 4].T)
    assert plane(np.zeros((3, 4, 5))).shape == (3, 4)


# Colours


def test_limits_are_symmetric_for_fields_of_both_signs() -> None:
    limits = Limits.of([np.array([-1.0, 0.5]), np.array([0.8])])
    assert (limits.low, limits.high, limits.map) == (-1.0, 1.0, SIGNED)


def test_limits_are_those_of_the_values_for_one_sign() -> None:
    limits = Limits.of([np.array([2.0, 5.0, np.nan])])
    assert (limits.low, limits.high, limits.map) == (2.0, 5.0, ONE_SIGNED)


@pytest.mark.parametrize(("values", "ends"), [([3.0, 3.0], (2.5, 3.5)), ([np.nan], (-0.5, 0.5))])
def test_limits_of_constant_and_of_no_values(values: list[float], ends: tuple[float, float]) -> None:
    limits = Limits.of([np.array(values)])
    assert (limits.low, limits.high) == ends


def test_a_few_large_errors_do_not_take_all_colours() -> None:
    limits = Limits.of_errors([np.concatenate([np.full(999, 0.1), [7.0]])])
    assert (limits.low, limits.high, limits.map, limits.beyond) == (0.0, 0.1, ERROR, True)
    assert Limits.of_errors([np.zeros(4)]) == Limits(0.0, 1.0, ERROR)


# Errors, rollouts, spectra


def test_errors_stand_beside_those_of_simple_forecasts(tmp_path: Path) -> None:
    metrics, _ = read(tmp_path)
    series = of_one_run(metrics)
    assert list(series) == ["model", "persistence"]  # there is no training mean in the file
    absolute, relative = draw_errors(series).axes
    assert [text.get_text() for text in absolute.get_xticklabels()] == ["8 × 8", "16 × 16"]
    model, persistence = absolute.containers
    assert model[0].get_ydata().tolist() == [0.0123, 0.0246]
    assert persistence[0].get_ydata().tolist() == [0.123, 0.246]
    (bars,) = model[2]
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, [[0.9 * 0.0123, 1.1 * 0.0123], [0.9 * 0.0246, 1.1 * 0.0246]])
    assert absolute.get_yscale() == relative.get_yscale() == "log"


def test_errors_that_hardly_differ_look_alike() -> None:
    errors = {("", (n,)): {"mae": Summary(value, value, value, count=4)} for n, value in ((8, 0.1), (16, 0.101))}
    (ax,) = draw_errors({"model": errors}).axes
    low, high = ax.get_ylim()
    assert high / low == pytest.approx(1.25**2)
    assert low < 0.1 < 0.101 < high


def test_rollouts_show_errors_and_correlation_against_time(tmp_path: Path) -> None:
    metrics, _ = read(tmp_path)
    error, correlation = draw_rollouts({"8 × 8": metrics.rollout[0]}).axes
    assert line(error, "8 × 8") == ([0.5, 1.0, 1.5, 2.0], [0.1, 0.2, pytest.approx(0.3), 0.4])
    assert line(correlation, "8 × 8")[1] == pytest.approx([0.9, 0.8, 0.7, 0.6])
    assert [float(line.get_xdata()[0]) for line in correlation.lines[1:]] == [1.25]  # where it is lost
    band = error.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(0.09)
    assert band[:, 1].max() == pytest.approx(0.44)


@pytest.mark.parametrize(("finite", "top"), [(0, 1.05), (2, 1.05 * 0.22)])
def test_rollouts_that_leave_all_bounds_are_drawn_as_far_as_they_are_finite(
    tmp_path: Path, finite: int, top: float
) -> None:
    rollout = read(tmp_path)[0].rollout[0]
    lost = (Summary(np.inf, np.inf, np.inf, count=4),) * (len(rollout.times) - finite)
    figure = draw_rollouts({"a": replace(rollout, relative_l2=(*rollout.relative_l2[:finite], *lost))})
    assert figure.axes[0].get_ylim() == pytest.approx((0.0, top))
    Picture.of(figure, name="picture", label="label", caption="caption")


@pytest.mark.parametrize(
    ("errors", "top"),
    [
        ([0.1, 0.3, 1e20, 1e30], 2.0),  # one that blows up leaves the others to be seen
        ([0.1, 0.3, 0.9, 1.5], 1.05 * 1.5),
        ([3.0, 4.0, 5.0, 1e9], 6.0),  # all beyond: the least of them is seen
        ([3.0, 4.0, 4.5, 5.0], 1.05 * 5.0),
    ],
)
def test_the_axis_of_rollouts_ends_where_the_truth_is_lost(errors: list[float], top: float, tmp_path: Path) -> None:
    rollout = read(tmp_path)[0].rollout[0]
    curve = tuple(Summary(value, value, value, count=4) for value in errors)
    figure = draw_rollouts({"a": replace(rollout, relative_l2=curve)})
    assert figure.axes[0].get_ylim() == pytest.approx((0.0, top))
    Picture.of(figure, name="picture", label="label", caption="caption")


def test_strips_are_rows_of_truth_prediction_and_error(tmp_path: Path) -> None:
    _, fields = read(tmp_path)
    frames = fields.rollout[8, 8]
    figure = draw_frames(frames, fields.grid, fields.subdomains, columns=3)
    panels = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in panels[:3]] == ["t = 0.5", "t = 1.5", "t = 2"]
    assert [panels[row].get_ylabel() for row in (0, 3, 6)] == ["truth", "prediction", "absolute error"]
    assert len({ax.images[0].get_clim() for ax in panels[:6]}) == 1
    np.testing.assert_allclose(panels[4].images[0].get_array(), frames.prediction[0, 2, 0].T)
    np.testing.assert_allclose(panels[8].images[0].get_array(), 0.1, rtol=1e-5)
    assert cuts(panels[8]) == ([1.0], [0.25, 0.5, 0.75])
    assert picked(frames).tolist() == [0, 1, 2, 3]


def test_rollouts_on_a_line_are_diagrams_of_space_and_time(tmp_path: Path) -> None:
    _, fields = read(tmp_path, ((16,), (32,)))
    panels = [ax for ax in draw_frames(fields.rollout[(16,)], fields.grid, fields.subdomains).axes if ax.images]
    assert [ax.get_title() for ax in panels] == ["truth", "prediction", "absolute error"]
    assert panels[0].images[0].get_array().shape == (4, 16)
    assert panels[0].images[0].get_extent() == [0.0, 2.0, 0.25, 2.25]
    assert panels[0].images[0].get_clim() == panels[1].images[0].get_clim()


def test_spectra_are_log_log_without_the_mean(tmp_path: Path) -> None:
    metrics, _ = read(tmp_path)
    entry = metrics.one_step[0]
    assert entry.spectrum is not None
    above, below = draw_spectra({"8 × 8": (entry.spectrum, entry.bands)}).axes
    assert line(above, "truth") == ([1, 2, 3], [0.5, 0.25, 0.125])
    assert line(above, "error")[1] == [0.1, 0.1, 0.1]
    assert above.get_xscale() == above.get_yscale() == "log"
    assert np.asarray(below.lines[0].get_ydata()).tolist() == [0.1, 0.1]


# Saving


def test_numbers_that_are_none_and_predictions_that_exploded_are_drawn(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    file = run.evaluation / "metrics.json"
    content = json.loads(file.read_text())
    content["rollout"][0]["correlation_time"] = None
    content["rollout"][0]["relative_l2"][-1] = {"mean": None, "low": None, "high": None, "count": 0}
    content["one_step"][0]["model"]["mae"] = {"mean": 0.0, "low": 0.0, "high": 0.0, "count": 4}
    content["one_step"][0]["spectrum"]["error"] = [0.0] * 4
    file.write_text(json.dumps(content))
    metrics, fields = Evaluation.load(run.evaluation), Fields.load(run.evaluation / "fields.npz")
    fields.rollout[8, 8].prediction[:, -1] = np.nan
    fields.one_step[8, 8].prediction[0, 0, 0, 0] = np.inf
    spectra = [(entry.spectrum, entry.bands) for entry in metrics.one_step if entry.spectrum]
    for figure in (
        draw_errors(of_one_run(metrics)),
        draw_fields(fields, metrics.in_channels, metrics.out_channels),
        draw_rollouts({"a": metrics.rollout[0]}),
        draw_frames(fields.rollout[8, 8], fields.grid, fields.subdomains),
        draw_spectra({str(place): spectrum for place, spectrum in enumerate(spectra)}),
    ):
        Picture.of(figure, name="picture", label="label", caption="caption")


def test_pictures_are_the_same_each_time_and_leave_matplotlib_as_it_was(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    metrics, fields = read(tmp_path)
    first, second = (
        Picture.of(draw_fields(fields, metrics.in_channels, metrics.out_channels), name="x", label="a", caption="b")
        for _ in range(2)
    )
    assert first == second
    assert first.png.startswith(b"\x89PNG")
    assert dict(mpl.rcParams) == before
