"""Everything that a league shows: one table in three formats, and figures."""

from __future__ import annotations

from pathlib import Path

from mondrian.league.figures import pictures
from mondrian.league.plan import Plan
from mondrian.league.results import collect
from mondrian.league.tables import csv_text, facts, markdown
from mondrian.support.files import write_atomically, write_json


def publish(plan: Plan) -> list[Path]:
    """Write `results.md`, `.csv` and `.json` and the figures of a part; returns the files."""
    rows = collect(plan)
    folder = plan.league.runs
    drawn = pictures(plan, rows) if rows else {}
    content = {
        folder / "results.md": markdown(plan, rows, list(drawn)).encode(),
        folder / "results.csv": csv_text(rows).encode(),
        **{folder / f"{name}.png": png for name, png in drawn.items()},
    }
    for path, data in content.items():
        write_atomically(path, data)
    write_json(folder / "results.json", facts(plan, rows))
    return [*content, folder / "results.json"]
