"""A folder holds one league: which settings may change in it, and which may not."""

from dataclasses import replace
from pathlib import Path

import pytest

from mondrian.league.folder_settings import remember_settings
from mondrian.league.jobs import TASK
from mondrian.league.plan import LeaguePlan
from mondrian.league.settings import parse
from mondrian.league.snapshot import Snapshot
from mondrian.settings.training import configure
from mondrian.support.files import write_json


def test_trainings_are_told_a_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "größe (1), a=b"
    league = parse(["allen_cahn", "scale=smoke", f"folder='{folder}'", "parts.main=[fno]"])
    assert league.folder == folder
    plan = LeaguePlan(league, {"fno": 80.0}, Snapshot())
    job, *_ = plan.known_jobs
    config = configure(plan.overrides(job))
    assert (Path(config.run), Path(config.data.path)) == (job.folder, folder / "data")
    remember_settings(league)
    moved = folder.rename(tmp_path / "moved")
    remember_settings(replace(league, folder=moved))  # where a folder lies is no setting


def begin(folder: Path, *overrides: str) -> None:
    """The first training of a league."""
    league = parse(["allen_cahn", f"folder={folder}", *overrides])
    remember_settings(league)
    write_json(league.runs / league.everyone[0].name / "tuning_lr0.001_seed0" / TASK, {})


def test_a_folder_in_which_nothing_has_begun_takes_corrected_settings(tmp_path: Path) -> None:
    variant = "+variants.a={base: fno, label: a, overrides: ['model.hidden_chanels=64']}"
    remember_settings(parse(["allen_cahn", f"folder={tmp_path}", "parts.main=[a]", variant]))
    begin(tmp_path, "parts.main=[a]", variant.replace("chanels", "channels"))
    with pytest.raises(ValueError, match=r"a was .*channels=64'\], now it is .*chanels=64'\]"):
        remember_settings(parse(["allen_cahn", f"folder={tmp_path}", "parts.main=[a]", variant]))


@pytest.mark.parametrize("word", ["threads=2", "batch_size=4", "simulations.train=100", "native=false"])
def test_all_parts_of_a_folder_share_data_threads_and_batches(tmp_path: Path, word: str) -> None:
    begin(tmp_path, "parts.main=[fno]")
    remember_settings(parse(["allen_cahn", f"folder={tmp_path}", "part=beyond"]))
    with pytest.raises(ValueError, match=f"{word.partition('=')[0]} was .*, now it is"):
        remember_settings(parse(["allen_cahn", f"folder={tmp_path}", "part=beyond", word]))


def test_a_folder_keeps_its_settings_but_takes_more_entrants_and_seeds(tmp_path: Path) -> None:
    words = ["allen_cahn", f"folder={tmp_path}", "parts.main=[fno,ffno]"]
    begin(tmp_path, "parts.main=[fno,ffno]")
    remember_settings(parse([*words, "seeds=5", "best=2", "jobs=1", "entrants=[fno]"]))
    remember_settings(parse(["allen_cahn", f"folder={tmp_path}", "parts.main=[vit_mo]"]))
    for changed, message in {
        "samples=320": r"league.json: samples was 8192, now it is 320; needed the same settings, or",
        "rates=[2e-3]": r"rates was \[0.00023, 0.0007, 0.002, 0.006, 0.018\], now it is \[0.002\]",
        "widths.ffno=['model.hidden_channels=24']": r"ffno was .*channels=32'\], now it is .*channels=24'\]",
        "horizon=5": "horizon was 20, now it is 5",
        "threads=2": "threads was 1, now it is 2",
        "simulations.test=3": "simulations.test was 128, now it is 3",
    }.items():
        with pytest.raises(ValueError, match=message):
            remember_settings(parse([*words, changed]))
    with pytest.raises(ValueError, match=r"vit_mo was \[\], now it is \['optimizer.clip=1'\]"):
        remember_settings(
            parse(["allen_cahn", f"folder={tmp_path}", "parts.main=[vit_mo]", "overrides=['optimizer.clip=1']"])
        )


def test_an_entrant_is_the_same_in_all_parts_of_a_folder(tmp_path: Path) -> None:
    words = ["allen_cahn", f"folder={tmp_path}"]
    begin(tmp_path, "parts.main=[vit_mo]")
    remember_settings(parse([*words, "part=ablation"]))  # other budgets, the same models
    with pytest.raises(ValueError, match=r"vit_mo was .*channels=32', .*now it is .*channels=8'\]"):
        remember_settings(
            parse([*words, "part=beyond", "parts.beyond=[vit_mo]", "widths.vit_mo=['model.hidden_channels=8']"])
        )
