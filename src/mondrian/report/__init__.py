"""A report of training runs: one self-contained HTML file, and its pictures as PNG beside it.

It only reads files (`run.json`, `history.csv`, `evaluation/`): no model, no data set, no training code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mondrian.evaluation import Evaluation
from mondrian.evaluation.results import METRICS
from mondrian.report.chapters import of_run
from mondrian.report.comparison import of_runs
from mondrian.report.page import Chapter, page
from mondrian.report.summary import labels, settings, slug, summary
from mondrian.support.files import write_atomically
from mondrian.training.run import Run

__all__ = ["write_report"]


def write_report(runs: Sequence[Run], file: Path) -> list[Path]:
    """Write `file`, and the pictures as PNG to the folder of the same name; returns all files, the page first."""
    if not runs:
        raise ValueError("no run is given; needed the folder of at least one, such as `mondrian train` writes")
    if file.suffix != ".html":
        raise ValueError(f"file={file} must end in .html: the pictures go to the folder of the same name without it")
    names = labels(runs)
    evaluations = [_evaluation(run) for run in runs]
    chapters = []
    for number, (name, run, evaluation) in enumerate(zip(names, runs, evaluations, strict=True), start=1):
        prefix = f"{number}-{slug(name)}-" if len(runs) > 1 else ""
        sections = of_run(run, evaluation, prefix=prefix)
        chapters.append(Chapter(name, summary(run, evaluation), sections, settings(run)))
    common = of_runs(names, runs, evaluations) if len(runs) > 1 else []
    content = {file: page(chapters, common).encode()}
    for section in [*common, *(section for chapter in chapters for section in chapter.sections)]:
        content |= {file.with_suffix("") / f"{picture.name}.png": picture.png for picture in section.pictures}
    for path, data in content.items():
        write_atomically(path, data)
    return list(content)


def _evaluation(run: Run) -> Evaluation | None:
    return Evaluation.load(run.evaluation) if (run.evaluation / METRICS).exists() else None
