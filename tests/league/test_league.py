"""A small league from the command line: trained, interrupted, resumed, and shown."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from mondrian.cli import main
from mondrian.league import runner
from mondrian.league.jobs import TASK
from mondrian.league.outcome import FILE as OUTCOME
from mondrian.league.outcome import Outcome
from mondrian.league.plan import LeaguePlan
from mondrian.league.results_files import LeagueResults
from mondrian.league.runner import Bar, Running, run
from mondrian.league.settings import parse
from mondrian.league.snapshot import Snapshot, SnapshotReader
from mondrian.league.tables import markdown
from mondrian.support.lock import Lock, LockedError
from mondrian.training.run import Run
from tests import forked

from .conftest import SMALL

SPEEDS = {"fno": 50.0, "vit_sepmo_staggered": 20.0}


def one_training(folder: Path, *overrides: str) -> LeaguePlan:
    """The plan of a league of a single training."""
    league = parse([*SMALL, f"folder={folder}", "jobs=1", "entrants=[fno]", "minutes=null", *overrides])
    return LeaguePlan(league, SPEEDS, Snapshot())


def test_every_training_ended_once(small_league: Path) -> None:
    files = list(small_league.glob(f"main/*/*/{OUTCOME}"))
    assert len(files) == 2 * 2 + 1  # two entrants, two budgets; one of them with a second seed
    for file in files:
        outcome = Outcome.load(file.parent)
        assert outcome is not None
        assert outcome.done
        history = Run.open(file.parent).history()
        steps = history["step"][np.isfinite(history["valid_loss"])]
        assert (steps[1:] > steps[:-1]).all()
        assert not (file.parent / "checkpoints").exists()


def test_the_table_has_both_budgets_and_the_seeds(small_league: Path) -> None:
    results = json.loads((small_league / "main" / "results.json").read_text())
    rows = {(row["budget"], row["name"]): row for row in results["rows"]}
    assert set(rows) == {(b, n) for b in ("samples", "time") for n in ("fno", "vit_sepmo_staggered")}
    assert sorted(row["seeds"] for row in results["rows"]) == [1, 1, 1, 2]
    speeds = json.loads((small_league / "speeds.json").read_text())
    for (budget, name), row in rows.items():
        seen = 16 if budget == "samples" else 60 * 0.01 * speeds[name]
        assert row["samples"] == pytest.approx(max(seen, 4), abs=2)  # batches of four
        training = results["trainings"][row["trainings"][0]]
        scores = training["evaluation"]["scores"]
        assert {"mae 32x32", "mae 64x64", "mae 128x128", "native mae 32x32", "native mae 64x64"} < set(scores)
        assert scores["native mae 32x32"] != scores["mae 32x32"]  # other solutions
        assert training["samples"][-1] == row["samples"]
        assert len(training["mae"]) == len(training["samples"])
    assert results["command"].startswith("mondrian league allen_cahn scale=smoke")
    assert results["hours"] > 0
    (where,) = results["machines"]
    assert where in (small_league / "main" / "results.md").read_text()
    assert results["diverged"] == []
    (environment,) = results["shared"]["environments"]
    assert environment["versions"]["torch"].startswith("2.")
    assert len(environment["versions"]["source"]) == 12
    (persistence,) = results["shared"]["persistence"]  # the same for everyone
    assert set(persistence) >= {"mae 32x32", "relative L2 128x128", "native mae 32x32"}


def test_markdown_csv_and_figures_say_the_same(small_league: Path) -> None:
    part = small_league / "main"
    rows = [row for ranked in LeagueResults.load(part).rows().values() for row in ranked]
    text = (part / "results.md").read_text()
    assert text.count("| FNO ") == text.count("| persistence baseline ") == 2
    assert f"torch {torch.__version__}" in text
    with open(part / "results.csv") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == sum(len(row.scores) for row in rows)
    for name in ("errors", "curves", "spectra", "fields"):
        for budget in ("samples", "time"):
            assert (part / f"{name}_{budget}.png").read_bytes().startswith(b"\x89PNG")
            assert f"![{name}_{budget}]({name}_{budget}.png)" in text
    assert "Not trained yet" not in text
    assert "Still to come" not in text


def test_other_settings_in_the_same_folder_are_refused(small_league: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (small_league / "main" / "results.json").read_bytes()
    assert main(["league", *SMALL, f"folder={small_league}", "samples=64", "jobs=0"]) != 0
    assert "samples was 16, now it is 64" in capsys.readouterr().err
    assert (small_league / "main" / "results.json").read_bytes() == before


@pytest.mark.usefixtures("without_figures")
def test_the_page_names_diverged_and_missing_trainings_and_those_by_other_speeds(
    small_league: Path, tmp_path: Path
) -> None:
    shutil.copytree(small_league, tmp_path / "league")
    part = tmp_path / "league" / "main"
    (lost,) = part.glob("fno/samples*/outcome.json")
    Outcome(message="the loss is nan at step 3").save(lost.parent)
    (missing,) = part.glob("vit_sepmo_staggered/samples*/outcome.json")
    missing.unlink()
    speeds = json.loads((tmp_path / "league" / "speeds.json").read_text())
    (tmp_path / "league" / "speeds.json").write_text(json.dumps(speeds | {"fno": 2 * speeds["fno"]}))
    assert main(["league", *SMALL, f"folder={tmp_path / 'league'}", "jobs=0"]) == 0
    by_samples, by_time = (part / "results.md").read_text().split("## The same time")
    assert "- FNO, samples, learning rate 0.002, seed 0: the loss is nan at step 3" in by_time
    assert "Not trained yet: vit_sepmo_staggered." in by_samples
    assert "other numbers of samples" not in by_samples
    results = json.loads((part / "results.json").read_text())
    assert [(lost["name"], lost["budget"]) for lost in results["diverged"]] == [("fno", "samples")]
    (seen,) = (row["samples"] for row in results["rows"] if (row["name"], row["budget"]) == ("fno", "time"))
    assert f"other numbers of samples than the speeds of today give: fno {seen:,} instead of " in by_time


def test_an_entrant_with_a_learning_rate_to_come_is_not_trained_yet(tmp_path: Path) -> None:
    league = parse(["allen_cahn", f"folder={tmp_path}", "parts.main=[fno,ffno]", "rates=[1e-3,2e-3]", "minutes=null"])
    plan = LeaguePlan(league, {"fno": 50.0, "ffno": 50.0}, Snapshot())
    first, _ = plan.finalists(league.entrants[0])
    plan = LeaguePlan(league, plan.speeds, Snapshot({first.key: Outcome(message="the loss is nan")}))
    assert "Not trained yet: fno, ffno." in markdown(plan, {}, [])


def test_an_outcome_of_another_version_is_named(tmp_path: Path) -> None:
    (tmp_path / OUTCOME).write_text('{"state": "done", "valid_loss": 0.1}')
    with pytest.raises(ValueError, match=r"outcome\.json has state, valid_loss; needed .*: another version wrote it"):
        Outcome.load(tmp_path)


def test_where_nothing_was_trained_there_is_nothing_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["league", *SMALL, f"folder={tmp_path / 'mistyped'}", "jobs=0"]) != 0
    assert "holds no trainings to show" in capsys.readouterr().err
    assert not (tmp_path / "mistyped").exists()


def test_an_entrant_that_fails_stops_nobody_else(rolled_league: Path) -> None:
    text = (rolled_league / "main" / "results.md").read_text()
    assert "| FNO " in text
    assert "Not trained yet: broken." in text
    assert not list(rolled_league.glob("main/broken/*/outcome.json"))


def test_rollouts_are_scored_drawn_and_stored(rolled_league: Path) -> None:
    results = json.loads((rolled_league / "main" / "results.json").read_text())
    (row,) = results["rows"]
    evaluation = results["trainings"][row["trainings"][0]]["evaluation"]
    curve = evaluation["rollouts"]["64x64"]
    assert len(curve["times"]) == len(curve["relative_l2"]) == 3
    assert sum(curve["relative_l2"]) / 3 == pytest.approx(evaluation["scores"]["rollout 64x64"][0], rel=1e-3)
    for name in ("errors", "curves", "rollouts", "spectra", "fields", "rollout_fields"):
        assert (rolled_league / "main" / f"{name}_samples.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.process
def test_on_a_terminal_the_progress_shows_who_is_how_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    plan = LeaguePlan(parse([*SMALL, f"folder={tmp_path}"]), SPEEDS, Snapshot())
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = Bar(plan, progress=True)
    bar.show(plan, [Running(job, ended(0), Lock.of_file(tmp_path / OUTCOME)) for job in plan.known_jobs])
    bar.close()
    assert "league:" in screen.getvalue()
    assert "fno 0%" in screen.getvalue()


@pytest.mark.usefixtures("without_figures")
def test_nothing_is_trained_twice_and_what_has_ended_needs_no_data(small_league: Path) -> None:
    files = [*small_league.glob("main/*/*/outcome.json"), small_league / "speeds.json"]
    before = {file: file.stat().st_mtime_ns for file in files}
    (small_league / "data").rename(small_league / "elsewhere")
    try:
        assert main(["league", *SMALL, f"folder={small_league}"]) == 0
        assert not (small_league / "data").exists()
    finally:
        (small_league / "elsewhere").rename(small_league / "data")
    assert {file: file.stat().st_mtime_ns for file in files} == before


def test_a_training_of_another_process_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = one_training(tmp_path)
    (job,) = plan.known_jobs
    monkeypatch.setattr(runner, "POLL", 0.01)
    lock = Lock.of_file(job.folder / OUTCOME)
    lock.acquire()

    def other() -> None:
        time.sleep(0.2)
        Outcome(valid_loss=1.0).save(job.folder)
        lock.release()

    thread = threading.Thread(target=other)
    thread.start()
    run(plan, SnapshotReader(plan.league.runs))
    thread.join()
    assert os.listdir(job.folder) == [OUTCOME]  # nothing was started here


@pytest.mark.process
def test_a_process_is_told_its_task_and_inherits_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = one_training(tmp_path)
    (job,) = plan.known_jobs
    locked = []

    class Started(subprocess.Popen[bytes]):
        def __init__(self, command: list[str], *, pass_fds: tuple[int, ...], **given: object) -> None:
            locked.append([os.path.samestat(os.fstat(fd), os.stat(job.folder / f".{OUTCOME}.lock")) for fd in pass_fds])
            super().__init__(["true"])

    monkeypatch.setattr(runner.subprocess, "Popen", Started)
    with pytest.raises(ValueError, match=r"samples_lr0.002_seed0 of fno failed"):
        run(plan, SnapshotReader(plan.league.runs))
    assert locked == [[True]]
    assert json.loads((job.folder / TASK).read_text())["overrides"] == plan.overrides(job)
    assert "resume=true" in plan.overrides(job)


@pytest.mark.process
def test_an_interrupt_that_reaches_the_league_alone_ends_its_trainings_too(small_league: Path, tmp_path: Path) -> None:
    shutil.copytree(small_league / "data", tmp_path / "data")
    shutil.copytree(small_league / "native", tmp_path / "native")
    shutil.copy(small_league / "speeds.json", tmp_path)
    words = [*SMALL, f"folder={tmp_path}", "entrants=[fno]", "samples=100000", "minutes=null", "jobs=1"]
    (training,) = (job.folder for job in one_training(tmp_path, "samples=100000").known_jobs)

    def work() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background of a script it would be ignored
        sys.exit(main(["league", *words]))

    with forked.Forked(work) as league:
        history = training / "history.csv"
        wait_for(lambda: history.exists() and history.read_text().count("\n") > 1)  # until it has made a step
        with pytest.raises(LockedError):
            Lock.of_file(training / OUTCOME).acquire()
        assert league.pid is not None
        os.kill(league.pid, signal.SIGINT)
        assert league.wait() == 130
    assert not (training / OUTCOME).exists()
    assert list(training.glob("checkpoints/*"))  # its state is kept
    with Lock.of_file(training / OUTCOME):
        pass  # no process is at it


@pytest.mark.process
@pytest.mark.parametrize(("code", "message"), [(-9, "was killed by SIGKILL"), (130, "was stopped; the next call res")])
def test_a_training_that_somebody_ends_is_named(tmp_path: Path, code: int, message: str) -> None:
    (job,) = one_training(tmp_path).known_jobs
    with pytest.raises(ValueError, match=f"samples_lr0.002_seed0 of fno {message}.*log.txt"):
        Running(job, ended(code), Lock.of_file(tmp_path / OUTCOME)).end()


@pytest.mark.process
def test_a_training_that_fails_is_named_with_its_log(tmp_path: Path) -> None:
    (job,) = one_training(tmp_path).known_jobs
    job.folder.mkdir(parents=True)
    (job.folder / "log.txt").write_text("a line\nValueError: no data\n")
    with pytest.raises(ValueError, match=r"samples_lr0.002_seed0 of fno failed: ValueError: no data \(see .*log\.txt"):
        Running(job, ended(1), Lock.of_file(tmp_path / OUTCOME)).end()


def ended(code: int) -> subprocess.Popen[bytes]:
    """A process that has ended with a code."""
    process = subprocess.Popen(["true"])
    process.wait()
    process.returncode = code
    return process


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
