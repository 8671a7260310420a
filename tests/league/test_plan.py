"""Which trainings a league needs: learning rates first, then both budgets, then more seeds for the best."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hydra.utils import instantiate

from mondrian.league.agreement import agree
from mondrian.league.entrants import Entrant, known_names
from mondrian.league.outcome import Outcome
from mondrian.league.plan import Job, Plan
from mondrian.league.settings import SAMPLES, TIME, TUNING, read
from mondrian.training.settings import configure

SPEEDS = {"fno": 80.0, "ffno": 40.0, "vit_mo": 20.0}


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return planned(tmp_path, "rates=[1e-3,3e-3]", "wider=0", "finalists=1")


def planned(folder: Path, *words: str) -> Plan:
    common = ["allen_cahn", f"folder={folder}", "parts.main=[fno,ffno,vit_mo]", "seeds=2", "best=1"]
    return Plan(read([*common, "samples=1600", "minutes=2", "tuning_samples=160", *words]), SPEEDS)


def end(job: Job, loss: float | None) -> None:
    (Outcome(message="the loss is nan") if loss is None else Outcome(valid_loss=loss)).save(job.folder)


def waiting(plan: Plan) -> list[tuple[str, str, float, int]]:
    jobs = [job for job in plan.known_jobs() if job.outcome is None]
    return [(job.entrant.name, job.budget, job.rate, job.seed) for job in jobs]


def test_at_first_only_learning_rates_are_tried(plan: Plan) -> None:
    assert waiting(plan) == [(name, TUNING, rate, 0) for name in SPEEDS for rate in (1e-3, 3e-3)]


def test_the_learning_rate_with_the_least_validation_loss_is_taken_and_a_diverged_one_never(plan: Plan) -> None:
    fno, ffno, vit = plan.league.entrants
    for entrant, losses in {fno: (0.2, 0.1), ffno: (0.3, None), vit: (None, None)}.items():
        for job, loss in zip(plan.tuning(entrant), losses, strict=True):
            end(job, loss)
    assert [plan.rate(entrant) for entrant in (fno, ffno, vit)] == [3e-3, 1e-3, 1e-3]


def test_the_list_of_learning_rates_grows_at_the_end_where_the_best_is(tmp_path: Path) -> None:
    plan = planned(tmp_path, "rates=[2e-3,6e-3,1.8e-2]", "wider=2", "finalists=1")
    fno, ffno, vit = plan.league.entrants

    def tried(entrant: Entrant) -> list[float]:
        return [job.rate for job in plan.tuning(entrant)]

    for entrant, losses in {fno: (0.2, 0.1, 0.3), ffno: (0.3, 0.2, 0.1), vit: (0.1, 0.2, None)}.items():
        for job, loss in zip(plan.tuning(entrant), losses, strict=True):
            end(job, loss)
    assert tried(fno) == [2e-3, 6e-3, 1.8e-2]
    assert tried(ffno) == [2e-3, 6e-3, 1.8e-2, 5.4e-2]
    assert tried(vit) == [6.7e-4, 2e-3, 6e-3, 1.8e-2]
    assert plan.rate(ffno) is None  # while that one is tried
    end(plan.tuning(ffno)[-1], 0.5)
    assert (plan.rate(ffno), tried(ffno)) == (1.8e-2, [2e-3, 6e-3, 1.8e-2, 5.4e-2])
    for loss in (0.05, 0.02):
        end(plan.tuning(vit)[0], loss)
    assert tried(vit) == [2.2e-4, 6.7e-4, 2e-3, 6e-3, 1.8e-2]  # twice, and no further
    assert plan.rate(vit) == 2.2e-4


def test_the_best_learning_rates_train_for_the_first_budget_and_the_best_of_them_for_the_second(tmp_path: Path) -> None:
    plan = planned(tmp_path, "rates=[1e-3,2e-3,3e-3]", "wider=0", "finalists=2")
    fno, ffno, vit = plan.league.entrants
    for entrant, losses in {fno: (0.2, 0.1, 0.3), ffno: (0.3, None, None), vit: (None, None, None)}.items():
        for job, loss in zip(plan.tuning(entrant), losses, strict=True):
            end(job, loss)
    of_fno = [found[1:] for found in waiting(plan) if found[0] == "fno"]
    assert of_fno == [(SAMPLES, 2e-3, 0), (SAMPLES, 1e-3, 0)]
    assert (plan.rate(fno), plan.trainings(fno)) == (None, {})
    first, second = plan.finalists(fno)
    assert (plan.task(first)["rivals"], plan.task(second)["rivals"]) == ([str(second.folder)], [str(first.folder)])
    assert (plan.rate(ffno), plan.rate(vit)) == (1e-3, 1e-3)  # nobody else is finite
    for job, loss in zip(plan.finalists(fno), (0.09, 0.08), strict=True):
        end(job, loss)
    assert plan.rate(fno) == 1e-3
    assert {budget: job.rate for budget, job in plan.trainings(fno).items()} == {SAMPLES: 1e-3, TIME: 1e-3}
    assert ("fno", TIME, 1e-3, 0) in waiting(plan)
    ended = [job for job in plan.everything() if job.outcome is not None and job.entrant == fno]
    assert len(ended) == len(set(ended)) == 3 + 2  # trials, and finalists


def test_until_the_rules_have_chosen_the_best_learning_rate_so_far_is_shown(tmp_path: Path) -> None:
    plan = planned(tmp_path, "rates=[1e-3,2e-3,3e-3]", "wider=2", "finalists=2")
    fno = plan.league.entrants[0]

    def evaluated(budget: str, rate: float, loss: float | None) -> None:
        job = plan._job(fno, budget, rate, 0, 100)
        end(job, loss)
        job.run.evaluation.mkdir(exist_ok=True)

    def shown() -> dict[str, float]:
        return {budget: job.rate for budget, job in plan.shown(fno).items()}

    for job, loss in zip(plan.tuning(fno), (0.2, 0.1, 0.05), strict=True):
        end(job, loss)
    assert shown() == {}
    evaluated(SAMPLES, 2e-3, 0.02)  # by other rules, that tried fewer
    evaluated(TIME, 2e-3, 0.01)
    assert plan.trainings(fno) == {}
    assert shown() == {SAMPLES: 2e-3, TIME: 2e-3}
    end(plan.tuning(fno)[-1], 0.5)
    evaluated(SAMPLES, 3e-3, 0.01)
    assert plan.trainings(fno)[TIME].rate == 3e-3
    assert shown() == {SAMPLES: 3e-3, TIME: 2e-3}  # until that one has ended
    assert {(job.budget, job.rate) for job in plan.everything() if job.outcome} > {(TIME, 2e-3), (SAMPLES, 3e-3)}
    evaluated(TIME, 3e-3, 0.02)
    assert shown() == {SAMPLES: 3e-3, TIME: 3e-3}  # by the rules, though the other has the smaller loss
    evaluated(TIME, 2e-3, 0.005)
    end(plan.trainings(fno)[TIME], None)
    assert shown()[TIME] == 3e-3  # that it diverged is a result


def test_a_training_that_other_rules_let_lose_is_not_shown_without_an_evaluation(tmp_path: Path) -> None:
    plan = planned(tmp_path, "rates=[1e-3,2e-3]", "finalists=2")
    fno = plan.league.entrants[0]
    for job, loss in zip(plan.finalists(fno), (0.02, 0.01), strict=True):
        end(job, loss)
    plan.finalists(fno)[0].run.evaluation.mkdir()
    assert plan.trainings(fno)[SAMPLES].rate == 2e-3
    assert plan.shown(fno)[SAMPLES].rate == 1e-3


def test_where_all_learning_rates_may_go_on_none_is_tried_before(tmp_path: Path) -> None:
    plan = planned(tmp_path, "rates=[1e-3,2e-3]", "finalists=2", "entrants=[fno]")
    (fno,) = plan.league.entrants
    assert waiting(plan) == [("fno", SAMPLES, 1e-3, 0), ("fno", SAMPLES, 2e-3, 0)]
    assert plan.seconds_left() == pytest.approx(2 * 1600 / 80 + 120)
    for job, loss in zip(plan.finalists(fno), (0.2, 0.1), strict=True):
        end(job, loss)
    assert waiting(plan) == [("fno", TIME, 2e-3, 0)]


def test_finalists_count_in_what_is_left(tmp_path: Path) -> None:
    plan = planned(tmp_path, "rates=[1e-3,2e-3,3e-3]", "wider=0", "finalists=2", "entrants=[fno]")
    (fno,) = plan.league.entrants
    assert plan.seconds_left() == pytest.approx(3 * 160 / 80 + 2 * 1600 / 80 + 120)
    for job in plan.tuning(fno):
        end(job, job.rate)
    end(plan.finalists(fno)[0], 0.1)
    assert plan.seconds_left() == pytest.approx(1600 / 80 + 120)


def test_each_entrant_goes_on_as_soon_as_its_own_rate_is_known(plan: Plan) -> None:
    fno = plan.league.entrants[0]
    for job in plan.tuning(fno):
        end(job, job.rate)
    assert [word for word in waiting(plan) if word[0] == "fno"] == [("fno", SAMPLES, 1e-3, 0), ("fno", TIME, 1e-3, 0)]


def test_the_second_budget_gives_each_the_steps_of_its_own_speed(plan: Plan) -> None:
    assert plan.league.batch_size == 16
    steps = {entrant.name: plan.budgets(entrant) for entrant in plan.league.entrants}
    assert {name: found[SAMPLES] for name, found in steps.items()} == dict.fromkeys(SPEEDS, 100)
    assert {name: found[TIME] for name, found in steps.items()} == {"fno": 600, "ffno": 300, "vit_mo": 150}


def test_the_best_train_again_when_everyone_has_ended_and_not_before(plan: Plan) -> None:
    losses = {"fno": 0.3, "ffno": 0.1, "vit_mo": 0.2}
    for entrant in plan.league.entrants:
        for job in plan.tuning(entrant):
            end(job, job.rate)
        assert plan.best() == ()
        for job in plan.trainings(entrant).values():
            end(job, losses[entrant.name])
    assert [entrant.name for entrant in plan.best()] == ["ffno"]
    assert waiting(plan) == [("ffno", TIME, 1e-3, 1)]


def test_an_entrant_that_diverged_is_not_among_the_best(plan: Plan) -> None:
    for entrant in plan.league.entrants:
        for job in plan.tuning(entrant):
            end(job, job.rate)
        for job in plan.trainings(entrant).values():
            end(job, None if entrant.name == "fno" else 0.5)
    assert [entrant.name for entrant in plan.best()] == ["ffno"]


def test_a_part_of_the_league_waits_for_the_rest_before_it_chooses_the_best(plan: Plan, tmp_path: Path) -> None:
    words = ["allen_cahn", f"folder={tmp_path}", "parts.main=[fno,ffno,vit_mo]", "entrants=[fno]", "rates=[1e-3]"]
    part = Plan(read(words), SPEEDS)
    for job in part.known_jobs():
        end(job, 0.1)
    assert part.best() == ()
    assert waiting(part) == []


def test_what_is_left_is_the_time_of_all_that_has_not_ended(plan: Plan) -> None:
    tuning = sum(2 * 160 / speed for speed in SPEEDS.values())
    both = sum(1600 / speed for speed in SPEEDS.values()) + 3 * 120
    assert plan.seconds_left() == pytest.approx(tuning + both + 120)  # and one more seed of one of them
    for job in plan.tuning(plan.league.entrants[0]):
        end(job, 0.1)
    assert plan.seconds_left() == pytest.approx(tuning - 2 * 160 / 80 + both + 120)


def test_on_many_cores_it_takes_what_the_trainings_of_one_wait_for_each_other(plan: Plan) -> None:
    assert plan.longest() == pytest.approx((160 + 1600) / 20 + 120)
    for entrant in plan.league.entrants:
        for job in plan.tuning(entrant):
            end(job, job.rate)
    assert plan.longest() == pytest.approx(1600 / 20 + 120)
    assert not plan.ended
    for entrant in plan.league.entrants:
        for job in plan.trainings(entrant).values():
            end(job, 0.1)
    assert (plan.longest(), plan.ended) == (pytest.approx(120, rel=0.1), False)  # a second seed
    for job in plan.more_seeds():
        end(job, 0.1)
    assert (plan.longest(), plan.ended) == (0, True)


def test_words_say_everything_that_a_training_needs(plan: Plan) -> None:
    job = plan.tuning(plan.league.entrants[2])[1]
    words = plan.words(job)
    assert words[:2] == ["experiment=allen_cahn/vit_mo", "scale=cpu"]
    assert {"optimizer.lr=0.003", "max_steps=10", "seed=0", f"run={job.folder}", "resume=true"} < set(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["heat"], "heat is no league; needed one of allen_cahn, navier_stokes"),
        ([], "nothing is no league"),
        (["allen_cahn", "scale=huge"], "scale=huge is not known; needed one of cpu, paper, smoke"),
        (["allen_cahn", "part=third"], "part=third is not known"),
        (["allen_cahn", "entrants=[unet]"], "no entrant 'unet' of allen_cahn"),
        (["allen_cahn", "entrants=[fno_staggered]"], "no entrant 'fno_staggered'"),
        (["allen_cahn", "rates=[]"], r"rates=\[\] must be different learning rates"),
        (["allen_cahn", "minutes=-1"], "minutes=-1.0 must be positive, or null"),
        (["allen_cahn", "minuts=1"], r"no setting 'minuts'; did you mean minutes\?"),
        (["allen_cahn", "rates=1e-3"], "rates=0.001 must be different learning rates"),
        (["allen_cahn", "rates=[1e-3,1.0000001e-3]"], "must be different learning rates"),
        (["allen_cahn", "horizon=-1"], "horizon=-1 must be a whole number from 1 on"),
        (["allen_cahn", "warmup=x"], "warmup=x must be a number"),
        (["allen_cahn", "warmup=1.5"], "warmup=1.5 must be a part of the steps"),
        (["allen_cahn", "words=seed"], r"words=seed must be a list of words"),
        (["allen_cahn", "jobs=-1"], "jobs=-1 must be a whole number from 0 on"),
        (["allen_cahn", "part=mine", "+parts.mine=[fno]"], "part=mine is not known; needed one of main, ablation"),
        (["allen_cahn", "entrants=[unet_sepmo]"], r"unet_sepmo is not in parts.main=\['vit_sepmo',"),
        (["allen_cahn", "entrants=[]"], r"entrants=\[\] of part main; needed some of"),
        (["allen_cahn", "parts.main=[a]", "+variants.a={base: fno}"], "variants.a=.*; needed base, label and words"),
        (
            ["allen_cahn", "parts.main=[a]", "+variants.a={base: fno, label: a, words: [model]}"],
            r"variants.a.words=\['model'\] must be a list of settings such as optimizer.clip=1",
        ),
        (
            ["allen_cahn", "parts.main=[a]", "+variants.a={base: fno, label: a, words: ['optimizer.lr=0.5']}"],
            "optimizer.lr=0.5 of a is what the league decides",
        ),
        (["allen_cahn", "words=['+seed=7']"], r"\+seed=7 of vit_sepmo is what the league decides"),
        (["allen_cahn", "words=['optimizer.warmup=7']"], "optimizer.warmup=7 of .* is what the league decides"),
        (["allen_cahn", "simulations.train=many"], "simulations.train=many must be a whole number"),
        (["allen_cahn", "native=maybe"], "native=maybe must be true or false"),
    ],
)
def test_what_is_wrong_is_named(words: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(words)


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
@pytest.mark.parametrize("scale", ["cpu", "paper", "smoke"])
@pytest.mark.parametrize("part", ["main", "ablation"])
def test_every_league_of_ours_can_be_read(problem: str, scale: str, part: str) -> None:
    league = read([problem, f"scale={scale}", f"part={part}"])
    assert len(league.entrants) == {"main": 12, "ablation": 14}[part]
    assert all(league.words(entrant)[0].startswith(f"experiment={problem}/") for entrant in league.entrants)


def test_every_guess_is_its_base_with_other_settings_and_can_be_built() -> None:
    league = read(["allen_cahn", "part=reasons"])
    for entrant in league.entrants:
        config = configure(league.words(entrant))
        with torch.device("meta"):
            instantiate(config.model, _convert_="all")
        assert (entrant.base == "") == (entrant.own == ())
    assert len({entrant.label for entrant in league.entrants}) == len(league.entrants) > 15


def test_the_warmup_of_an_entrant_counts_where_the_league_has_none() -> None:
    league = read(["allen_cahn", "warmup=null", "words=['optimizer.warmup=7']"])
    assert configure(league.words(league.entrants[0])).optimizer.warmup == 7


def begin(folder: Path, *words: str) -> None:
    """The first training of a league."""
    league = read(["allen_cahn", f"folder={folder}", *words])
    agree(league)
    end(next(Plan(league, dict.fromkeys((e.name for e in league.everyone), 50.0)).known_jobs()), 0.1)


def test_a_folder_in_which_nothing_has_begun_takes_corrected_settings(tmp_path: Path) -> None:
    variant = "+variants.a={base: fno, label: a, words: ['model.hidden_chanels=64']}"
    agree(read(["allen_cahn", f"folder={tmp_path}", "parts.main=[a]", variant]))
    begin(tmp_path, "parts.main=[a]", variant.replace("chanels", "channels"))
    with pytest.raises(ValueError, match=r"a: .*chanels=64'\] where there was .*channels=64'\]"):
        agree(read(["allen_cahn", f"folder={tmp_path}", "parts.main=[a]", variant]))


@pytest.mark.parametrize("word", ["threads=2", "batch_size=4", "simulations.train=100", "native=false"])
def test_all_parts_of_a_folder_share_data_threads_and_batches(tmp_path: Path, word: str) -> None:
    begin(tmp_path, "parts.main=[fno]")
    agree(read(["allen_cahn", f"folder={tmp_path}", "part=beyond"]))
    with pytest.raises(ValueError, match=f"{word.partition('=')[0].partition('.')[0]}: .* where there was"):
        agree(read(["allen_cahn", f"folder={tmp_path}", "part=beyond", word]))


def test_a_folder_keeps_its_settings_but_takes_more_entrants_and_seeds(tmp_path: Path) -> None:
    words = ["allen_cahn", f"folder={tmp_path}", "parts.main=[fno,ffno]"]
    begin(tmp_path, "parts.main=[fno,ffno]")
    agree(read([*words, "seeds=5", "best=2", "jobs=1", "entrants=[fno]"]))
    agree(read(["allen_cahn", f"folder={tmp_path}", "parts.main=[vit_mo]"]))
    for changed, message in {
        "samples=320": "samples: 320 where there was 8192 in .*league.json; needed the same settings, or",
        "rates=[2e-3]": r"rates: \[0.002\] where there was \[0.00023, 0.0007, 0.002, 0.006, 0.018\]",
        "widths.ffno=['model.hidden_channels=24']": r"ffno: .*channels=24'\] where there was .*channels=32'\]",
        "horizon=5": "horizon: 5 where there was 20",
        "threads=2": "threads: 2 where there was 1",
        "simulations.test=3": "simulations: .*'test': 3.* where there was",
    }.items():
        with pytest.raises(ValueError, match=message):
            agree(read([*words, changed]))
    with pytest.raises(ValueError, match=r"vit_mo: \['optimizer.clip=1'\] where there was \[\]"):
        agree(read(["allen_cahn", f"folder={tmp_path}", "parts.main=[vit_mo]", "words=['optimizer.clip=1']"]))


def test_an_entrant_is_the_same_in_all_parts_of_a_folder(tmp_path: Path) -> None:
    words = ["allen_cahn", f"folder={tmp_path}"]
    begin(tmp_path, "parts.main=[vit_mo]")
    agree(read([*words, "part=ablation"]))  # other budgets, the same models
    with pytest.raises(ValueError, match=r"vit_mo: .*channels=8'\] where there was .*channels=32', .* in "):
        agree(read([*words, "part=reasons", "parts.reasons=[vit_mo]", "widths.vit_mo=['model.hidden_channels=8']"]))


def test_seeds_of_entrants_who_are_not_asked_for_are_neither_trained_nor_waited_for(plan: Plan) -> None:
    for entrant in plan.league.entrants:
        for job in plan.tuning(entrant):
            end(job, job.rate)
        for job in plan.trainings(entrant).values():
            end(job, {"fno": 0.3, "ffno": 0.1, "vit_mo": 0.2}[entrant.name])
    part = Plan(replace(plan.league, entrants=plan.league.entrants[:1]), SPEEDS)
    assert [job.entrant.name for job in part.more_seeds()] == ["ffno"]
    assert (waiting(part), part.seconds_left()) == ([], 0)
    assert (len(waiting(plan)), plan.seconds_left()) == (1, 120)


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
def test_every_recipe_of_a_problem_may_take_part(problem: str) -> None:
    entrants = [Entrant.named(problem, name) for name in known_names(problem)]
    assert len({entrant.label for entrant in entrants}) == len(entrants) > 20


def test_a_trial_of_a_learning_rate_is_validated_less_often_than_a_curve_is_drawn(plan: Plan) -> None:
    fno = plan.league.entrants[0]
    trials = plan.tuning(fno)
    for job in trials:
        end(job, job.rate)
    found = [plan.words(job) for job in (trials[0], plan.trainings(fno)[TIME])]
    assert [word for words in found for word in words if word.startswith("validate_every")] == [
        "validate_every=3",  # 10 steps
        "validate_every=38",  # 600 steps
    ]
