"""The table and the plot of a sweep, also of one that Hydra's sweeper wrote."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from mondrian.cli import main
from mondrian.sweep import Results, SweepPlan, sweep
from mondrian.sweep.plan import Search
from mondrian.sweep.plot import figure_of
from mondrian.sweep.results import Trial
from mondrian.sweep.worker import check_choice
from mondrian.training.run import Run


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


def test_overrides_that_take_a_setting_away_are_no_choices(tmp_path: Path) -> None:
    run = Run(tmp_path / "0")
    run.write({"words": ["~data.seed", "seed=3"], "parameters": 7})
    check_choice(run, ["seed=3"])
    with pytest.raises(ValueError, match=r"0 was trained with seed=3; the study has seed=4 for this trial"):
        check_choice(run, ["seed=4"])
    plan = SweepPlan(tmp_path, ("~data.seed",), ("seed=choice(3)",), Search())
    (row,) = Results.read(plan, {0: "running"}).trials
    assert (row.chosen, row.parameters, row.state) == (("3",), 7, "running")


def test_a_sweep_by_hydras_sweeper_is_shown_and_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fixed, varied = ["experiment=allen_cahn/vit_sepmo", "scale=smoke"], ["seed=choice(3,4)"]
    for number, loss in enumerate((0.5, 0.25)):
        run = Run(Path(f"old/{number}"))
        run.write({"words": [*fixed, f"seed={3 + number}", f"run=old/{number}"], "parameters": 7})
        run.history_file.write_text(f"step,seconds,valid_loss,valid_mae\n4,1.5,{loss},{loss}\n")
    content = {"folder": "old", "fixed": fixed, "varied": varied, "hydra": ["hydra/sweeper=basic"]}
    Path("old/sweep.json").write_text(json.dumps(content))
    assert main(["sweep", "run=old"]) == 0
    assert "next: mondrian evaluate old/1" in capsys.readouterr().out
    assert Path("old/sweep.csv").read_text().splitlines()[1].startswith("0,3,0.5,0.5,4,4,7,1.5")
    assert Path("old/sweep.png").exists()
    with pytest.raises(
        ValueError, match="old is a sweep by Hydra's sweeper: `mondrian sweep run=old` shows its results"
    ):
        sweep([*fixed, *varied, "sampler=grid", "run=old"])
