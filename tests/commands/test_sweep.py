"""`mondrian sweep`: the runs that were asked for, a table that agrees with them, and one that can go on."""

import csv
import math
import runpy
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from mondrian.cli import main
from mondrian.sweep import Results, sweep
from mondrian.sweep.plan import Plan
from mondrian.sweep.plot import figure_of
from mondrian.sweep.results import Trial
from mondrian.sweep.trial import check_choice
from mondrian.training.run import Run

SMALL = ("experiment=allen_cahn/vit_sepmo", "scale=smoke", "model.n_layers=1", "max_steps=4", "validate_every=2",
         "simulations.train=8", "simulations.valid=4", "simulations.test=4", "shard_size=4")  # fmt: skip


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)


def rows(folder: str | Path) -> list[dict[str, str]]:
    with open(Path(folder) / "sweep.csv") as file:
        return list(csv.DictReader(file))


def test_every_combination_is_trained_and_stands_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "model.hidden_channels=8,16", "optimizer.lr=choice(1e-3,1e9)", "hydra/sweeper=basic"]
    argv = list(sys.argv)
    assert main(["sweep", *words]) == 0
    assert sys.argv == argv
    found = rows("sweeps/allen_cahn/vit_sepmo_smoke")
    chosen = {(row["model.hidden_channels"], float(row["optimizer.lr"])) for row in found}
    assert chosen == {("8", 1e-3), ("8", 1e9), ("16", 1e-3), ("16", 1e9)}
    for row in found:
        run = Run.open(Path("sweeps/allen_cahn/vit_sepmo_smoke") / row["trial"])
        assert run.config["model"]["hidden_channels"] == int(row["model.hidden_channels"])
        if (
            float(row["optimizer.lr"]) > 1
        ):  # diverged before the first validation, and the others were tried all the same
            assert math.isnan(float(row["valid_loss"]))
            continue
        losses = run.history()["valid_loss"]
        assert float(row["valid_loss"]) == pytest.approx(np.nanmin(losses))
        assert run.history()["step"][np.nanargmin(losses)] == int(row["step"])
    out = capsys.readouterr().out
    table = out.split("\n\n")[-2] if "written to" in out.split("\n\n")[-1] else out
    order = [line.split()[0] for line in table.splitlines() if line.strip() and line.split()[0].isdecimal()]
    finite = [row for row in found if float(row["optimizer.lr"]) < 1]
    assert order[:2] == [row["trial"] for row in sorted(finite, key=lambda row: float(row["valid_loss"]))]
    assert len(order) == 4
    assert f"next: mondrian evaluate sweeps/allen_cahn/vit_sepmo_smoke/{order[0]}" in out
    assert Path("sweeps/allen_cahn/vit_sepmo_smoke/sweep.png").read_bytes().startswith(b"\x89PNG")


def test_optuna_chooses_within_bounds_and_the_same_command_goes_on() -> None:
    words = [*SMALL, "model.hidden_channels=choice(8,16)", "optimizer.lr=tag(log,interval(1e-4,1e-2))", "run=tuned"]
    first = sweep([*words, "hydra.sweeper.n_trials=3"])
    rates = [float(trial.chosen[1]) for trial in first.trials]
    assert len(rates) == len(set(rates)) == 3
    assert all(1e-4 <= rate <= 1e-2 for rate in rates)
    stamps = {trial.number: first.run(trial).history_file.read_text() for trial in first.trials}
    longer = sweep([*words, "hydra.sweeper.n_trials=4"])  # the same seed makes the same choices
    assert [trial.chosen for trial in longer.trials[:3]] == [trial.chosen for trial in first.trials]
    assert len(longer.trials) == 4
    for number, text in stamps.items():
        assert longer.run(longer.trials[number]).history_file.read_text() == text  # nothing was trained again
    with pytest.raises(ValueError, match=r"tuned holds another sweep: .*; the same words go on with it"):
        sweep([*words, "seed=1"])


def test_a_sweep_goes_on_only_with_what_makes_the_same_choices() -> None:
    words = [*SMALL, "optimizer.lr=tag(log,interval(1e-4,1e-1))", "run=tuned"]
    Plan.of(words).save()
    Plan.of([*words, "hydra.sweeper.sampler.seed=0", "hydra.sweeper.n_trials=50", "hydra/launcher=joblib"]).save()
    for other in ("hydra.sweeper.sampler.seed=1", "hydra/sweeper=basic", "hydra/sweeper/sampler=random"):
        with pytest.raises(ValueError, match=r"tuned holds another sweep: .*; the same words go on with it"):
            Plan.of([*words, other]).save()


def test_the_loss_of_a_run_is_not_given_to_settings_that_it_was_not_trained_with() -> None:
    words = [*SMALL, "model.hidden_channels=8", "optimizer.lr=choice(1e-3)", "run=tuned", "hydra/sweeper=basic"]
    found = sweep(words)
    run = found.run(found.best)
    others = [word if not word.startswith("optimizer.lr=") else "optimizer.lr=0.5" for word in run.facts["words"]]
    run.write(run.facts | {"words": others})
    table = Path("tuned/sweep.csv").read_text()
    with pytest.raises(ValueError, match=r"tuned/0 was trained with optimizer.lr=0.5; the sweeper now chooses"):
        sweep(words)
    assert Path("tuned/sweep.csv").read_text() == table


