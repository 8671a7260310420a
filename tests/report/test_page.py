"""The page: self-contained, escaped, the same each time, with the numbers of the files."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mondrian.evaluation.statistics import Summary
from mondrian.report import write_report
from mondrian.report.assets import SCRIPT
from mondrian.report.summary import learned, number, summary
from mondrian.report.tables import Column, comparison_table
from mondrian.training.run import Run
from tests.report.reader import Reader, cell
from tests.report.synthetic import estimate, make_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path]]:
    """The report of one run with everything."""
    folder = tmp_path_factory.mktemp("one")
    file = folder / "run" / "report.html"
    return file, write_report([make_run(folder / "run")], file)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a good run, a worse one, and one that was not evaluated."""
    folder = tmp_path_factory.mktemp("several")
    runs = [
        make_run(folder / "b", name="worse", level=3.0, rollout=False),
        make_run(folder / "a", name="better"),
        make_run(folder / "c", name="new", evaluated=False),
    ]
    write_report(runs, folder / "all.html")
    return folder / "all.html"


# One run


def test_the_page_and_its_pictures_are_written(one: tuple[Path, list[Path]]) -> None:
    file, written = one
    names = sorted(path.name for path in (file.parent / "report").iterdir())
    assert names == [
        "errors.png", "fields-1.png", "fields-2.png", "loss.png", "rollout-8x8-1.png", "rollout-8x8-2.png",
        "rollout-spectra.png", "rollouts.png", "spectra.png",
    ]  # fmt: skip
    assert written[0] == file
    assert sorted(path.name for path in written[1:]) == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written[1:])


def test_every_picture_is_in_the_page_and_nothing_is_loaded(one: tuple[Path, list[Path]]) -> None:
    file, written = one
    reader = Reader(file.read_text())
    assert reader.tags.count("svg") == len(written) - 1
    assert not {"link", "iframe", "object", "embed"} & set(reader.tags)
    for name, value in reader.attributes:
        if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster"):
            assert value.startswith(("#", "data:image/png;base64,")), (name, value[:80])
        assert not re.search(r"url\((?!#)", value)
    assert "@import" not in file.read_text()
    assert not re.search(r"https?://", file.read_text())


def test_places_in_the_page_have_different_names(several: Path) -> None:
    reader = Reader(several.read_text())
    places = [value for name, value in reader.attributes if name == "id"]
    assert len(places) == len(set(places))
    targets = {value[1:] for name, value in reader.attributes if name.endswith("href") and value.startswith("#")}
    assert targets <= set(places)


def test_the_page_says_what_the_run_was(one: tuple[Path, list[Path]]) -> None:
    text = Reader(one[0].read_text()).text
    for part in (
        "allen_cahn/vit", "vit_no, Mixture, 2 × 4 subdomains", "12,345", "data/ac: u, gamma → u", "0.3 at step 20",
        "50 samples per second", "4 simulations (test)", "gamma = 0.0012", "gamma = 0.0034",
        "experiment=allen_cahn/vit", "config", "model.operator._target_", "mondrian.Mixture", "versions", "0.1.0",
    ):  # fmt: skip
        assert part in text, part


def test_the_table_has_the_errors_and_how_much_better_they_are(one: tuple[Path, list[Path]]) -> None:
    page = one[0].read_text()
    assert cell(page, "8 × 8", 0.0123).startswith("0.0123<small>0.0111 – 0.0135</small>")
    assert cell(page, "16 × 16", 0.09).startswith("0.09<small>")
    assert cell(page, "16 × 16", 0.246).startswith("0.246")
    assert page.count('<td class="strong">10</td>') == 2  # 0.123 / 0.0123, and 0.246 / 0.0246


def test_equal_files_give_an_equal_report(one: tuple[Path, list[Path]]) -> None:
    file, written = one
    before = [path.read_bytes() for path in written]
    assert [path.read_bytes() for path in write_report([Run.open(file.parent)], file)] == before
    assert not list(file.parent.rglob("*.partial"))


