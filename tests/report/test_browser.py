"""The report in a real browser: no message of an error, and no request."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mondrian.report import write_report
from tests.browser import needs_browser, visit
from tests.report.synthetic import make_run

pytestmark = [needs_browser, pytest.mark.process]


def test_the_report_of_a_run_makes_no_error_and_no_request(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    page = tmp_path / "report.html"
    written = write_report([run], page)
    seen = visit(page.as_uri(), tmp_path)
    assert seen.console == []
    assert seen.requests == []
    assert len(re.findall(r"<svg\b", seen.dom)) == len(written) - 1
    # The script has run: tabs of two samples, two rollouts, two kinds of spectra, one of each in sight.
    assert seen.dom.count('role="tablist"') == 3
    assert len(re.findall(r'<button [^>]*aria-selected="true"', seen.dom)) == 3
    assert len(re.findall(r'<figure [^>]*hidden=""', seen.dom)) == 3


def test_the_report_of_several_runs_makes_no_error_and_no_request_when_used(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    runs = [
        make_run(tmp_path / name, name=name, level=level, points=((8, 8),))
        for name, level in (("a9", 2.0), ("a10", 1.0))
    ]
    write_report(runs, page)
    clicks = """<script>
    const body = document.querySelector("table.sortable").tBodies[0];
    const order = () => [...body.rows].map((row) => row.cells[0].textContent);
    const heads = document.querySelectorAll("table.sortable th button");
    const seen = [order()];
    heads[3].click(); seen.push(order());
    heads[3].click(); seen.push(order());
    heads[0].click(); seen.push(order());
    document.querySelectorAll(".tabs button")[1].click();
    location.hash = "#a10";
    document.title = seen.join(" ");
    </script></body>"""
    page.write_text(page.read_text().replace("</body>", clicks))
    seen = visit(page.as_uri(), tmp_path)
    assert seen.console == []
    assert seen.requests == []
    assert "<title>a9,a10 a10,a9 a9,a10 a9,a10</title>" in seen.dom  # as given, by error up and down, by name


def test_errors_and_requests_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<img src='http://mondrian.invalid/a.png'><script>console.error('wrong'); nothing.at.all</script>")
    seen = visit(page.as_uri(), tmp_path)
    assert "wrong" in seen.console[0]
    assert any("nothing is not defined" in line for line in seen.console)
    assert seen.requests == ["http://mondrian.invalid/a.png"]
