"""A league's folder may have any name."""

from pathlib import Path

from mondrian.league.agreement import agree
from mondrian.league.plan import Plan
from mondrian.league.settings import read
from mondrian.training.settings import configure


def test_trainings_are_told_a_folder_of_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "größe (1), a=b"
    league = read(["allen_cahn", "scale=smoke", f"folder='{folder}'", "parts.main=[fno]"])
    assert league.folder == folder
    plan = Plan(league, {"fno": 80.0})
    (job, *_) = plan.known_jobs()
    config = configure(plan.words(job))
    assert (Path(config.run), Path(config.data.path)) == (job.folder, folder / "data")
    agree(league)
    moved = folder.rename(tmp_path / "moved")
    agree(read(["allen_cahn", "scale=smoke", f"folder={moved}", "parts.main=[fno]"]))  # where it lies is no setting
