"""Workers that share a study: they claim its trials, each once, and take up what a killed one left."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from mondrian.sweep import SweepPlan
from mondrian.sweep.study import SharedStudy, chosen

LR = "optimizer.lr=tag(log,interval(1e-4,1e-1))"


@pytest.fixture
def open_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def opened(*words: str) -> SharedStudy:
        recipe = ["experiment=allen_cahn/vit_sepmo", "scale=smoke", "run=tuned"]
        return SharedStudy.open(SweepPlan.of([*recipe, *words]))

    return opened


def trained(shared: SharedStudy, count: int) -> list[dict[str, str]]:
    """The settings of trials whose loss is their learning rate."""
    settings = []
    for _ in range(count):
        with shared.claimed() as trial:
            assert trial is not None
            settings.append(dict(word.split("=", 1) for word in chosen(shared.plan, trial)))
            shared.study.tell(trial.number, float(settings[-1].get("optimizer.lr", 0)))
    return settings


def test_workers_at_the_same_time_have_different_trials_and_the_total_is_that_of_the_study(open_study: Any) -> None:
    workers = [open_study(LR, "trials=3") for _ in range(4)]
    with ExitStack() as stack:
        trials = [stack.enter_context(worker.claimed()) for worker in workers]
        assert [trial and trial.number for trial in trials] == [0, 1, 2, None]
        assert len({trial.params["optimizer.lr"] for trial in trials[:3]}) == 3


@pytest.mark.parametrize("storage", [(), ("storage=sqlite:///study.db",)])
def test_the_trial_of_a_worker_that_was_killed_is_taken_up_with_its_settings(
    storage: Sequence[str], open_study: Any
) -> None:
    words = [LR, "trials=2", *storage]
    with open_study(*words).claimed() as trial:
        rate = trial.params["optimizer.lr"]  # and nobody tells the study how it ended
    with open_study(*words).claimed() as again, open_study(*words).claimed() as other:
        assert (again.number, again.params["optimizer.lr"]) == (0, rate)
        assert other.number == 1
        again.study.tell(0, 0.25)
    with open_study(*words).claimed() as left:
        assert left.number == 1  # `other` was not told either
    assert open_study(*words).states() == {0: "complete", 1: "running"}


def test_without_locks_no_trial_is_taken_from_a_worker(open_study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mondrian.support.lock._take", lambda *_, **__: False)
    with open_study(LR, "trials=2").claimed() as first, open_study(LR, "trials=2").claimed() as second:
        assert (first.number, second.number) == (0, 1)


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_search_that_was_stopped_chooses_what_one_in_a_single_piece_does(sampler: str, open_study: Any) -> None:
    words = [LR, "model.hidden_channels=8,16", "trials=6", f"sampler={sampler}", "startup_trials=2"]
    whole = trained(open_study(*words), 6)
    parts = [trained(open_study(*words, "run=again"), 2) for _ in range(3)]
    assert [each for part in parts for each in part] == whole
    assert whole != trained(open_study(*words, "run=other", "sampler_seed=1"), 6)


def test_tpe_learns_where_the_loss_is_small(open_study: Any) -> None:
    rates = [
        [float(each["optimizer.lr"]) for each in trained(open_study(LR, f"run={name}", f"sampler={name}"), 20)[10:]]
        for name in ("tpe", "random")
    ]
    tpe, random = (sorted(each)[len(each) // 2] for each in rates)
    assert tpe < random / 3


def test_a_grid_tries_each_combination_once_and_what_has_failed_again_at_the_end(open_study: Any) -> None:
    shared = open_study("seed=0,1,2", "sampler=grid")
    with shared.claimed() as trial:
        shared.study.tell(trial.number, state=TrialState.FAIL)
    assert [each["seed"] for each in trained(shared, 3)] == ["1", "2", "0"]
    with shared.claimed() as trial:
        assert trial is None
    shared.study.enqueue_trial({"seed": "2"})  # as by a worker that was killed before it asked
    with open_study("seed=0,1,2", "sampler=grid").claimed() as trial:
        assert trial is None


def test_a_folder_remembers_its_search_but_not_the_number_of_trials(open_study: Any) -> None:
    name = open_study(LR, "trials=2").study.study_name
    assert open_study(LR, "trials=50").study.study_name == name
    with pytest.raises(ValueError, match=r"sampler was tpe, now it is random; the same overrides, or run=tuned alone"):
        open_study(LR, "sampler=random")
    with pytest.raises(ValueError, match=r"varied was .*interval.*, now it is"):
        open_study("optimizer.lr=1e-3,1e-2")


def test_an_address_of_a_database_that_cannot_be_reached_is_said_without_its_password(open_study: Any) -> None:
    with pytest.raises(ValueError, match=r"^storage=magic://me:\*\*\*@host/db: ") as caught:
        open_study(LR, "storage='magic://me:secret@host/db'")
    assert "secret" not in str(caught.value)
    open_study(LR, "storage=sqlite:///study.db")  # nothing was written before
    assert "study.db" not in Path("tuned/sweep.json").read_text()
