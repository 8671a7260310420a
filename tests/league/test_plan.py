"""Which trainings a league needs: learning rates first, then both budgets, then more seeds for the best."""

from dataclasses import replace
from typing import Any

import pytest

from mondrian.league.entrants import Entrant
from mondrian.league.estimates import Estimate
from mondrian.league.jobs import Job
from mondrian.league.outcome import Outcome
from mondrian.league.plan import LeaguePlan
from mondrian.league.settings import parse
from mondrian.league.snapshot import Snapshot
from mondrian.league.spec import SAMPLES, TIME, TUNING

SPEEDS = {"fno": 80.0, "ffno": 40.0, "vit_mo": 20.0}
DIVERGED = Outcome(message="the loss is nan")


class Playing:
    """The plan of a league whose trainings end when a test says so: no folder, no file."""

    def __init__(self, *overrides: str) -> None:
        common = ["allen_cahn", "parts.main=[fno,ffno,vit_mo]", "seeds=2", "best=1"]
        league = parse([*common, "samples=1600", "minutes=2", "tuning_samples=160", *overrides])
        self.plan = LeaguePlan(league, SPEEDS, Snapshot())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plan, name)

    def end(self, job: Job, loss: float | None, *, evaluated: bool = False) -> None:
        before = self.plan.snapshot
        outcome = DIVERGED if loss is None else Outcome(valid_loss=loss)
        shown = before.evaluated | {job.key} if evaluated else before.evaluated
        self.plan = replace(self.plan, snapshot=Snapshot({**before.outcomes, job.key: outcome}, shown))

    def waits_for(self) -> list[tuple[str, str, float, int]]:
        return [(job.entrant.name, job.budget, job.rate, job.seed) for job in self.plan.waiting]

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.plan)


@pytest.fixture
def plan() -> Playing:
    return Playing("rates=[1e-3,3e-3]", "wider=0", "finalists=1")


def test_at_first_only_learning_rates_are_tried(plan: Playing) -> None:
    assert plan.waits_for() == [(name, TUNING, rate, 0) for name in SPEEDS for rate in (1e-3, 3e-3)]


def test_the_learning_rate_with_the_least_validation_loss_is_taken_and_a_diverged_one_never(plan: Playing) -> None:
    fno, ffno, vit = plan.league.entrants
    for entrant, losses in {fno: (0.2, 0.1), ffno: (0.3, None), vit: (None, None)}.items():
        for job, loss in zip(plan.tuning(entrant), losses, strict=True):
            plan.end(job, loss)
    assert [plan.rate(entrant) for entrant in (fno, ffno, vit)] == [3e-3, 1e-3, 1e-3]


def test_the_list_of_learning_rates_grows_at_the_end_where_the_best_is() -> None:
    plan = Playing("rates=[2e-3,6e-3,1.8e-2]", "wider=2", "finalists=1")
    fno, ffno, vit = plan.league.entrants

    def tried(entrant: Entrant) -> list[float]:
        return [job.rate for job in plan.tuning(entrant)]

    for entrant, losses in {fno: (0.2, 0.1, 0.3), ffno: (0.3, 0.2, 0.1), vit: (0.1, 0.2, None)}.items():
        for job, loss in zip(plan.tuning(entrant), losses, strict=True):
            plan.end(job, loss)
    assert tried(fno) == [2e-3, 6e-3, 1.8e-2]
    assert tried(ffno) == [2e-3, 6e-3, 1.8e-2, 5.4e-2]
    assert tried(vit) == [6.7e-4, 2e-3, 6e-3, 1.8e-2]
    assert plan.rate(ffno) is None  # while that one is tried
    plan.end(plan.tuning(ffno)[-1], 0.5)
    assert (plan.rate(ffno), tried(ffno)) == (1.8e-2, [2e-3, 6e-3, 1.8e-2, 5.4e-2])
    for loss in (0.05, 0.02):
        plan.end(plan.tuning(vit)[0], loss)
    assert tried(vit) == [2.2e-4, 6.7e-4, 2e-3, 6e-3, 1.8e-2]  # twice, and no further
    assert plan.rate(vit) == 2.2e-4


