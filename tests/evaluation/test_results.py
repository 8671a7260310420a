"""Results in files and as text, and what bad input says."""

import csv
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mondrian import EndCorrected, Grid, vit_no
from mondrian.data import Splits, WellFiles, Window
from mondrian.evaluation import Evaluation, evaluate
from mondrian.evaluation.pictures import of_first_sample, of_one_resolution
from mondrian.support.files import write_atomically
from mondrian.support.spec import Spec
from mondrian.surrogate import Scale, Surrogate, SurrogateSpec
from tests.evaluation.cases import array_splits, generated, surrogate, travelling

TIMES = np.arange(4.0)


@pytest.fixture
def splits(tmp_path: Path) -> Splits:
    """Periodic fields at 8 and 16 points, three simulations of four frames to test with."""
    test = {(n,): travelling(3, 4, (n,)) for n in (16, 8)}
    return generated(tmp_path / "data", {"train": {(8,): travelling(4, 4, (8,))}, "test": test}, TIMES)


def strictly(text: str) -> object:
    """JSON without Python's additions."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_what_is_saved_is_loaded(splits: Splits, tmp_path: Path) -> None:
    results = evaluate(surrogate(offset=0.5), splits, name="mine")
    results.save(tmp_path / "out")
    again = Evaluation.load(tmp_path / "out")
    assert again == results
    assert again.table() == results.table()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fields.npz", "metrics.csv", "metrics.json"]


def test_the_json_is_the_agreed_one(splits: Splits, tmp_path: Path) -> None:
    evaluate(surrogate(offset=0.5), splits, name="mine").save(tmp_path)
    content = strictly((tmp_path / "metrics.json").read_text())
    assert {key: content[key] for key in ("format", "run", "split", "simulations", "seed", "channels", "skipped")} == {
        "format": 1,
        "run": "mine",
        "split": "test",
        "simulations": 3,
        "seed": 0,
        "channels": {"in": ["u[0]"], "out": ["u[1]"]},
        "skipped": [],
    }
    one, rollout = content["one_step"][0], content["rollout"][0]
    sides = {"model", "persistence", "training_mean"}
    assert set(one) == {"points", "samples", *sides, "spectrum", "bands", "part", "by_field"}
    assert one["by_field"] is None  # there is one field
    assert set(one["model"]) == set(one["persistence"]) == {"mae", "mse", "relative_l2", "maximum"}
    assert set(one["model"]["mae"]) == {"mean", "low", "high", "count"}
    assert set(one["spectrum"]) == {"wavenumber", "truth", "prediction", "error"}
    assert {len(column) for column in one["spectrum"].values()} == {5}
    assert set(one["bands"][0]) == {"low", "high", "relative_error"}
    curves = [rollout[name] for name in ("times", "mae", "relative_l2", "correlation")]
    assert {len(curve) for curve in curves} == {rollout["horizon"]} == {3}
    assert set(rollout["mean_relative_l2"]) == set(rollout["correlation_time"]) == {"mean", "low", "high", "count"}
    assert [entry["points"] for entry in content["rollout"]] == [[8], [16]]


def test_numbers_that_are_not_finite_are_valid_json_and_come_back(tmp_path: Path) -> None:
    u = np.zeros((5, 4, 8))  # one test simulation: no interval; vanishing: nothing to be relative to
    (tmp_path / "lost").mkdir()
    nothing = evaluate(surrogate(offset=1.0), array_splits(tmp_path, u))
    lost = evaluate(surrogate(factor=math.inf), array_splits(tmp_path / "lost", u + 1))
    for results in (nothing, lost):
        results.save(tmp_path / "out")
        strictly((tmp_path / "out" / "metrics.json").read_text())
        assert repr(Evaluation.load(tmp_path / "out")) == repr(results)  # NaN differs from itself
    assert math.isnan(nothing.one_step[0].model["relative_l2"].mean)
    assert nothing.one_step[0].model["mae"].mean == 1.0
    assert math.isnan(nothing.one_step[0].model["mae"].low)
    assert lost.one_step[0].model["mae"].mean == math.inf
    assert "inf" in lost.table()
    assert "1 (1 diverged)" in lost.table()


def test_a_run_may_be_called_what_infinity_is_written_as(tmp_path: Path) -> None:
    splits = array_splits(tmp_path, travelling(10, 2, (8,)))
    for name in ("Infinity", "infinity", '"1e999"', "ein Lauf für ∞"):
        evaluate(surrogate(factor=math.inf), splits, name=name).save(tmp_path)
        assert Evaluation.load(tmp_path).run == name


def test_the_csv_is_long_and_agrees(splits: Splits, tmp_path: Path) -> None:
    results = evaluate(surrogate(offset=0.5), splits)
    results.save(tmp_path)
    with open(tmp_path / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["kind", "points", "time", "metric", "mean", "low", "high", "count"]
    assert {row["kind"] for row in rows} == {"one_step", "persistence", "training_mean", "rollout"}

    def values_of(**wanted: str) -> list[float]:
        return [float(row["mean"]) for row in rows if wanted.items() <= row.items()]

    assert values_of(kind="one_step", points="16", metric="mae") == [results.one_step[1].model["mae"].mean]
    assert values_of(kind="rollout", points="8", metric="mae") == [value.mean for value in results.rollout[0].mae]
    assert values_of(kind="rollout", points="8", metric="mae", time="2.0") == [results.rollout[0].mae[1].mean]
    assert values_of(kind="rollout", points="8", metric="correlation_time", time="") == [
        results.rollout[0].correlation_time.mean
    ]
    assert len(values_of(kind="one_step", points="16")) == 4 + len(results.one_step[1].bands)


def test_the_table_compares_with_the_references(tmp_path: Path) -> None:
    u = np.ones((10, 2, 4)) * np.array([1.0, 3.0])[None, :, None]  # from 1 to 3
    text = evaluate(surrogate(offset=1.0), array_splits(tmp_path, u), name="mine").table()
    first, _, head, *rows = text.splitlines()
    assert first == f"mine: test split of {tmp_path / 'u.npy'}, 2 simulations"
    assert head.split() == [
        "points",
        "model",
        "95",
        "%",
        "interval",
        "persistence",
        "ratio",
        "training",
        "mean",
        "ratio",
    ]
    assert " ".join(rows[0].split()) == "4 mean absolute error 1 1 to 1 2 2.00 0 0.00"
    assert " ".join(rows[1].split()) == "mean square error 1 1 to 1 4 4.00 0 0.00"
    ends = {len(row) for row in (head, *rows)}
    assert len(ends) == 1


def test_each_of_several_fields_stands_in_all_files_and_in_the_table(tmp_path: Path) -> None:
    u = np.ones((10, 2, 2, 4)) * np.array([1.0, 100.0])[:, None]
    splits = array_splits(tmp_path, u, channels=True)
    names = ("u_0[0]", "u_1[0]"), ("u_0[1]", "u_1[1]")
    results = evaluate(surrogate(*names), splits)  # answers channel 1 twice
    results.save(tmp_path)
    assert Evaluation.load(tmp_path) == results
    (entry,) = strictly((tmp_path / "metrics.json").read_text())["one_step"]
    assert set(entry["by_field"]) == {"u_0", "u_1"}
    assert set(entry["by_field"]["u_0"]) == {"model", "persistence", "training_mean"}
    assert set(entry["by_field"]["u_0"]["model"]) == {"mae", "relative_l2"}
    with open(tmp_path / "metrics.csv", newline="") as file:
        means = {(row["kind"], row["metric"]): float(row["mean"]) for row in csv.DictReader(file)}
    assert means["one_step", "mae"] == 49.5
    assert means["one_step", "mae[u_0]"] == means["one_step", "relative_l2[u_0]"] == 99
    assert means["one_step", "mae[u_1]"] == means["persistence", "mae[u_0]"] == 0
    rows = [" ".join(row.split()) for row in results.table().splitlines()[3:]]
    assert rows[:4] == [
        "4 mean absolute error 49.5 49.5 to 49.5 0 0.00 0 0.00",
        "u_0 99 99 to 99 0 0.00 0 0.00",
        "u_1 0 0 to 0 0 - 0 -",
        "mean square error 4900 4900 to 4900 0 0.00 0 0.00",
    ]


def test_pictures_show_the_same_simulations_at_every_resolution(splits: Splits, tmp_path: Path) -> None:
    results = evaluate(surrogate(shift=1), splits)
    results.save(tmp_path)
    with np.load(tmp_path / "fields.npz") as stored:
        fields = {name: stored[name] for name in stored.files}
    for n in (8, 16):
        u = travelling(3, 4, (n,)).astype(np.float32)
        np.testing.assert_array_equal(fields[f"{n}/input"][:, 0], u[:, 0])
        np.testing.assert_array_equal(fields[f"{n}/truth"][:, 0], u[:, 1])
        np.testing.assert_array_equal(fields[f"{n}/prediction"], fields[f"{n}/truth"])
        np.testing.assert_array_equal(fields[f"{n}/rollout_truth"][:, :, 0], u[[0, 2], 1:])
    assert Spec.from_json(json.loads(str(fields["grid"]))) == Grid(extent=(2.0,), periodic=(True,))
    assert fields["subdomains"].shape == (0,)


def test_subdomains_of_a_transformer_and_resolutions_that_it_cannot_take(tmp_path: Path) -> None:
    shapes = {(n, n): np.random.default_rng(n).standard_normal((2, 2, n, n)) for n in (4, 7, 8)}
    splits = generated(tmp_path, {"train": {(8, 8): shapes[8, 8]}, "test": shapes}, np.array([0.0, 1.0]))
    # the rule needs three points a cell; that the cuts do not divide 7 is no hindrance
    model = vit_no(1, 1, hidden_channels=8, n_layers=1, subdomains=(2, 1), quadrature=EndCorrected()).spec
    net = SurrogateSpec(model, ("u[0]",), ("u[1]",), (Scale(),), (Scale(),)).build()
    results = evaluate(net, splits)
    assert [entry.points for entry in results.one_step] == [(7, 7), (8, 8)]
    assert all(math.isfinite(entry.model["mae"].mean) for entry in results.one_step)
    assert results.fields["7x7/prediction"].shape == (2, 1, 7, 7)
    assert results.fields["subdomains"].tolist() == [2, 1]
    assert list(results.skipped) == [(4, 4)]
    assert "points=2 per axis are too few for terms=1" in results.skipped[4, 4]
    results.save(tmp_path / "out")
    assert Evaluation.load(tmp_path / "out").skipped == results.skipped
    with pytest.raises(ValueError, match=r"takes none of the resolutions.*4x4: points=2 per axis are too few"):
        evaluate(net, splits, points=[(4, 4)])


def test_a_file_that_cannot_be_written_leaves_the_old_results(
    splits: Splits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = evaluate(surrogate(), splits, name="old")
    old.save(tmp_path)

    def full(path: Path, content: bytes) -> None:
        if path.name == "metrics.json":
            raise OSError(28, f"cannot write {path}: No space left on device")
        write_atomically(path, content)

    monkeypatch.setattr("mondrian.support.files.write_atomically", full)
    with pytest.raises(OSError, match=r"metrics\.json: No space left"):
        evaluate(surrogate(), splits, name="new").save(tmp_path)
    assert Evaluation.load(tmp_path).run == "old"


# Bad input


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"points": [(8,), (12,)]}, r"points=12 are not stored for split 'test' of .*; it has 8, 16"),
        ({"points": []}, r"points=\[\] name no resolution .*; it has 8, 16"),
        ({"split": "tset"}, r"split='tset' is not in .*; it has \['train', 'test'\]"),
        ({"split": "valid"}, r"split='valid' is not in"),
        ({"simulations": 4}, r"simulations=4 are wanted; split 'test' of .* has 3"),
        ({"simulations": 0}, "simulations=0 must be at least 1"),
        ({"horizon": -1}, "horizon=-1 must be at least 0"),
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
    ],
)
def test_settings_that_cannot_be(settings: dict, message: str, splits: Splits) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(surrogate(), splits, **settings)


@pytest.mark.parametrize(
    "model, window, message",
    [
        (surrogate(("v[0]",)), {}, r"gives input channels \(u\[0\]\); needed \(v\[0\]\)"),
        (surrogate(("u[0]", "gamma")), {}, r"gives input channels \(u\[0\]\); needed \(u\[0\], gamma\)"),
        (surrogate(out_names=("u[1]", "u[2]")), {}, r"gives target channels \(u\[1\]\); needed \(u\[1\], u\[2\]\)"),
        (surrogate(("v[0]",)), {"input": ("v",)}, "has no field 'v'; it has .*'u'"),
        (surrogate(), {"steps_in": 4}, "steps_in=4 and steps_out=1 need 5 steps"),
    ],
)
def test_data_that_does_not_fit_the_model(model: Surrogate, window: dict, message: str, splits: Splits) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate(model, replace(splits, window=replace(splits.window, **window)))


def test_data_that_is_not_there(tmp_path: Path) -> None:
    splits = Splits(files=WellFiles(path=str(tmp_path / "none")), window=Window(input=("u",), target=("u",)))
    with pytest.raises(FileNotFoundError, match="none does not exist; needed a data set"):
        evaluate(surrogate(), splits)


def test_data_without_a_training_part_has_no_training_mean(splits: Splits, tmp_path: Path) -> None:
    only = generated(tmp_path / "test", {"test": {(8,): travelling(3, 4, (8,))}}, TIMES)
    results = evaluate(surrogate(shift=1), only)
    assert results.one_step[0].training_mean is None
    assert results.one_step[0].model["mae"].mean == 0
    assert results.one_step[0].bands[-1].high == pytest.approx(4 * math.pi)
    assert " -" in results.table()
    results.save(tmp_path)
    assert Evaluation.load(tmp_path) == results
    # The same files as a data set of The Well, without our manifest.
    well = replace(splits, files=WellFiles(path=str(tmp_path / "test" / "8")))
    assert evaluate(surrogate(shift=1), well).one_step[0].training_mean is None
    trained = replace(splits, files=WellFiles(path=str(tmp_path / "data" / "8")))
    assert evaluate(surrogate(shift=1), trained).one_step[0].training_mean is not None


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "cannot be read"),
        ("\xff", "cannot be read"),
        ("[]", "has format=None; needed 1"),
        ("{}", "has format=None; needed 1"),
        ('{"format": 2}', "has format=2; needed 1"),
        ('{"format": 1, "one_step": []}', "has no 'run'"),
    ],
)
def test_damaged_results_are_named_with_what_to_do(content: str, message: str, tmp_path: Path) -> None:
    for folder, run in {tmp_path / "evaluation": tmp_path, tmp_path / "elsewhere": "RUN"}.items():
        folder.mkdir()
        file = folder / "metrics.json"
        file.write_text(content, encoding="latin-1")
        with pytest.raises(ValueError, match=rf"^{file} {message}.*`mondrian evaluate {run}` writes it anew$"):
            Evaluation.load(folder)


def remove(name: str) -> Callable[[dict], object]:
    return lambda entry: entry.pop(name)


def put(name: str, value: object) -> Callable[[dict], object]:
    return lambda entry: entry.update({name: value})


@pytest.mark.parametrize(
    "part, damage, message",
    [
        ("one_step", remove("samples"), "has no 'samples'"),
        ("one_step", put("points", ["a"]), "is damaged: .*'a'"),
        ("one_step", put("points", [math.inf]), "is damaged: .*infinity"),
        ("one_step", put("model", None), "is damaged"),
        ("one_step", put("model", {"mae": {"mean": 1.0, "low": 1.0, "high": 1.0}}), "has no 'count'"),
        ("one_step", put("model", {"mae": 1.0}), "is damaged"),
        ("one_step", lambda entry: entry["spectrum"]["error"].pop(), "is damaged: .*4 values of error for 5 wavenum"),
        ("rollout", remove("start"), "has no 'start'"),
        ("rollout", put("times", None), "is damaged"),
        ("rollout", lambda entry: entry["correlation"].pop(), "is damaged: .*2 values of correlation for 3 times"),
    ],
)
def test_damaged_entries_are_named(
    part: str, damage: Callable[[dict], object], message: str, splits: Splits, tmp_path: Path
) -> None:
    evaluate(surrogate(), splits).save(tmp_path)
    file = tmp_path / "metrics.json"
    content = json.loads(file.read_text())
    damage(content[part][0])
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"^{file} {message}.*`mondrian evaluate RUN` writes it anew$"):
        Evaluation.load(tmp_path)


def test_results_without_what_was_added_later_and_with_null_for_a_number_are_read(
    splits: Splits, tmp_path: Path
) -> None:
    results = evaluate(surrogate(offset=0.5), splits)
    results.save(tmp_path)
    file = tmp_path / "metrics.json"
    content = json.loads(file.read_text())
    for entry in content["one_step"]:
        del entry["part"], entry["by_field"]
    file.write_text(json.dumps(content))
    assert Evaluation.load(tmp_path) == results
    content["rollout"][0]["correlation_time"] = None
    content["one_step"][0]["spectrum"]["error"][1] = None
    content["one_step"][0]["persistence"] = None
    file.write_text(json.dumps(content))
    again = Evaluation.load(tmp_path)
    assert repr(again.rollout[0].correlation_time) == "Summary(mean=nan, low=nan, high=nan, count=0)"
    assert again.one_step[0].spectrum is not None
    assert math.isnan(again.one_step[0].spectrum.error[1])
    assert again.one_step[0].persistence is None


def test_results_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"metrics\.json does not exist; needed what `mondrian evaluate` writes"
    ):
        Evaluation.load(tmp_path)


def test_of_several_samples_the_first_can_be_kept_and_of_rollouts_the_end(splits: Splits) -> None:
    fields = dict(evaluate(surrogate(), splits).fields)
    first = of_first_sample(fields)
    assert set(first) == set(fields)
    for name, array in fields.items():
        if name in ("grid", "subdomains"):
            np.testing.assert_array_equal(first[name], array)
        elif name.endswith("rollout_times"):
            np.testing.assert_array_equal(first[name], array[-1:])
        else:
            assert len(array) > 1, name
            np.testing.assert_array_equal(first[name], array[:1, -1:] if "rollout" in name else array[:1])
    assert any(name.endswith("rollout_times") for name in fields)


def test_of_several_resolutions_one_can_be_kept() -> None:
    fields = {"grid": np.zeros(1), "8x8/truth": np.ones(1), "16x16/truth": np.ones(2), "8x8/rollout_times": np.ones(3)}
    assert set(of_one_resolution(fields, (8, 8))) == {"grid", "8x8/truth", "8x8/rollout_times"}
