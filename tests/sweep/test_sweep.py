"""`mondrian sweep`: the runs that were asked for, a table that agrees with them, and any stop on the way."""

import csv
import math
import runpy
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mondrian.cli import main
from mondrian.sweep import join, sweep
from mondrian.sweep.pruning import ReportLoss
from mondrian.training.run import Run
from tests.forked import Forked

pytestmark = pytest.mark.training


def rows(folder: str | Path) -> list[dict[str, str]]:
    with open(Path(folder) / "sweep.csv") as file:
        return list(csv.DictReader(file))


def test_every_combination_is_trained_and_stands_in_the_table(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *words, "model.hidden_channels=8,16", "optimizer.lr=choice(1e-3,1e9)", "sampler=grid"]) == 0
    folder = Path("sweeps/allen_cahn/vit_sepmo_smoke")
    table = rows(folder)
    chosen = {(row["model.hidden_channels"], float(row["optimizer.lr"])) for row in table}
    assert chosen == {("8", 1e-3), ("8", 1e9), ("16", 1e-3), ("16", 1e9)}
    for row in table:
        run = Run.open(folder / row["trial"])
        assert run.config["model"]["hidden_channels"] == int(row["model.hidden_channels"])
        if float(row["optimizer.lr"]) > 1:  # diverged before the first validation; the others were tried all the same
            assert math.isnan(float(row["valid_loss"]))
            continue
        losses = run.history()["valid_loss"]
        assert float(row["valid_loss"]) == pytest.approx(np.nanmin(losses))
        assert run.history()["step"][np.nanargmin(losses)] == int(row["step"])
    out = capsys.readouterr().out
    order = [line.split()[0] for line in out.split("\n\n")[-2].splitlines() if line.split()[0].isdecimal()]
    finite = [row for row in table if float(row["optimizer.lr"]) < 1]
    assert order[:2] == [row["trial"] for row in sorted(finite, key=lambda row: float(row["valid_loss"]))]
    assert len(order) == 4
    assert f"next: mondrian evaluate {folder}/{order[0]}" in out
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_optuna_chooses_within_bounds_and_the_folder_alone_resumes_with_more_trials(words: list[str]) -> None:
    words = [*words, "model.hidden_channels=choice(8,16)", "optimizer.lr=tag(log,interval(1e-4,1e-2))", "run=tuned"]
    first = sweep([*words, "trials=2"])
    rates = [float(trial.chosen[1]) for trial in first.trials]
    assert len(rates) == len(set(rates)) == 2
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)
    histories = [first.run(trial).history_file.read_text() for trial in first.trials]
    longer = sweep(["run=tuned", "trials=3"])
    assert longer.trials[:2] == first.trials
    assert len(longer.trials) == 3
    assert [longer.run(trial).history_file.read_text() for trial in first.trials] == histories  # not trained again


def test_a_stop_in_a_trial_is_resumed_at_its_checkpoint(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*words, "seed=0,1", "sampler=grid"]
    whole = sweep([*words, "run=whole"])
    report = ReportLoss.on_validation_end

    def interrupted(self: ReportLoss, trainer: Any, module: Any) -> None:
        report(self, trainer, module)
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(ReportLoss, "on_validation_end", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sweep([*words, "run=stopped"])
    assert [path.name[:13] for path in Path("stopped/0/checkpoints").iterdir()] == ["step_00000003"]
    resumed = sweep(["run=stopped"])
    assert [trial.valid_loss for trial in resumed.trials] == [trial.valid_loss for trial in whole.trials]
    assert not list(Path("stopped").glob(".*lock"))


def test_a_trial_behind_the_others_is_pruned(words: list[str]) -> None:
    words = [*words, "validate_every=1", "optimizer.lr=1e-2,1e-3,1e-4,1e-5,1e-6,1e-7", "sampler=grid"]
    results = sweep([*words, "pruner=median"])
    *begun, last = results.trials  # the median pruner lets five trials finish before it compares
    assert [trial.state for trial in begun] == ["complete"] * 5
    assert (last.state, last.steps < 4) == ("pruned", True)
    assert results.best.state == "complete"


def test_an_error_marks_the_trial_as_failed_and_the_next_call_tries_the_others_first(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*words, "batch_size=0,4", "sampler=grid", "run=tuned"]
    assert main(["sweep", *words]) == 2
    assert "batch_size=0 must be a whole number from 1 on" in capsys.readouterr().err
    assert main(["sweep", *words]) == 2  # 4 is trained, and then 0 tried again
    assert Run.open("tuned/1").config["batch_size"] == 4


def test_a_run_of_other_settings_in_the_folder_is_not_taken_for_a_trial(words: list[str]) -> None:
    words = [*words, "optimizer.lr=choice(1e-3)", "run=tuned", "sampler=grid"]
    results = sweep(words)
    run = results.run(results.best)
    others = [word if not word.startswith("optimizer.lr=") else "optimizer.lr=0.5" for word in run.facts["words"]]
    run.write(run.facts | {"words": others})
    Path("tuned/study.journal").unlink()
    table = Path("tuned/sweep.csv").read_text()
    with pytest.raises(ValueError, match=r"tuned/0 was trained with optimizer.lr=0.5; the study has"):
        sweep(words)
    assert Path("tuned/sweep.csv").read_text() == table


def test_fields_of_the_data_can_vary(data: Path, words: list[str]) -> None:
    fields = ["data=files", f"data.path={data}", "data.input=choice([u],[u,gamma])", "data.target=[u]", "scale=smoke"]
    results = sweep([*fields, *words[3:], "run=fields", "sampler=grid"])
    assert [len(results.run(trial).config["data"]["input"]) for trial in results.trials] == [1, 2]


def test_the_folder_of_a_sweep_may_have_any_name(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *words, "seed=choice(3)", "sampler=grid", "run='größe (1), a=b'"]) == 0
    assert [row["seed"] for row in rows("größe (1), a=b")] == ["3"]
    assert Run.open("größe (1), a=b/0").config["seed"] == 3
    commands = capsys.readouterr().out.partition("next: ")[2].split(" && ")
    assert [shlex.split(command)[2] for command in commands] == ["größe (1), a=b/0"] * 2


@pytest.mark.process
@pytest.mark.slow
def test_two_workers_share_a_sweep_and_one_resumes_what_a_killed_one_left(words: list[str]) -> None:
    words = [*words, "max_steps=10", "validate_every=5", "checkpoint_every=1", "seed=choice(3,4)", "run=tuned"]
    with Forked(lambda: join([*words, "sampler=grid"])) as worker:
        while not list(Path("tuned/0/checkpoints").glob("*.ckpt")):
            assert worker.poll() is None, worker.said()
            time.sleep(0.02)
        worker.process.kill()
        worker.wait()
    assert all(path.name < "step_00000010" for path in Path("tuned/0/checkpoints").glob("*.ckpt"))
    assert main(["sweep", "run=tuned", "jobs=2"]) == 0
    assert [(row["trial"], row["steps"], row["state"]) for row in rows("tuned")] == [
        ("0", "10", "complete"),
        ("1", "10", "complete"),
    ]
    assert len(list(Path("tuned/0/tensorboard").glob("events*"))) == 2  # resumed once


def test_the_example_tunes_width_and_learning_rate(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main_of = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "tune.py"))["main"]
    main_of([*words[2:], "trials=2", "model.hidden_channels=choice(8,16)"])
    out = capsys.readouterr().out
    assert {"trial", "model.hidden_channels", "optimizer.lr"} < set(out.split())
    assert [row["trial"] for row in rows("sweeps/width_and_rate")] == ["0", "1"]