def test_words_that_take_a_setting_away_are_no_choices() -> None:
    run = Run(Path("tuned/0"))
    run.write({"words": ["~data.seed", "seed=3"], "parameters": 7})
    check_choice(run, ["seed=3"])
    with pytest.raises(ValueError, match=r"tuned/0 was trained with seed=3; the sweeper now chooses seed=4"):
        check_choice(run, ["seed=4"])
    (found,) = Results.read(Plan(Path("tuned"), ("~data.seed",), ("seed=choice(3)",), ())).trials
    assert (found.chosen, found.parameters) == (("3",), 7)


def test_settings_of_the_data_can_vary() -> None:
    assert main(["generate", "path=made", "scale=smoke", "workers=1"]) == 0
    fields = ["data.input=choice([u],[u,gamma])", "data.target=[u]", "data.path=choice(made)"]
    model = ["model.hidden_channels=8", "model.n_layers=1", "max_steps=2", "validate_every=2"]
    found = sweep(["data=files", *fields, "scale=smoke", *model, "run=fields", "hydra/sweeper=basic"])
    assert [len(found.run(trial).config["data"]["input"]) for trial in found.trials] == [1, 2]
    plan = Plan.of([*SMALL, "data.path=a,b", "data.simulations=int(interval(2,6))", "seed=0,1"])
    assert plan.first == [*SMALL, "data.path=a", "data.simulations=2"]


def test_the_folder_of_a_sweep_may_have_any_name(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "model.hidden_channels=8", "seed=choice(3)", "hydra/sweeper=basic", "run='größe (1), a=b'"]
    assert main(["sweep", *words]) == 0
    assert [row["seed"] for row in rows("größe (1), a=b")] == ["3"]
    assert Run.open("größe (1), a=b/0").config["seed"] == 3
    commands = capsys.readouterr().out.partition("next: ")[2].split(" && ")
    assert [shlex.split(command)[2] for command in commands] == ["größe (1), a=b/0"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_launchers_start_the_runs_in_other_processes(launcher: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [*SMALL, "seed=choice(3)", "run=launched", "hydra/sweeper=basic", f"hydra/launcher={launcher}"]
    monkeypatch.setattr("mondrian.sweep.trial.train_config", lambda *_, **__: pytest.fail("trained in this process"))
    found = sweep(words)
    assert [trial.chosen for trial in found.trials] == [("3",)]
    assert math.isfinite(found.best.valid_loss)


@pytest.mark.parametrize(
    "words, message",
    [
        (SMALL, "no setting varies; needed for example"),
        (
            (*SMALL, "model.hiden_channels=8,16"),
            "no setting 'model.hiden_channels'; did you mean model.hidden",
        ),
        ((*SMALL, "run=a,b"), "run=a,b cannot vary"),
        ((*SMALL, "seed=0,1", "hydra/sweeper=magic"), "hydra/sweeper/magic is not installed"),
        (("experiment=allen_cahn/vit_magic", "seed=0,1"), "no recipe 'allen_cahn/vit_magic'"),
        ((*SMALL, "batch_size=0,1", "hydra/sweeper=basic"), "batch_size=0 must be a whole number from 1 on"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *words]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("mondrian sweep: ")
    assert message in last


def test_a_recipe_can_vary_too_and_the_last_word_counts() -> None:
    plan = Plan.of(["experiment=choice(allen_cahn/fno,allen_cahn/vit_mo)", "scale=cpu", "scale=smoke", "seed=1"])
    assert plan.first == ["scale=smoke", "seed=1", "experiment=allen_cahn/fno"]
    assert plan.folder == Path("sweeps/recipes_smoke")
    assert plan.overrides[-1] == "+experiment=choice(allen_cahn/fno,allen_cahn/vit_mo)"


def trial(number: int, chosen: tuple[str, ...], loss: float) -> Trial:
    return Trial(number, chosen, loss, loss, step=1, steps=2, parameters=3, seconds=4.0)


def test_the_plot_shows_every_run_where_it_belongs_and_rings_the_best() -> None:
    trials = (trial(0, ("1e-4", "vit"), 0.5), trial(1, ("1e-2", "fno"), 0.25), trial(2, ("1e-3", "fno"), math.nan))
    results = Results(Path(), ("optimizer.lr", "model"), trials)
    assert results.best is trials[1]
    left, right = figure_of(results).axes
    assert left.get_xscale() == "log"
    finite, ring, crosses = left.lines
    assert np.allclose(finite.get_xydata(), [[1e-4, 0.5], [1e-2, 0.25]])
    assert np.allclose(ring.get_xydata(), [[1e-2, 0.25]])
    assert np.allclose(crosses.get_xydata(), [[1e-3, 0.5]])
    assert [label.get_text() for label in right.get_xticklabels()] == ["fno", "vit"]
    assert np.allclose(right.lines[0].get_xdata(), [1, 0])
    assert "nan" in results.table().splitlines()[-1]  # the worst, last


def test_the_example_tunes_width_and_learning_rate(capsys: pytest.CaptureFixture[str]) -> None:
    main_of = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "tune.py"))["main"]
    main_of([*SMALL[2:], "hydra.sweeper.n_trials=2", "model.hidden_channels=choice(8,16)"])
    out = capsys.readouterr().out
    assert {"trial", "model.hidden_channels", "optimizer.lr"} < set(out.split())
    assert [row["trial"] for row in rows("sweeps/width_and_rate")] == ["0", "1"]