def test_the_best_learning_rates_train_for_the_first_budget_and_the_best_of_them_for_the_second() -> None:
    plan = Playing("rates=[1e-3,2e-3,3e-3]", "wider=0", "finalists=2")
    fno, ffno, vit = plan.league.entrants
    for entrant, losses in {fno: (0.2, 0.1, 0.3), ffno: (0.3, None, None), vit: (None, None, None)}.items():
        for job, loss in zip(plan.tuning(entrant), losses, strict=True):
            plan.end(job, loss)
    of_fno = [each[1:] for each in plan.waits_for() if each[0] == "fno"]
    assert of_fno == [(SAMPLES, 2e-3, 0), (SAMPLES, 1e-3, 0)]
    assert (plan.rate(fno), plan.trainings(fno)) == (None, {})
    first, second = plan.finalists(fno)
    assert (plan.task(first)["rivals"], plan.task(second)["rivals"]) == ([str(second.folder)], [str(first.folder)])
    assert (plan.rate(ffno), plan.rate(vit)) == (1e-3, 1e-3)  # nobody else is finite
    for job, loss in zip(plan.finalists(fno), (0.09, 0.08), strict=True):
        plan.end(job, loss)
    assert plan.rate(fno) == 1e-3
    assert {budget: job.rate for budget, job in plan.trainings(fno).items()} == {SAMPLES: 1e-3, TIME: 1e-3}
    assert ("fno", TIME, 1e-3, 0) in plan.waits_for()
    ended = [job for job in plan.everything() if plan.snapshot.ended(job) and job.entrant == fno]
    assert len(ended) == len(set(ended)) == 3 + 2  # trials, and finalists


def test_until_the_rules_have_chosen_the_best_learning_rate_so_far_is_shown() -> None:
    plan = Playing("rates=[1e-3,2e-3,3e-3]", "wider=2", "finalists=2")
    fno = plan.league.entrants[0]

    def evaluated(budget: str, rate: float, loss: float | None) -> None:
        plan.end(plan._job(fno, budget, rate, 0, 100), loss, evaluated=True)

    def shown() -> dict[str, float]:
        return {budget: job.rate for budget, job in plan.shown(fno).items()}

    for job, loss in zip(plan.tuning(fno), (0.2, 0.1, 0.05), strict=True):
        plan.end(job, loss)
    assert shown() == {}
    evaluated(SAMPLES, 2e-3, 0.02)  # by other rules, that tried fewer
    evaluated(TIME, 2e-3, 0.01)
    assert plan.trainings(fno) == {}
    assert shown() == {SAMPLES: 2e-3, TIME: 2e-3}
    plan.end(plan.tuning(fno)[-1], 0.5)
    evaluated(SAMPLES, 3e-3, 0.01)
    assert plan.trainings(fno)[TIME].rate == 3e-3
    assert shown() == {SAMPLES: 3e-3, TIME: 2e-3}  # until that one has ended
    assert {(job.budget, job.rate) for job in plan.everything() if plan.snapshot.ended(job)} > {
        (TIME, 2e-3),
        (SAMPLES, 3e-3),
    }
    evaluated(TIME, 3e-3, 0.02)
    assert shown() == {SAMPLES: 3e-3, TIME: 3e-3}  # by the rules, though the other has the smaller loss
    evaluated(TIME, 2e-3, 0.005)
    plan.end(plan.trainings(fno)[TIME], None)
    assert shown()[TIME] == 3e-3  # that it diverged is a result


def test_a_training_that_other_rules_let_lose_is_not_shown_without_an_evaluation() -> None:
    plan = Playing("rates=[1e-3,2e-3]", "finalists=2")
    fno = plan.league.entrants[0]
    for job, loss in zip(plan.finalists(fno), (0.02, 0.01), strict=True):
        plan.end(job, loss)
    plan.end(plan.finalists(fno)[0], 0.02, evaluated=True)
    assert plan.trainings(fno)[SAMPLES].rate == 2e-3
    assert plan.shown(fno)[SAMPLES].rate == 1e-3


def test_where_all_learning_rates_may_go_on_none_is_tried_before() -> None:
    plan = Playing("rates=[1e-3,2e-3]", "finalists=2", "entrants=[fno]")
    (fno,) = plan.league.entrants
    assert plan.waits_for() == [("fno", SAMPLES, 1e-3, 0), ("fno", SAMPLES, 2e-3, 0)]
    assert plan.estimate.seconds_left() == pytest.approx(2 * 1600 / 80 + 120)
    for job, loss in zip(plan.finalists(fno), (0.2, 0.1), strict=True):
        plan.end(job, loss)
    assert plan.waits_for() == [("fno", TIME, 2e-3, 0)]


def test_finalists_count_in_what_is_left() -> None:
    plan = Playing("rates=[1e-3,2e-3,3e-3]", "wider=0", "finalists=2", "entrants=[fno]")
    (fno,) = plan.league.entrants
    assert plan.estimate.seconds_left() == pytest.approx(3 * 160 / 80 + 2 * 1600 / 80 + 120)
    for job in plan.tuning(fno):
        plan.end(job, job.rate)
    plan.end(plan.finalists(fno)[0], 0.1)
    assert plan.estimate.seconds_left() == pytest.approx(1600 / 80 + 120)


def test_each_entrant_continues_as_soon_as_its_own_rate_is_known(plan: Playing) -> None:
    fno = plan.league.entrants[0]
    for job in plan.tuning(fno):
        plan.end(job, job.rate)
    assert [word for word in plan.waits_for() if word[0] == "fno"] == [
        ("fno", SAMPLES, 1e-3, 0),
        ("fno", TIME, 1e-3, 0),
    ]


