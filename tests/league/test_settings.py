"""From overrides to the settings of a league; and errors that name the override that is wrong."""

import pytest

from mondrian.league.entrants import Entrant, known_names
from mondrian.league.settings import parse
from mondrian.league.spec import LeagueSpec
from mondrian.settings.training import configure


@pytest.mark.parametrize(
    ("overrides", "message"),
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
        (["allen_cahn", "overrides=seed"], r"overrides=seed must be a list of strings"),
        (["allen_cahn", "jobs=-1"], "jobs=-1 must be a whole number from 0 on"),
        (["allen_cahn", "part=mine", "+parts.mine=[fno]"], "part=mine is not known; needed one of main, ablation"),
        (["allen_cahn", "entrants=[unet_sepmo]"], r"unet_sepmo is not in parts.main=\['vit_sepmo',"),
        (["allen_cahn", "entrants=[]"], r"entrants=\[\] of part main; needed some of"),
        (
            ["allen_cahn", "parts.main=[a]", "+variants.a={base: fno}"],
            "variants.a=.*; needed base, label and overrides",
        ),
        (
            ["allen_cahn", "parts.main=[a]", "+variants.a={base: fno, label: a, overrides: [model]}"],
            r"variants.a.overrides=\['model'\] must be a list of settings such as optimizer.clip=1",
        ),
        (
            ["allen_cahn", "parts.main=[a]", "+variants.a={base: fno, label: a, overrides: ['optimizer.lr=0.5']}"],
            "optimizer.lr=0.5 of a is what the league decides",
        ),
        (["allen_cahn", "overrides=['+seed=7']"], r"\+seed=7 of vit_sepmo is what the league decides"),
        (["allen_cahn", "overrides=['optimizer.warmup=7']"], "optimizer.warmup=7 of .* is what the league decides"),
        (["allen_cahn", "simulations.train=many"], "simulations.train=many must be a whole number"),
        (["allen_cahn", "native=maybe"], "native=maybe must be true or false"),
    ],
)
def test_an_error_names_what_is_wrong(overrides: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(overrides)


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
@pytest.mark.parametrize("scale", ["cpu", "paper", "smoke"])
@pytest.mark.parametrize("part", ["main", "ablation"])
def test_every_league_of_ours_can_be_parse(problem: str, scale: str, part: str) -> None:
    league = parse([problem, f"scale={scale}", f"part={part}"])
    assert len(league.entrants) == {"main": 12, "ablation": 14}[part]
    assert all(league.overrides(entrant)[0].startswith(f"experiment={problem}/") for entrant in league.entrants)


def test_the_warmup_of_an_entrant_counts_where_the_league_has_none() -> None:
    league = parse(["allen_cahn", "warmup=null", "overrides=['optimizer.warmup=7']"])
    assert configure(league.overrides(league.entrants[0])).optimizer.warmup == 7


def test_entrants_have_the_common_overrides_then_their_widths_then_their_own() -> None:
    variant = "+variants.wide={base: fno, label: wide, overrides: ['model.hidden_channels=64']}"
    league = parse(["allen_cahn", "overrides=['optimizer.clip=1']", "parts.main=[fno,wide]", variant])
    common = ("optimizer.clip=1", "model.hidden_channels=20")
    assert [entrant.overrides for entrant in league.everyone] == [common, (*common, "model.hidden_channels=64")]


def test_every_change_of_the_design_ablation_has_a_label_of_its_own() -> None:
    league = parse(["allen_cahn", "part=design_ablation"])
    assert len({entrant.label for entrant in league.entrants}) == len(league.entrants) > 15


def test_former_names_of_settings_work_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="part=reasons is now part=design_ablation"):
        league = parse(["allen_cahn", "part=reasons"])
    assert league.part == "design_ablation"
    variant = "+variants.a={base: fno, label: a, words: ['optimizer.clip=1']}"
    with pytest.warns(FutureWarning) as warned:
        league = parse(["allen_cahn", "parts.main=[a]", variant, "words=['optimizer.clip=2']"])
    assert league.everyone[0].overrides[::2] == ("optimizer.clip=2", "optimizer.clip=1")
    assert [str(each.message).partition(";")[0] for each in warned] == [
        "words=['optimizer.clip=2'] is now overrides=['optimizer.clip=2']",
        "variants.a.words is now variants.a.overrides",
    ]


def test_a_league_can_be_read_back_from_its_json(tmp_path) -> None:
    league = parse(["navier_stokes", "part=ablation", f"folder={tmp_path}", "entrants=[vit_mo]", "samples=99"])
    again = LeagueSpec.from_json(league.to_json(), tmp_path)
    assert again.changed == ("samples=99",)
    assert again.entrants == again.everyone == league.everyone
    assert (again.budgets, again.conditions, again.runs) == (league.budgets, league.conditions, league.runs)


@pytest.mark.parametrize("problem", ["allen_cahn", "navier_stokes"])
def test_every_recipe_of_a_problem_may_take_part(problem: str) -> None:
    entrants = [Entrant.named(problem, name) for name in known_names(problem)]
    assert len({entrant.label for entrant in entrants}) == len(entrants) > 20
