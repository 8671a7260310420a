"""The sections about several runs: one table for each data set, and curves in common pictures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from mondrian.drawing.style import Picture, colours
from mondrian.evaluation import Evaluation, Trajectories
from mondrian.evaluation.statistics import Summary
from mondrian.report.chapters import AGAINST_TIME, Section
from mondrian.report.curves import best, draw_histories
from mondrian.report.errors import Errors, draw_errors, of_one_run
from mondrian.report.resolutions import size
from mondrian.report.rollouts import draw_rollouts
from mondrian.report.summary import learnt, parameters, part_of, tested
from mondrian.report.tables import Column, comparison_columns, comparison_table, diverged
from mondrian.training.run import Run

Member = tuple[str, Run, Evaluation | None]  # a run under the name that it has in the page


def of_runs(names: Sequence[str], runs: Sequence[Run], evaluations: Sequence[Evaluation | None]) -> list[Section]:
    """Tables and common pictures of several runs.

    Only those are compared that learnt the same from the same data, and were evaluated on the same part of it.
    """
    groups = _comparable(list(zip(names, runs, evaluations, strict=True)))
    if len(groups) == 1:
        return _of_group(*groups.values(), title="", prefix="")
    sections, several = [], Counter(data for data, _ in groups)
    for number, ((data, _), members) in enumerate(groups.items(), start=1):
        part = f", {_tested(members)}" if several[data] > 1 else ""
        sections += _of_group(members, title=f" {number}: {data or 'unknown data'}{part}", prefix=f"{number}-")
    return sections


def _comparable(members: Sequence[Member]) -> dict[tuple[str, object], list[Member]]:
    """Runs by what they learnt and where they were evaluated; one without an evaluation stands beside the first."""
    first: dict[str, object] = {}
    for _, run, evaluation in members:
        if evaluation:
            first.setdefault(learnt(run), part_of(evaluation))
    groups: dict[tuple[str, object], list[Member]] = {}
    for member in members:
        _, run, evaluation = member
        part = part_of(evaluation) if evaluation else first.get(learnt(run))
        groups.setdefault((learnt(run), part), []).append(member)
    return groups


def _tested(members: Sequence[Member]) -> str:
    """What the errors of a group are means over; nothing where there are none."""
    return next((tested(run, evaluation) for _, run, evaluation in members if evaluation), "")


def _of_group(members: Sequence[Member], *, title: str, prefix: str) -> list[Section]:
    """A table of runs that can be compared, and their curves in common pictures."""
    names, runs, evaluations = zip(*members, strict=True)
    known = {name: evaluation for name, evaluation in zip(names, evaluations, strict=True) if evaluation}
    series: dict[str, Errors] = {name: {} for name in names}
    series |= {name: of_one_run(evaluation)["model"] for name, evaluation in known.items()}
    rollouts = {name: {entry.points: entry for entry in evaluation.rollout} for name, evaluation in known.items()}
    columns = [*_about(runs), *comparison_columns(series), *_rollout_columns(names, rollouts)]
    table = comparison_table(names, [column for column in columns if any(column.values)])
    means = f"Means over {_tested(members)} with bootstrap intervals"
    note = f"{means}; the best of a column in bold." if known else "The best of a column in bold."
    without = [str(run.folder) for run, evaluation in zip(runs, evaluations, strict=True) if evaluation is None]
    if without:
        note += f" Without an evaluation: {', '.join(without)}; `mondrian evaluate RUN` adds it."
    pictures, palette = [], colours(series)
    histories = {name: run.history() for name, run in zip(names, runs, strict=True)}
    if any(histories.values()):
        caption = "Loss on the validation data, and fainter on the training data."
        figure = draw_histories(histories)
        pictures.append(Picture.of(figure, name=f"{prefix}losses", label="Validation loss", caption=caption))
    if any(series.values()):
        figure = draw_errors({name: errors for name, errors in series.items() if errors}, palette)
        caption = f"{means}."
        pictures.append(Picture.of(figure, name=f"{prefix}errors", label="Error by resolution", caption=caption))
    for points in sorted({points for of_one in rollouts.values() for points in of_one}, key=math.prod):
        chosen = {name: of_one[points] for name, of_one in rollouts.items() if points in of_one}
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
    for points in sorted({points for of_one in rollouts.values() for points in of_one}, key=math.prod):
        entries = [rollouts.get(name, {}).get(points) for name in names]
        group = f"rollout at {size(points)}"
        errors, notes = [entry.mean_relative_l2 if entry else None for entry in entries], [*map(diverged, entries)]
        columns.append(Column(group, "relative L2", errors, notes=notes))
        times = [entry.correlation_time if entry else None for entry in entries]
        columns.append(Column(group, "correlation time", times, better="more"))
    return columns


def _exact(value: float | int | None) -> Summary | None:
    return None if value is None else Summary(float(value), float(value), float(value), count=1)
