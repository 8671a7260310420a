"""Runs that are not whole: shown with what they have, or refused by the name of the damaged file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mondrian.evaluation import Evaluation
from mondrian.evaluation.arrays import Fields
from mondrian.report import write_report
from mondrian.report.summary import settings, summary
from mondrian.training.run import Run
from tests.report.reader import Reader
from tests.report.synthetic import estimate, make_run

pytestmark = pytest.mark.slow


def test_text_is_escaped(tmp_path: Path) -> None:
    wicked = '</script><script>alert("&1")</script>$x_{$'
    run = make_run(tmp_path / "run", name=wicked, rollout=False)
    facts = run.facts
    facts["config"]["model"]["_target_"] = facts["overrides"][0] = facts["versions"][wicked] = wicked
    facts["data"]["files"]["path"] = wicked
    run.write(facts)
    file = run.evaluation / "metrics.json"
    content = json.loads(file.read_text())
    content["channels"] = {"in": [f"u{wicked}[0]", f"{wicked} = gamma"], "out": [f"u{wicked}[1]"]}
    content["split"] = wicked
    for entry in content["one_step"]:
        entry["model"][wicked] = estimate(0.5)
    file.write_text(json.dumps(content))
    write_report([Run.open(run.folder)], tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.count("<script>") == page.count("</script>") == 1
    assert wicked in Reader(page).text


def test_a_run_that_has_only_begun_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", evaluated=False)
    run.history_file.unlink()
    (page,) = write_report([run], tmp_path / "report.html")
    text = Reader(page.read_text()).text
    assert "Nothing has been logged yet" in text
    assert f"mondrian evaluate {run.folder}" in text


def test_metrics_without_fields_are_shown_without_pictures_of_them(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run.evaluation / "fields.npz").unlink()
    names = {path.stem for path in write_report([run], tmp_path / "report.html")}
    assert names == {"report", "loss", "errors", "rollouts", "spectra", "rollout-spectra"}


def test_a_record_with_a_name_alone_is_enough(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.write({"name": "bare"})
    assert summary(run, None) == {"Steps": "none yet"}
    assert settings(run) == {"folder": {"": run.folder.as_posix()}}
    assert len(write_report([run], tmp_path / "report.html")) == 1


def test_no_runs_and_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no run is given"):
        write_report([], tmp_path / "report.html")
    run = make_run(tmp_path / "run", evaluated=False)
    with pytest.raises(ValueError, match=r"must end in \.html"):
        write_report([run], tmp_path / "report")
    run.write({"config": {}})
    with pytest.raises(ValueError, match=r"run\.json has no name"):
        write_report([Run(run.folder)], tmp_path / "report.html")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 1, "run', "cannot be read"),
        ("[]", "has format=None"),
        ('{"format": 2}', "has format=2; needed 1"),
        ('{"format": 1, "run": "name", "data": "data/ac"}', "has no 'split'"),
        ('{"format": 1, "run": "name", "data": "data/ac", "split": "test", "simulations": 1, "seed": 0,'
         ' "channels": {"in": [], "out": []}, "one_step": [{"points": ["a"]}], "rollout": [], "skipped": []}',
         "is damaged: .*'a'"),
    ],
)  # fmt: skip
def test_damaged_metrics_are_named_with_what_to_do(tmp_path: Path, content: str, message: str) -> None:
    run = make_run(tmp_path / "run")
    (run.evaluation / "metrics.json").write_text(content)
    with pytest.raises(ValueError, match=rf"metrics\.json {message}.*`mondrian evaluate {run.folder}`") as raised:
        write_report([run], tmp_path / "report.html")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "report.html").exists()


def test_a_rollout_with_too_few_values_is_damaged(tmp_path: Path) -> None:
    file = make_run(tmp_path / "run").evaluation / "metrics.json"
    content = json.loads(file.read_text())
    content["rollout"][0]["mae"].pop()
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"metrics\.json is damaged: .*3 values of mae for 4 times"):
        Evaluation.load(file.parent)


def test_damaged_fields_are_named_with_what_to_do(tmp_path: Path) -> None:
    file = make_run(tmp_path / "run").evaluation / "fields.npz"
    whole = dict(np.load(file))
    np.savez(file, **{name: array for name, array in whole.items() if name != "subdomains"})
    with pytest.raises(ValueError, match=r"fields\.npz has no 'subdomains'.*mondrian evaluate"):
        Fields.load(file)
    np.savez(file, **{**whole, "8x8/prediction": np.zeros((2, 1, 8, 9))})
    with pytest.raises(ValueError, match=r"8x8/prediction has shape \(2, 1, 8, 9\)"):
        Fields.load(file)
    np.savez(file, **{**whole, "8x8/prediction": np.zeros((2, 2, 8, 8))})
    with pytest.raises(ValueError, match=r"prediction has shape \(2, 2, 8, 8\)"):
        Fields.load(file)
    np.savez(file, **whole)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"fields\.npz cannot be read"):
        Fields.load(file)
