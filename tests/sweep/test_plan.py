"""Which overrides vary, which stay, and which settings a sweep has of its own."""

from pathlib import Path

import pytest

from mondrian.cli import main
from mondrian.sweep import SweepPlan
from mondrian.sweep.plan import Search

SMALL = ("experiment=allen_cahn/vit_sepmo", "scale=smoke")


def test_a_recipe_can_vary_too_and_the_last_override_counts() -> None:
    plan = SweepPlan.of(["experiment=choice(allen_cahn/fno,allen_cahn/vit_mo)", "scale=cpu", "scale=smoke", "seed=1"])
    assert plan.first == ["scale=smoke", "seed=1", "experiment=allen_cahn/fno"]
    assert plan.folder == Path("sweeps/recipes_smoke")
    assert (plan.trials, plan.search) == (20, Search())


def test_data_are_those_of_the_first_of_the_values() -> None:
    plan = SweepPlan.of([*SMALL, "data.path=a,b", "data.simulations=int(interval(2,6))", "seed=0,1"])
    assert plan.first == [*SMALL, "data.path=a", "data.simulations=2"]


def test_settings_of_the_search_are_not_those_of_the_runs() -> None:
    plan = SweepPlan.of([*SMALL, "seed=0,1", "workers=2", "jobs=3", "trials=7", "pruner=median", "sampler=grid"])
    assert plan.fixed == (*SMALL, "workers=2")
    assert (plan.jobs, plan.trials, plan.search) == (3, 2, Search(trials=7, sampler="grid", pruner="median"))


def test_the_folder_alone_is_the_sweep_that_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = SweepPlan.of([*SMALL, "seed=0,1", "sampler=random", "trials=4", "run='a (1)'"])
    name = plan.remember()
    joined = SweepPlan.of(["run='a (1)'"])
    assert joined == plan
    assert joined.remember() == name
    assert SweepPlan.of(["run='a (1)'", "trials=9"]).trials == 9
    SweepPlan.of([*reversed(SMALL), "seed=0,1", "sampler=random", "run='a (1)'"]).remember()  # in another order
    with pytest.raises(
        ValueError, match=r"""sampler_seed was 0, now it is 1; .* or "run='a \(1\)'" alone, join the sweep"""
    ):
        SweepPlan.of([*SMALL, "seed=0,1", "sampler=random", "sampler_seed=1", "run='a (1)'"]).remember()
    with pytest.raises(ValueError, match=r"nothing is no sweep: it has no sweep\.json"):
        SweepPlan.of(["run=nothing"])


@pytest.mark.parametrize(
    "words, message",
    [
        (SMALL, "no setting varies; needed for example"),
        ((*SMALL, "model.hiden_channels=8,16"), "no setting 'model.hiden_channels'; did you mean model.hidden"),
        ((*SMALL, "run=a,b"), "run=a,b cannot vary"),
        ((*SMALL, "seed=0,1", "sampler=magic"), "sampler=magic is not known; needed one of tpe, random, grid"),
        ((*SMALL, "seed=0,1", "pruner=hard"), "pruner=hard is not known; needed one of none, median, halving"),
        ((*SMALL, "seed=0,1", "trials=0"), "trials=0 must be a whole number from 1 on"),
        ((*SMALL, "optimizer.lr=interval(0,1)", "sampler=grid"), "optimizer.lr: an interval has no end of values"),
        ((*SMALL, "optimizer.lr=interval(1,0)"), "optimizer.lr=interval(1,0) is no interval"),
        ((*SMALL, "seed=0,1", "trainer.devices=2"), "trainer.devices=2: a trial is one process"),
        ((*SMALL, "seed=0,1", "hydra/sweeper=magic"), "hydra/sweeper=magic: sweeps do not use Hydra's"),
        (("experiment=allen_cahn/vit_magic", "seed=0,1"), "no recipe 'allen_cahn/vit_magic'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MONDRIAN_DEBUG", raising=False)
    assert main(["sweep", *words]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("mondrian sweep: ")
    assert message in last


def test_several_ranks_are_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mondrian.sweep import sweep

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="one process, and 2 ranks were started; needed a job array or jobs=2"):
        sweep([*SMALL, "seed=0,1"])
