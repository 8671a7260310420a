"""Results of a league as pages: `results.json` first, then tables and figures from nothing else."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from PIL import Image

from mondrian.drawing.style import png_of
from mondrian.evaluation.arrays import Fields
from mondrian.evaluation.results import FIELDS
from mondrian.league.evaluations import EvaluationSummary
from mondrian.league.field_panels import FieldPanels, draw_panels, last_frame_panels, one_step_panels
from mondrian.league.figures import drawings
from mondrian.league.plan import LeaguePlan
from mondrian.league.results import collect
from mondrian.league.results_files import FILE, LeagueResults
from mondrian.league.speeds import FILE as SPEEDS
from mondrian.league.tables import csv_text, markdown
from mondrian.support.files import write_atomically, write_json
from mondrian.training.run import Run

DPI, COLOURS = 84, 80  # of figures: legible on a page, and small
PANELS = {"fields": one_step_panels, "rollout_fields": last_frame_panels}


def publish(plan: LeaguePlan, published: LeagueResults | None = None) -> list[Path]:
    """Write the results of a part to its folder and, with `publish=DIR`, what is kept of them to `DIR`.

    Trainings of which the folder has nothing are taken from `published` results.
    """
    league = plan.league
    results = gathered(plan, published)
    results.save(league.runs)
    drawn = _figures(LeagueResults.load(league.runs))
    files = draw(league.runs, drawn)
    if league.published is not None:
        target = league.published / league.part
        names = {f"{name}_{league.last_budget}" for name in PANELS}
        kept = {name: panels for name, panels in results.panels.items() if name in names}
        replace(results, panels=kept, drawn=(league.last_budget,)).save(target)
        write_json(league.published / SPEEDS, dict(plan.speeds))
        pictures = {name: png for name, png in drawn.items() if name.endswith(f"_{league.last_budget}")}
        files = [*draw(target, pictures), league.published / SPEEDS]
    return files


def gathered(plan: LeaguePlan, published: LeagueResults | None = None) -> LeagueResults:
    """What the folders of the trainings hold, and for those without a folder what is published."""
    former = {} if published is None else published.evaluations
    everyone = [entrant for entrant in plan.league.everyone if entrant.name in plan.speeds]
    firsts = [job for entrant in everyone for job in plan.shown(entrant).values()]
    evaluations = {}
    for job in (plan.again(first, seed) for first in firsts for seed in range(plan.league.budgets.seeds)):
        outcome = plan.snapshot.outcome(job)
        if outcome is not None and outcome.done:
            stored = job.run.evaluation.exists() or job.key not in former
            evaluations[job.key] = EvaluationSummary.of(job.run, outcome.points) if stored else former[job.key]
    panels = {}
    for budget, rows in collect(plan, evaluations).items():
        fields = {row.entrant.name: fields for row in rows if (fields := _fields(row.jobs[0].run)) is not None}
        for name, choose in PANELS.items():
            figure = f"{name}_{budget}"
            known = None if published is None else published.panels.get(figure)
            if (shown := _merged(choose(rows, fields), known)) is not None:
                panels[figure] = shown
    return LeagueResults(plan, evaluations, panels, drawn=tuple(plan.league.amounts))


def draw(folder: Path, drawn: Mapping[str, bytes] | None = None) -> list[Path]:
    """Write `results.md`, `results.csv` and figures from the `results.json` and `fields.npz` of a folder.

    Figures that have been `drawn` are not drawn again.
    """
    results = LeagueResults.load(folder)
    rows = results.rows()
    drawn = _figures(results) if drawn is None else drawn
    content = {
        folder / "results.md": markdown(results.plan, rows, list(drawn)).encode(),
        folder / "results.csv": csv_text(rows).encode(),
        **{folder / f"{name}.png": png for name, png in drawn.items()},
    }
    for path, data in content.items():
        write_atomically(path, data)
    return [*content, folder / FILE]


def redraw(folder: Path) -> list[Path]:
    """The same for a part, or for all parts of a league below `folder`."""
    parts = [folder] if (folder / FILE).exists() else sorted(file.parent for file in folder.rglob(FILE))
    if not parts:
        raise ValueError(f"show={folder} holds no {FILE}; needed a folder that `mondrian league` published")
    return [file for part in parts for file in draw(part)]


def compressed(png: bytes) -> bytes:
    """The same picture in few colours."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    small = io.BytesIO()
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
    return small.getvalue()


def _figures(results: LeagueResults) -> dict[str, bytes]:
    """All figures, named by what they show and the budget."""
    league, rows = results.plan.league, results.rows()
    pictures = {}
    for budget in results.drawn:
        if budget not in rows:
            continue
        figures = {name: draw(rows[budget]) for name, draw in drawings(league.everyone).items()}
        for name in PANELS:
            if (panels := results.panels.get(f"{name}_{budget}")) is not None:
                figures[name] = draw_panels(rows[budget], panels)
        for name, figure in figures.items():
            if figure is not None:
                figure.suptitle(f"{league.title}. {league.amounts[budget]}", x=0.01, ha="left", fontsize=10)
                pictures[f"{name}_{budget}"] = compressed(png_of(figure, dpi=DPI))
    return pictures


def _fields(run: Run) -> Fields | None:
    file = run.evaluation / FIELDS
    return Fields.load(file) if file.exists() else None


def _merged(panels: FieldPanels | None, known: FieldPanels | None) -> FieldPanels | None:
    """With the panels of published results, where these are of the same field."""
    if panels is None or known is None or (panels.points, panels.time) != (known.points, known.time):
        return panels or known
    return replace(panels, panels={**known.panels, **panels.panels})
