"""A small league from the command line: held, killed, continued, and shown."""

import csv
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from mondrian.cli import main
from mondrian.league.outcome import FILE as OUTCOME
from mondrian.league.outcome import Outcome
from mondrian.league.plan import Plan
from mondrian.league.runner import LOCK, Bar, Running, run
from mondrian.league.settings import read
from mondrian.league.tables import markdown
from mondrian.training.run import Run

WORDS = ["allen_cahn", "scale=smoke", "parts.main=[fno,vit_sepmo_staggered]", "rates=[2e-3]", "best=1", "jobs=2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league that was killed as soon as one training had begun, and then held to its end."""
    folder = tmp_path_factory.mktemp("league")
    command = [sys.executable, "-m", "mondrian.cli", "league", *WORDS, f"folder={folder}"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not list((folder / "main").glob("*/*/checkpoints/*")) and time.monotonic() < until:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not (folder / "main" / "results.md").exists()
    assert main(["league", *WORDS, f"folder={folder}"]) == 0
    return folder


def test_every_training_ended_once(folder: Path) -> None:
    files = list(folder.glob(f"main/*/*/{OUTCOME}"))
    assert len(files) == 2 * 2 + 1  # two entrants, two budgets; one of them with a second seed
    for file in files:
        outcome = Outcome.load(file.parent)
        assert outcome is not None
        assert outcome.done
        history = Run.open(file.parent).history()
        steps = history["step"][np.isfinite(history["valid_loss"])]
        assert (steps[1:] > steps[:-1]).all()  # no step is there twice, from two processes


def test_the_table_has_both_budgets_and_the_seeds(folder: Path) -> None:
    results = json.loads((folder / "main" / "results.json").read_text())
    rows = {(row["budget"], row["name"]): row for row in results["rows"]}
    assert set(rows) == {(b, n) for b in ("samples", "time") for n in ("fno", "vit_sepmo_staggered")}
    assert sorted(row["seeds"] for row in results["rows"]) == [1, 1, 1, 2]
    speeds = json.loads((folder / "speeds.json").read_text())
    for (budget, name), row in rows.items():
        seen = 32 if budget == "samples" else 60 * 0.02 * speeds[name]
        assert row["samples"] == pytest.approx(seen, abs=2)  # batches of four
        assert {"mae 32x32", "mae 64x64", "mae 128x128", "native mae 32x32", "native mae 64x64"} < set(row["scores"])
        assert row["scores"]["native mae 32x32"]["mean"] != row["scores"]["mae 32x32"]["mean"]  # other solutions
        assert row["versions"]["torch"].startswith("2.")
        assert len(row["versions"]["source"]) == 12
        assert row["curve"]["samples"][-1] == row["samples"]
        assert len(row["curve"]["mae"]) == len(row["curve"]["samples"])
    assert results["command"].startswith("mondrian league allen_cahn scale=smoke")
    assert results["hours"] > 0
    (where,) = results["machines"]
    assert where in (folder / "main" / "results.md").read_text()
    assert results["diverged"] == []
    for still in results["unchanged"].values():  # the same for everyone
        assert set(still) >= {"mae 32x32", "relative L2 128x128", "native mae 32x32"}
        assert still == pytest.approx(results["unchanged"]["samples"])


def test_markdown_csv_and_figures_say_the_same(folder: Path) -> None:
    part = folder / "main"
    rows = json.loads((part / "results.json").read_text())["rows"]
    text = (part / "results.md").read_text()
    assert text.count("| FNO ") == text.count("| nothing changes ") == 2
    assert f"torch {torch.__version__}" in text
    with open(part / "results.csv") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == sum(len(row["scores"]) for row in rows)
    for name in ("errors", "curves", "spectra", "fields"):
        for budget in ("samples", "time"):
            assert (part / f"{name}_{budget}.png").read_bytes().startswith(b"\x89PNG")
            assert f"![{name}_{budget}]({name}_{budget}.png)" in text
    assert "Not there yet" not in text
    assert "are to come" not in text


def test_other_settings_in_the_same_folder_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "main" / "results.json").read_bytes()
    assert main(["league", *WORDS, f"folder={folder}", "samples=64", "jobs=0"]) != 0
    assert "samples: 64 where there was 32" in capsys.readouterr().err
    assert (folder / "main" / "results.json").read_bytes() == before


def test_what_diverged_is_said_and_what_is_missing_too(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "league")
    words = [*WORDS, f"folder={tmp_path / 'league'}", "jobs=0"]
    part = tmp_path / "league" / "main"
    (lost,) = part.glob("fno/samples*/outcome.json")
    Outcome(message="the loss is nan at step 3").save(lost.parent)
    (missing,) = part.glob("vit_sepmo_staggered/samples*/outcome.json")
    missing.unlink()
    assert main(["league", *words]) == 0
    text = (part / "results.md").read_text()
    assert "- FNO, samples, learning rate 0.002, seed 0: the loss is nan at step 3" in text
    assert "Not there yet: vit_sepmo_staggered." in text
    assert "other samples" not in text
    results = json.loads((part / "results.json").read_text())
    assert [(lost["name"], lost["budget"]) for lost in results["diverged"]] == [("fno", "samples")]


def test_trainings_by_the_speeds_of_another_day_are_named(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "league")
    file = tmp_path / "league" / "speeds.json"
    speeds = json.loads(file.read_text())
    file.write_text(json.dumps(speeds | {"fno": 2 * speeds["fno"]}))
    assert main(["league", *WORDS, f"folder={tmp_path / 'league'}", "jobs=0"]) == 0
    results = json.loads((folder / "main" / "results.json").read_text())
    (seen,) = (row["samples"] for row in results["rows"] if (row["name"], row["budget"]) == ("fno", "time"))
    by_samples, by_time = (tmp_path / "league" / "main" / "results.md").read_text().split("## The same time")
    assert f"With other samples than the speeds of today give: fno {seen:,} instead of " in by_time
    assert "other samples" not in by_samples


def test_an_entrant_with_a_learning_rate_to_come_is_not_there_yet(tmp_path: Path) -> None:
    league = read(["allen_cahn", f"folder={tmp_path}", "parts.main=[fno,ffno]", "rates=[1e-3,2e-3]", "minutes=null"])
    plan = Plan(league, {"fno": 50.0, "ffno": 50.0})
    first, _ = plan.finalists(league.entrants[0])
    Outcome(message="the loss is nan").save(first.folder)
    assert "Not there yet: fno, ffno." in markdown(plan, {}, [])


def test_outcomes_and_evaluations_are_enough_to_show_a_league_elsewhere(folder: Path, tmp_path: Path) -> None:
    part = folder / "main"
    ignored = Path(__file__).parents[2] / "docs" / "results" / ".gitignore"
    shutil.copy(ignored, tmp_path)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    found = [file for file in folder.rglob("*") if file.is_file()]
    names = "\n".join(str(file.relative_to(folder)) for file in found)
    dropped = subprocess.run(
        ["git", "-C", str(tmp_path), "check-ignore", "--stdin"], input=names, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    kept = [file for file in found if str(file.relative_to(folder)) not in dropped]
    assert {file.name for file in kept if file.parent.name.startswith("evaluation")} == {"metrics.json", "fields.npz"}
    assert not any(file.match("evaluation_native/fields.npz") for file in kept)  # nobody shows it
    assert not any("model.safetensors" in file.name or file.suffix == ".hdf5" for file in kept)
    for file in kept:
        copy = tmp_path / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    assert main(["league", *WORDS, f"folder={tmp_path}", "jobs=0"]) == 0
    for name in ("results.md", "results.csv", "curves_time.png", "fields_time.png"):
        assert (tmp_path / "main" / name).read_bytes() == (part / name).read_bytes(), name


def test_an_outcome_of_another_version_is_named(tmp_path: Path) -> None:
    (tmp_path / OUTCOME).write_text('{"state": "done", "valid_loss": 0.1}')
    with pytest.raises(ValueError, match=r"outcome\.json has state, valid_loss; needed .*: another version wrote it"):
        Outcome.load(tmp_path)


def test_where_nothing_was_trained_there_is_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["league", *WORDS, f"folder={tmp_path / 'mistyped'}", "jobs=0"]) != 0
    assert "holds no trainings to show" in capsys.readouterr().err
    assert not (tmp_path / "mistyped").exists()


@pytest.fixture(scope="module")
def rolled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A league of Navier-Stokes, one of whose entrants cannot train: more applications than there are frames."""
    folder = tmp_path_factory.mktemp("rolled")
    broken = "+variants.broken={base: fno, label: Broken, words: ['unroll=99']}"
    words = ["navier_stokes", "scale=smoke", f"folder={folder}", "parts.main=[broken,fno]", broken, "rates=[2e-3]"]
    assert main(["league", *words, "minutes=null", "jobs=1", "seeds=1"]) != 0
    return folder


def test_an_entrant_that_fails_stops_nobody_else(rolled: Path) -> None:
    text = (rolled / "main" / "results.md").read_text()
    assert "| FNO " in text
    assert "Not there yet: broken." in text
    assert not list(rolled.glob("main/broken/*/outcome.json"))


def test_rollouts_are_scored_drawn_and_stored(rolled: Path) -> None:
    (row,) = json.loads((rolled / "main" / "results.json").read_text())["rows"]
    assert row["scores"]["rollout 64x64"]["mean"] > 0
    (mean,) = {round(sum(r["relative_l2"]) / 3, 6) for place, r in row["rollouts"].items() if place == "64x64"}
    assert mean == pytest.approx(row["scores"]["rollout 64x64"]["mean"], rel=1e-4)  # over the three frames
    for name in ("errors", "curves", "rollouts", "spectra", "fields", "rollout_fields"):
        assert (rolled / "main" / f"{name}_samples.png").read_bytes().startswith(b"\x89PNG")


def test_on_a_terminal_the_progress_shows_who_is_how_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    league = read([*WORDS, f"folder={tmp_path}"])
    plan = Plan(league, {"fno": 50.0, "vit_sepmo_staggered": 20.0})
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = Bar(plan, progress=True)
    with subprocess.Popen(["true"]) as process:
        bar.show([Running(job, process, -1) for job in plan.known_jobs()])
    bar.close()
    assert "league:" in screen.getvalue()
    assert "fno 0%" in screen.getvalue()


def test_what_is_done_is_not_done_again_and_needs_no_data(folder: Path) -> None:
    files = [*folder.glob("main/*/*/outcome.json"), folder / "speeds.json"]
    before = {file: file.stat().st_mtime_ns for file in files}
    (folder / "data").rename(folder / "elsewhere")
    try:
        assert main(["league", *WORDS, f"folder={folder}"]) == 0
        assert not (folder / "data").exists()
    finally:
        (folder / "elsewhere").rename(folder / "data")
    assert {file: file.stat().st_mtime_ns for file in files} == before


def test_a_training_that_another_process_is_at_is_waited_for(tmp_path: Path) -> None:
    league = read([*WORDS, f"folder={tmp_path}", "jobs=1", "entrants=[fno]", "minutes=null"])
    plan = Plan(league, {"fno": 50.0})
    (job,) = plan.known_jobs()
    job.folder.mkdir(parents=True)

    def other() -> None:
        time.sleep(1.5)
        Outcome(valid_loss=1.0).save(job.folder)
        lock.close()

    with open(job.folder / LOCK, "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Thread(target=other).start()
        run(plan)
    assert sorted(os.listdir(job.folder)) == [LOCK, OUTCOME]  # nothing was started here


def test_an_interrupt_that_reaches_the_league_alone_ends_its_trainings_too(tmp_path: Path) -> None:
    words = [*WORDS, f"folder={tmp_path}", "entrants=[fno]", "samples=100000", "minutes=null", "jobs=1"]
    hearing = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # in the background of a script it would not
    command = [sys.executable, "-m", "mondrian.cli", "league", *words]
    league = subprocess.Popen(command, start_new_session=True, preexec_fn=hearing)
    until = time.monotonic() + 120
    (run,) = (job.folder for job in Plan(read(words), {"fno": 50.0}).known_jobs())
    history = run / "history.csv"
    while not (history.exists() and history.read_text().count("\n") > 1) and time.monotonic() < until:
        time.sleep(0.05)  # until it has made a step
    league.send_signal(signal.SIGINT)
    assert league.wait(timeout=60) == 130
    assert not (run / OUTCOME).exists()
    assert list(run.glob("checkpoints/*"))  # its state is kept
    with open(run / LOCK, "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody is at it


@pytest.mark.parametrize(("code", "message"), [(-9, "was killed by SIGKILL"), (130, "was stopped; the next call goes")])
def test_a_training_that_somebody_ends_is_named_and_stops_nobody_else(tmp_path: Path, code: int, message: str) -> None:
    league = read([*WORDS, f"folder={tmp_path}", "jobs=1", "entrants=[fno]", "minutes=null"])
    (job,) = Plan(league, {"fno": 50.0}).known_jobs()
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    ended.returncode = code
    with pytest.raises(ValueError, match=f"samples_lr0.002_seed0 of fno {message}.*log.txt"):
        Running(job, ended, os.open(os.devnull, os.O_RDONLY)).end()


def test_a_training_that_fails_is_named_with_its_log(tmp_path: Path) -> None:
    league = read([*WORDS, f"folder={tmp_path}", "jobs=1", "entrants=[fno]", "minutes=null"])  # no data was made
    with pytest.raises(ValueError, match=r"samples_lr0.002_seed0 of fno failed: .*log\.txt"):
        run(Plan(league, {"fno": 50.0}))