@pytest.mark.usefixtures("undrawn")
def test_each_of_several_fields_has_a_row(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    file = run.evaluation / "metrics.json"
    content = json.loads(file.read_text())
    assert "points, field" not in write_report([run], tmp_path / "report.html")[0].read_text()
    for place, entry in enumerate(content["one_step"], start=1):
        entry["by_field"] = {
            name: {
                "model": {"mae": estimate(error * place), "relative_l2": estimate(0.5)},
                "persistence": {"mae": estimate(4 * error * place), "relative_l2": estimate(2.0)},
                "training_mean": None,
            }
            for name, error in (("u", 0.01), ("<p>", 300.0))
        }
    file.write_text(json.dumps(content))
    page = write_report([run], tmp_path / "report.html")[0].read_text()
    assert re.findall(r'<th scope="col">points, field</th><th scope="col">(.*?)</th></tr>', page) == [
        '</th><th scope="col">'.join(("MAE", "relative L2", "MAE, persistence", "baseline / model"))
    ]
    assert "the second the errors of each field" in page
    assert cell(page, "8 × 8, u", 0.01).startswith("0.01<small>")
    assert cell(page, "16 × 16, &lt;p&gt;", 600.0).startswith("600<small>")
    assert page.count('<td class="strong">4</td>') == 4


@pytest.mark.usefixtures("undrawn")
def test_what_diverged_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    file = run.evaluation / "metrics.json"
    content = json.loads(file.read_text())
    content["rollout"][0] |= {
        "diverged": 1,
        "mean_relative_l2": {"mean": math.inf, "low": 0.5, "high": math.inf, "count": 4},
    }
    content["one_step"][0]["model"]["mae"] = {"mean": math.inf, "low": math.inf, "high": math.inf, "count": 4}
    content["one_step"][1]["model"]["mae"] = {"mean": None, "low": None, "high": None, "count": 0}
    file.write_text(json.dumps(content))
    both = [run, make_run(tmp_path / "other", name="other")]
    for runs in ([run], both):
        page = write_report(runs, tmp_path / "report.html")[0].read_text()
        assert page.count("<td>∞<small>0.5 – ∞</small><small>1 of 4 diverged</small></td>") == len(runs)
        assert '<tr><th scope="row">8 × 8</th><td>∞</td>' in page
        assert '<tr><th scope="row">16 × 16</th><td>–</td>' in page
        assert page.count(" of 4 diverged") == len(runs)  # of the run by itself, and beside the other
        assert "nan" not in page.partition("<svg")[0]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345678.0, "12,345,678"),
        (2434844957259221.0 * 2**20, "2.55e+21"),
        (999.4, "999"),
        (0.04567, "0.0457"),
        (math.inf, "∞"),
        (math.nan, "–"),
    ],
)
def test_numbers_have_few_digits(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(("speed", "text"), [(0.31, "0.31"), (2.5, "2.5"), (49.7, "50"), (12345.6, "12,346")])
def test_slow_trainings_have_a_speed_too(speed: float, text: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    run.history_file.write_text(f"step,samples_per_second\n0,{speed}\n10,{speed}\n")
    assert summary(run, None)["Speed"] == f"{text} samples per second"


@pytest.mark.process
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_points_are_sorted_by_their_number() -> None:
    names = ["128 × 128", "32 × 32", "64 × 64", "test, 100", "test, 20"]
    table = f"""
    const body = {{ rows: {json.dumps(names)}.map((textContent) => ({{ cells: [{{ textContent }}] }})) }};
    body.append = (...rows) => {{ body.rows = rows; }};
    const head = {{ getAttribute: () => null, setAttribute: () => null, removeAttribute: () => null }};
    head.querySelector = () => ({{ addEventListener: (event, listener) => {{ head.click = listener; }} }});
    const table = {{ tBodies: [body], tHead: {{ rows: [{{ cells: [head] }}] }} }};
    const document = {{ querySelectorAll: (what) => (what.startsWith("table") ? [table] : []), getElementById() {{}} }};
    const location = {{ hash: "" }}, addEventListener = () => null, HTMLDetailsElement = Object;
    """
    clicked = "head.click(); console.log(JSON.stringify(body.rows.map((row) => row.cells[0].textContent)));"
    done = subprocess.run(["node", "-e", table + SCRIPT + clicked], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["32 × 32", "64 × 64", "128 × 128", "test, 20", "test, 100"]


# Several runs


def test_the_best_of_several_runs_is_bold(several: Path) -> None:
    page = several.read_text()
    assert cell(page, "better", 0.0123).startswith("<b>0.0123</b>")
    assert cell(page, "worse", 3 * 0.0123).startswith("0.0369")
    assert cell(page, "better", 0.0246).startswith("<b>")
    assert cell(page, "better", 0.15).startswith("<b>")  # a rollout that the other has not
    assert cell(page, "worse", 0.3) == cell(page, "new", 0.3) == "<b>0.3</b>"  # equal validation losses


@pytest.mark.usefixtures("undrawn")
def test_only_runs_that_learnt_the_same_are_compared(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a", name="better"),
        make_run(tmp_path / "b", name="other", level=3.0, data="data/ns"),
        make_run(tmp_path / "c", name="worse", level=2.0),
    ]
    page, *pictures = write_report(runs, tmp_path / "all.html")
    text, tables = page.read_text(), re.findall(r'<table class="sortable">.*?</table>', page.read_text())
    rows = [re.findall(r'<tr><th scope="row">(\w+)</th>', table) for table in tables]
    assert rows[:2] == [["better", "worse"], ["other"]]
    assert cell(text, "other", 3 * 0.0123).startswith("<b>")
    assert re.findall(r"<h2>Runs (.*?)</h2>", text) == ["1: data/ac: u, gamma → u", "2: data/ns: u, gamma → u"]
    assert {"1-errors.png", "2-errors.png"} <= {path.name for path in pictures}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("measured", "part"),
    [
        ({"split": "train", "simulations": 4}, "4 train simulations"),
        ({"split": "test", "simulations": 2}, "2 test simulations"),
        ({"data": "data/other"}, "4 test simulations of data/other"),
    ],
)
def test_errors_on_different_parts_are_not_compared(measured: dict[str, Any], part: str, tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a", name="worse", level=2.0),
        make_run(tmp_path / "b", name="eased", measured=measured),
        make_run(tmp_path / "c", name="better"),
        make_run(tmp_path / "d", name="new", evaluated=False),
    ]
    page, *_ = write_report(runs, tmp_path / "all.html")
    text, tables = page.read_text(), re.findall(r'<table class="sortable">.*?</table>', page.read_text())
    rows = [re.findall(r'<tr><th scope="row">(\w+)</th>', table) for table in tables]
    assert rows[:2] == [["worse", "better", "new"], ["eased"]]
    learnt = "data/ac: u, gamma → u"
    assert re.findall(r"<h2>Runs (.*?)</h2>", text) == [f"1: {learnt}, 4 test simulations", f"2: {learnt}, {part}"]
    for of_group, of_run in (("4 test simulations", 2), (part, 1)):
        assert text.count(f"Means over {of_group} with bootstrap intervals. The best") == 1
        assert text.count(f"Means over {of_group} with bootstrap intervals. Samples: ") == of_run


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"files": {"path": "data/ns/"}, "window": {"input": ["w"], "target": ["w"]}}, "data/ns: w → w"),
        (
            {"files": {"path": "d"}, "window": {"input": ["w"], "target": ["w"], "steps_in": 2, "steps_out": 4}},
            "d: 2 w → 4 w",
        ),
        ({"files": {"path": "meshes"}, "input": ["f", "g"], "target": ["u"]}, "meshes: f, g → u"),
        ({}, ""),
    ],
)
def test_what_was_learnt_tells_data_fields_and_steps(data: dict[str, Any], text: str, tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.write({"name": "run", "data": data})
    assert learned(run) == text


def test_a_run_without_evaluation_is_shown_with_what_it_has(several: Path) -> None:
    text = Reader(several.read_text()).text
    assert f"mondrian evaluate {several.parent / 'c'}" in text
    assert (several.with_suffix("") / "3-new-loss.png").exists()
    assert not (several.with_suffix("") / "3-new-errors.png").exists()


def test_more_is_better_for_correlation_times() -> None:
    values = [None, *(Summary(value, 0.9 * value, 1.1 * value, count=4) for value in (1.0, 2.0))]
    column = Column("rollout", "correlation time", values, better="more")
    assert column.best() == 2.0
    assert "<td>–</td>" in comparison_table(["a", "b", "c"], [column])


def test_runs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, name="same", evaluated=False) for name in ("a", "b")]
    write_report(runs, tmp_path / "all.html")
    text = Reader((tmp_path / "all.html").read_text()).text
    assert f"same ({tmp_path / 'a'})" in text
    assert f"same ({tmp_path / 'b'})" in text
    with pytest.raises(ValueError, match="given twice"):
        write_report([runs[0], runs[0]], tmp_path / "all.html")
