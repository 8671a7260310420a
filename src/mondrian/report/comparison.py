"""The sections about several runs: a table for each data set, and their curves in common pictures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from mondrian.drawing.style import Picture, colours
from mondrian.evaluation import Evaluation, Trajectories
from mondrian.evaluation.statistics import Summary
from mondrian.report.chapters import AGAINST_TIME
from mondrian.report.curves import best, draw_histories
from mondrian.report.errors import Errors, draw_errors, of_one_run
from mondrian.report.resolutions import size
from mondrian.report.rollouts import draw_rollouts
from mondrian.report.section import Section
from mondrian.report.summary import evaluated_on, learned, parameters, part_of
from mondrian.report.tables import Column, comparison_columns, comparison_table, diverged
from mondrian.training.run import Run

Member = tuple[str, Run, Evaluation | None]  # a run, after its name in the page


def of_runs(names: Sequence[str], runs: Sequence[Run], evaluations: Sequence[Evaluation | None]) -> list[Section]:
    """Tables and common pictures of several runs.

    Runs are compared if they learned the same from the same data and were evaluated on the same part of it.
    """
    groups = _comparable(list(zip(names, runs, evaluations, strict=True)))
    if len(groups) == 1:
        return _of_group(*groups.values(), title="", prefix="")
    sections, several = [], Counter(data for data, _ in groups)
    for number, ((data, _), members) in enumerate(groups.items(), start=1):
        part = f", {_evaluated_on(members)}" if several[data] > 1 else ""
        sections += _of_group(members, title=f" {number}: {data or 'unknown data'}{part}", prefix=f"{number}-")
    return sections


def _comparable(members: Sequence[Member]) -> dict[tuple[str, object], list[Member]]:
    """Runs by what they learned and where they were evaluated; without an evaluation, in the first such group."""
    first: dict[str, object] = {}
    for _, run, evaluation in members:
        if evaluation:
            first.setdefault(learned(run), part_of(evaluation))
    groups: dict[tuple[str, object], list[Member]] = {}
    for member in members:
        _, run, evaluation = member
        part = part_of(evaluation) if evaluation else first.get(learned(run))
        groups.setdefault((learned(run), part), []).append(member)
    return groups


def _evaluated_on(members: Sequence[Member]) -> str:
    """The samples that the errors of a group are means over, if there are any."""
    return next((evaluated_on(run, evaluation) for _, run, evaluation in members if evaluation), "")


def _of_group(members: Sequence[Member], *, title: str, prefix: str) -> list[Section]:
    """A table of comparable runs, and their curves in common pictures."""
    names, runs, evaluations = zip(*members, strict=True)
    known = {name: evaluation for name, evaluation in zip(names, evaluations, strict=True) if evaluation}
    series: dict[str, Errors] = {name: {} for name in names}
    series |= {name: of_one_run(evaluation)["model"] for name, evaluation in known.items()}
    rollouts = {name: {entry.points: entry for entry in evaluation.rollout} for name, evaluation in known.items()}
    columns = [*_about(runs), *comparison_columns(series), *_rollout_columns(names, rollouts)]
    table = comparison_table(names, [column for column in columns if any(column.values)])
    means = f"Means over {_evaluated_on(members)} with bootstrap intervals"
    note = f"{means}. The best of each column is bold." if known else "The best of each column is bold."
    without = [str(run.folder) for run, evaluation in zip(runs, evaluations, strict=True) if evaluation is None]
    if without:
        note += f" Not evaluated yet: {', '.join(without)}; `mondrian evaluate RUN` adds it."
    pictures, palette = [], colours(series)
    histories = {name: run.history() for name, run in zip(names, runs, strict=True)}
    if any(histories.values()):
        caption = "Validation loss; fainter, the training loss."
        figure = draw_histories(histories)
        pictures.append(Picture.of(figure, name=f"{prefix}losses", label="Validation loss", caption=caption))
    if any(series.values()):
        figure = draw_errors({name: errors for name, errors in series.items() if errors}, palette)
        caption = f"{means}."
        pictures.append(Picture.of(figure, name=f"{prefix}errors", label="Error by resolution", caption=caption))
    for points in sorted({points for entries in rollouts.values() for points in entries}, key=math.prod):
        chosen = {name: entries[points] for name, entries in rollouts.items() if points in entries}
        figure = draw_rollouts(chosen, palette)
        name, label = f"{prefix}rollouts-{'x'.join(map(str, points))}", f"Rollouts at {size(points)}"
        pictures.append(Picture.of(figure, name=name, label=label, caption=f"{label}: {AGAINST_TIME}"))
    return [Section(f"Runs{title}", note, table), Section(f"Side by side{title}", pictures=tuple(pictures))]


def _about(runs: Sequence[Run]) -> list[Column]:
    sizes = [parameters(run) for run in runs]
    losses = [best(run.history()) for run in runs]
    return [
        Column("model", "parameters", [_exact(count) for count in sizes], better="neither"),
        Column("training", "best validation loss", [_exact(least[1] if least else None) for least in losses]),
    ]


def _rollout_columns(
    names: Sequence[str], rollouts: Mapping[str, Mapping[tuple[int, ...], Trajectories]]
) -> list[Column]:
    columns = []
    for points in sorted({points for entries in rollouts.values() for points in entries}, key=math.prod):
        entries = [rollouts.get(name, {}).get(points) for name in names]
        group = f"rollout at {size(points)}"
        errors, notes = [entry.mean_relative_l2 if entry else None for entry in entries], [*map(diverged, entries)]
        columns.append(Column(group, "relative L2", errors, notes=notes))
        times = [entry.correlation_time if entry else None for entry in entries]
        columns.append(Column(group, "correlation time", times, better="more"))
    return columns


def _exact(value: float | int | None) -> Summary | None:
    return None if value is None else Summary(float(value), float(value), float(value), count=1)
