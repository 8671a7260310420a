"""`mondrian report`: files, defaults, bad input."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.report.synthetic import make_run

from mondrian.cli import main


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)


def test_one_run_has_its_report_inside(capsys: pytest.CaptureFixture[str]) -> None:
    make_run(Path("runs/first"), evaluated=False)
    assert main(["report", "runs/first"]) == 0
    assert capsys.readouterr().out.splitlines() == ["runs/first/report.html", "runs/first/report/*.png: 1 pictures"]
    assert Path("runs/first/report.html").exists()
    assert Path("runs/first/report/loss.png").exists()


def test_several_runs_have_theirs_in_the_current_folder() -> None:
    for name in ("first", "second"):
        make_run(Path("runs") / name, name=name, evaluated=False)
    assert main(["report", "runs/first", "runs/second"]) == 0
    assert Path("report.html").exists()
    assert {path.name for path in Path("report").iterdir()} == {"losses.png", "1-first-loss.png", "2-second-loss.png"}


def test_another_file_is_asked_for_with_out() -> None:
    make_run(Path("first"), evaluated=False)
    assert main(["report", "first", "out=tables/all.html"]) == 0
    assert Path("tables/all.html").exists()
    assert Path("tables/all/loss.png").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no run is given"),
        (["out=a.html"], "no run is given"),
        (["nowhere"], "nowhere is no training run: it has no run.json"),
        (["first", "out=a.pdf"], "out=a.pdf must end in .html"),
        (["first", "out=a.html", "out=b.html"], "out is given 2 times"),
        (["first", "outt=a.html"], "unknown argument outt=a.html"),
        (["first", "--wide"], "unknown argument --wide"),
        (["first", "first"], "first is given twice"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(Path("first"), evaluated=False)
    assert main(["report", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_damaged_evaluation_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(Path("first"))
    (run.evaluation / "metrics.json").write_text("{")
    assert main(["report", "first"]) == 2
    assert "first/evaluation/metrics.json cannot be read" in capsys.readouterr().err