def test_the_second_budget_gives_each_the_steps_of_its_own_speed(plan: Playing) -> None:
    assert plan.league.conditions.batch_size == 16
    steps = {entrant.name: plan.budgets(entrant) for entrant in plan.league.entrants}
    assert {name: budgets[SAMPLES] for name, budgets in steps.items()} == dict.fromkeys(SPEEDS, 100)
    assert {name: budgets[TIME] for name, budgets in steps.items()} == {"fno": 600, "ffno": 300, "vit_mo": 150}


def test_the_best_train_again_when_everyone_has_ended_and_not_before(plan: Playing) -> None:
    losses = {"fno": 0.3, "ffno": 0.1, "vit_mo": 0.2}
    for entrant in plan.league.entrants:
        for job in plan.tuning(entrant):
            plan.end(job, job.rate)
        assert plan.best() == ()
        for job in plan.trainings(entrant).values():
            plan.end(job, losses[entrant.name])
    assert [entrant.name for entrant in plan.best()] == ["ffno"]
    assert plan.waits_for() == [("ffno", TIME, 1e-3, 1)]


def test_an_entrant_that_diverged_is_not_among_the_best(plan: Playing) -> None:
    for entrant in plan.league.entrants:
        for job in plan.tuning(entrant):
            plan.end(job, job.rate)
        for job in plan.trainings(entrant).values():
            plan.end(job, None if entrant.name == "fno" else 0.5)
    assert [entrant.name for entrant in plan.best()] == ["ffno"]


def test_a_part_of_the_league_waits_for_the_rest_before_it_chooses_the_best() -> None:
    part = Playing("entrants=[fno]", "rates=[1e-3]")
    for job in part.known_jobs:
        part.end(job, 0.1)
    assert part.best() == ()
    assert part.waits_for() == []


def test_what_is_left_is_the_time_of_all_that_has_not_ended(plan: Playing) -> None:
    tuning = sum(2 * 160 / speed for speed in SPEEDS.values())
    both = sum(1600 / speed for speed in SPEEDS.values()) + 3 * 120
    assert plan.estimate.seconds_left() == pytest.approx(tuning + both + 120)  # and one more seed of one of them
    for job in plan.tuning(plan.league.entrants[0]):
        plan.end(job, 0.1)
    assert plan.estimate.seconds_left() == pytest.approx(tuning - 2 * 160 / 80 + both + 120)


def test_on_many_cores_it_takes_what_the_trainings_of_one_wait_for_each_other(plan: Playing) -> None:
    assert plan.estimate.longest() == pytest.approx((160 + 1600) / 20 + 120)
    for entrant in plan.league.entrants:
        for job in plan.tuning(entrant):
            plan.end(job, job.rate)
    assert plan.estimate.longest() == pytest.approx(1600 / 20 + 120)
    assert not plan.ended
    for entrant in plan.league.entrants:
        for job in plan.trainings(entrant).values():
            plan.end(job, 0.1)
    assert (plan.estimate.longest(), plan.ended) == (pytest.approx(120, rel=0.1), False)  # a second seed
    for job in plan.more_seeds():
        plan.end(job, 0.1)
    assert (plan.estimate.longest(), plan.ended) == (0, True)


def test_words_say_everything_that_a_training_needs(plan: Playing) -> None:
    job = plan.tuning(plan.league.entrants[2])[1]
    words = plan.overrides(job)
    assert words[:2] == ["experiment=allen_cahn/vit_mo", "scale=cpu"]
    assert {"optimizer.lr=0.003", "max_steps=10", "seed=0", f"run={job.folder}", "resume=true"} < set(words)


def test_seeds_of_entrants_who_are_not_asked_for_are_neither_trained_nor_waited_for(plan: Playing) -> None:
    for entrant in plan.league.entrants:
        for job in plan.tuning(entrant):
            plan.end(job, job.rate)
        for job in plan.trainings(entrant).values():
            plan.end(job, {"fno": 0.3, "ffno": 0.1, "vit_mo": 0.2}[entrant.name])
    part = Playing("rates=[1e-3,3e-3]", "wider=0", "finalists=1", "entrants=[fno]")
    part.plan = replace(part.plan, snapshot=plan.snapshot)
    assert [job.entrant.name for job in part.more_seeds()] == ["ffno"]
    assert (part.waits_for(), part.estimate.seconds_left()) == ([], 0)
    assert (len(plan.waits_for()), plan.estimate.seconds_left()) == (1, 120)


def test_a_trial_of_a_learning_rate_is_validated_less_often_than_a_curve_is_drawn(plan: Playing) -> None:
    fno = plan.league.entrants[0]
    trials = plan.tuning(fno)
    for job in trials:
        plan.end(job, job.rate)
    overrides = [plan.overrides(job) for job in (trials[0], plan.trainings(fno)[TIME])]
    assert [word for words in overrides for word in words if word.startswith("validate_every")] == [
        "validate_every=3",  # 10 steps
        "validate_every=38",  # 600 steps
    ]
