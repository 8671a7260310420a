"""Published results: small, drawn again from `results.json` and `fields.npz` alone, and enough to resume a league."""

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mondrian.cli import main
from mondrian.drawing.style import png_of
from mondrian.grid import Grid
from mondrian.league import runner
from mondrian.league.compact_json import compact_json
from mondrian.league.field_panels import FieldPanels, Panel, draw_panels
from mondrian.league.jobs import Job
from mondrian.league.outcome import Outcome
from mondrian.league.panel_files import packed, unpacked
from mondrian.league.results_files import LeagueResults
from mondrian.league.run_league import published_results
from mondrian.league.settings import parse
from mondrian.league.snapshot import SnapshotReader
from mondrian.league.tables import csv_text, markdown

from .conftest import SMALL

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PARTS = sorted(file.parent for file in RESULTS.glob("*/*/results.json"))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.parent.name}-{part.name}")
def test_the_tables_of_committed_results_follow_from_their_json(part: Path) -> None:
    results = LeagueResults.load(part)
    rows, page = results.rows(), (part / "results.md").read_text()
    figures = re.findall(r"!\[(\w+)\]\(\1\.png\)", page)
    assert markdown(results.plan, rows, figures) == page
    assert csv_text(rows) == (part / "results.csv").read_text()
    assert {f"{name}.png" for name in figures} == {file.name for file in part.glob("*.png")}


def test_committed_results_are_small_and_nothing_else_is_there() -> None:
    files = [file for file in RESULTS.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    assert sum(file.stat().st_size for file in files) < 3e6
    kept = {"results.md", "results.csv", "results.json", "fields.npz", "speeds.json"}
    assert {file.name for file in files if file.suffix != ".png" and file.parent != RESULTS} == kept


def test_the_fields_of_committed_results_can_be_drawn() -> None:
    results = LeagueResults.load(RESULTS / "navier_stokes_cpu" / "main")
    rows = results.rows()["time"]
    for name in ("fields_time", "rollout_fields_time"):
        assert png_of(draw_panels(rows, results.panels[name]), dpi=40).startswith(b"\x89PNG")


def test_published_results_are_drawn_again_without_the_trainings(small_league: Path, tmp_path: Path) -> None:
    published = small_league.parent / "published"
    names = {file.name for file in (published / "main").iterdir()}
    figures = {f"{name}_time.png" for name in ("errors", "curves", "spectra", "fields")}  # of the last budget alone
    assert names == figures | {"results.md", "results.csv", "results.json", "fields.npz"}
    (tmp_path / "main").mkdir()
    for name in ("results.json", "fields.npz"):
        shutil.copy(published / "main" / name, tmp_path / "main")
    assert main(["league", f"show={tmp_path}"]) == 0
    for name in names:
        assert (tmp_path / "main" / name).read_bytes() == (published / "main" / name).read_bytes(), name


@pytest.mark.usefixtures("without_figures")
def test_published_trainings_count_as_trained(
    small_league: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("nothing is to be trained"))
    shutil.copytree(small_league.parent / "published", tmp_path / "published")
    words = [*SMALL, f"folder={tmp_path / 'empty'}", f"publish={tmp_path / 'published'}"]
    before = (tmp_path / "published" / "main" / "results.json").read_bytes()
    assert main(["league", *words]) == 0
    assert (tmp_path / "published" / "main" / "results.json").read_bytes() == before
    with pytest.raises(ValueError, match=r"results\.json: samples was 16, now it is 64; needed the same settings"):
        published_results(parse([*words, "samples=64"]))


@pytest.mark.usefixtures("without_figures")
def test_folders_of_earlier_versions_can_be_published(small_league: Path, tmp_path: Path) -> None:
    """Their part had another name, their outcomes spoke of words, and their results did not hold the trainings."""
    folder = tmp_path / "league"
    shutil.copytree(
        small_league / "main", folder / "reasons", ignore=shutil.ignore_patterns("data", "*.png", "fields.npz")
    )
    shutil.copy(small_league / "speeds.json", folder)
    for file in folder.glob("reasons/*/*/outcome.json"):
        content = json.loads(file.read_text())
        content["words"] = content.pop("overrides")
        file.write_text(json.dumps(content))
    published = tmp_path / "published" / "design_ablation"
    published.mkdir(parents=True)
    (published / "results.json").write_text("{}")
    former = ["parts.main=[fno,vit_sepmo_staggered]", "+parts.design_ablation=[fno,vit_sepmo_staggered]"]
    budgets = "+budgets.design_ablation={samples: 16, minutes: 0.01, tuning_samples: 8, seeds: 2, best: 1}"
    words = [*SMALL, *former, budgets, "part=design_ablation", f"folder={folder}", "jobs=0"]
    assert main(["league", *words, f"publish={tmp_path / 'published'}"]) == 0
    known = LeagueResults.load(small_league / "main")
    results = LeagueResults.load(published)
    assert csv_text(results.rows()) == csv_text(known.rows())
    assert not (folder / "design_ablation").exists()


def test_a_folder_without_results_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["league", f"show={tmp_path}"]) != 0
    assert "holds no results.json; needed a folder that `mondrian league` published" in capsys.readouterr().err
    (tmp_path / "results.json").write_text('{"format": 1}')
    with pytest.raises(ValueError, match=r"results\.json has format=1; needed 2: publish it again"):
        LeagueResults.load(tmp_path)


def test_fields_of_eight_bits_are_close_to_those_they_came_from() -> None:
    generator = np.random.default_rng(0)
    truth, error = generator.uniform(-1, 1, (16, 16)), 0.1 * generator.standard_normal((16, 16)) ** 3
    panels = {"fno": Panel("fno", (8, 8), error, float(np.abs(error).mean()))}
    grid = Grid(extent=(1.0, 1.0), periodic=(True, True))
    described, arrays = packed({"fields_time": FieldPanels(grid, (16, 16), None, truth, panels)})
    assert len(arrays) < 2000
    shown = unpacked(json.loads(compact_json(described)), stored(arrays))["fields_time"]
    assert (shown.grid, shown.points, shown.time) == (grid, (16, 16), None)
    assert np.abs(shown.truth - truth).max() < 1 / 255 + 1e-4
    shown_error = shown.panels["fno"].error
    assert shown_error is not None
    step = 2 * np.sqrt(np.abs(error) * np.abs(error).max()) / 254 + np.abs(error).max() / 254**2
    assert (np.abs(shown_error - error) <= 1.01 * step + 1e-5).all()  # small errors are stored more finely
    assert shown.panels["fno"].mean_error == pytest.approx(np.abs(error).mean(), rel=1e-4)


def stored(arrays: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(arrays)) as file:
        return {name: file[name] for name in file.files}


def test_a_snapshot_reads_only_files_that_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entrant = parse(["allen_cahn"]).everyone[0]
    first, second = (Job(entrant, "time", 1e-3, seed, 8, tmp_path / entrant.name / f"seed{seed}") for seed in (0, 1))
    reader = SnapshotReader(tmp_path)
    assert not reader.read().ended(first)
    Outcome(valid_loss=0.1).save(first.folder)
    snapshot = reader.read()
    assert snapshot.loss(first) == 0.1
    assert reader.read() is snapshot
    load, read = Outcome.load, []
    monkeypatch.setattr(Outcome, "load", staticmethod(lambda folder: read.append(folder) or load(folder)))
    Outcome(valid_loss=0.2).save(second.folder)
    assert [reader.read().loss(job) for job in (first, second)] == [0.1, 0.2]
    assert read == [second.folder]
    assert not reader.read().can_be_shown(first)
    (first.folder / "evaluation").mkdir()
    (first.folder / "evaluation" / "metrics.json").write_text("{}")
    assert reader.read().can_be_shown(first)


def test_trainings_in_a_folder_come_before_published_ones(tmp_path: Path) -> None:
    entrant = parse(["allen_cahn"]).everyone[0]
    job = Job(entrant, "time", 1e-3, 0, 8, tmp_path / entrant.name / "time_lr0.001_seed0")
    Outcome(valid_loss=0.1).save(job.folder)
    published = SnapshotReader(tmp_path).read()
    Outcome(valid_loss=0.3).save(tmp_path / "work" / job.key)
    other = replace(job, seed=1, folder=job.folder.with_name("time_lr0.001_seed1"))
    published = replace(published, outcomes={**published.outcomes, other.key: Outcome(valid_loss=0.2)})
    snapshot = SnapshotReader(tmp_path / "work", published).read()
    assert (snapshot.loss(job), snapshot.loss(other)) == (0.3, 0.2)
