"""The tables of the page; this module escapes every text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from mondrian.evaluation import Evaluation, FieldErrors, OneStep, Trajectories
from mondrian.evaluation.statistics import Summary
from mondrian.evaluation.tables import TITLES
from mondrian.report.errors import BASELINES, Errors, metric_names
from mondrian.report.resolutions import in_order, name_of
from mondrian.report.summary import number

_SHORT = {"mae": "MAE", "mse": "MSE", "relative_l2": "relative L2", "maximum": "maximum", "interface": "interface"}


@dataclass(frozen=True)
class Column:
    """One column of a comparison: a value for each run, or `None`."""

    group: str
    title: str
    values: Sequence[Summary | None]
    better: Literal["less", "more", "neither"] = "less"
    notes: Sequence[str] = ()  # a line below each value

    def best(self) -> float:
        """The best mean; NaN if there is none."""
        known = [value.mean for value in self.values if value and math.isfinite(value.mean)]
        if not known or self.better == "neither":
            return math.nan
        return min(known) if self.better == "less" else max(known)


def errors_table(evaluation: Evaluation) -> str:
    """Errors of one run, a row for each resolution; the last column compares with the better baseline."""
    return _compared({name_of(entry.resolution): entry for entry in evaluation.one_step}, of="points")


def fields_table(evaluation: Evaluation) -> str:
    """The errors of each field; empty if there is only one field."""
    rows = {
        f"{name_of(entry.resolution)}, {field}": errors
        for entry in evaluation.one_step
        for field, errors in (entry.by_field or {}).items()
    }
    return _compared(rows, of="points, field") if rows else ""


def _compared(entries: Mapping[str, OneStep | FieldErrors], *, of: str) -> str:
    baselines = {title: key for key, (title, _) in BASELINES.items() if any(getattr(e, key) for e in entries.values())}
    names = metric_names(entry.model for entry in entries.values())
    titles = [_SHORT.get(name, name) for name in names]
    titles += [f"MAE, {title}" for title in baselines] + (["baseline / model"] if baselines else [])
    rows = []
    for label, entry in entries.items():
        cells = [_cell(entry.model.get(name)) for name in names]
        errors = [(getattr(entry, key) or {}).get("mae") for key in baselines.values()]
        cells += [_cell(error) for error in errors]
        known = [error.mean for error in errors if error]
        if baselines:
            cells.append(f'<td class="strong">{number(_ratio(known, entry.model.get("mae")))}</td>')
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{"".join(cells)}</tr>')
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in [of, *titles])
    return _wrapped(f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>")


def comparison_table(names: Sequence[str], columns: Sequence[Column], *, of: str = "run") -> str:
    """A row for each name, with the best of each column in bold; a click on a heading sorts the rows."""
    groups: dict[str, int] = {}
    for column in columns:
        groups[column.group] = groups.get(column.group, 0) + 1
    above = "".join(f'<th colspan="{count}" scope="colgroup">{escape(group)}</th>' for group, count in groups.items())
    titles = [of, *(column.title for column in columns)]
    below = "".join(f'<th scope="col"><button type="button">{escape(title)}</button></th>' for title in titles)
    rows = []
    for row, name in enumerate(names):
        cells = "".join(
            _cell(column.values[row], best=column.best(), note=column.notes[row] if column.notes else "")
            for column in columns
        )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    first = f"<tr><th></th>{above}</tr>" if any(groups) else ""
    head = f"<thead>{first}<tr>{below}</tr></thead>"
    return _wrapped(f"{head}<tbody>{''.join(rows)}</tbody>", kind="sortable")


def comparison_columns(series: Mapping[str, Errors]) -> list[Column]:
    """A column for each metric at each resolution that occurs."""
    resolutions = in_order(resolution for errors in series.values() for resolution in errors)
    columns = []
    for name in metric_names(row for errors in series.values() for row in errors.values()):
        for resolution in resolutions:
            values = [errors.get(resolution, {}).get(name) for errors in series.values()]
            if any(values):
                columns.append(Column(TITLES.get(name, name), name_of(resolution), values))
    return columns


def diverged(entry: Trajectories | None) -> str:
    """The number of diverged simulations of a rollout; empty if all stayed finite."""
    return f"{entry.diverged:,} of {entry.simulations:,} diverged" if entry and entry.diverged else ""


def pairs_table(pairs: Mapping[str, str]) -> str:
    """Names and values."""
    rows = (
        f'<tr><th scope="row">{escape(name)}</th><td class="text">{escape(value)}</td></tr>'
        for name, value in pairs.items()
    )
    return _wrapped(f"<tbody>{''.join(rows)}</tbody>", kind="pairs")


def _cell(value: Summary | None, *, best: float = math.nan, note: str = "") -> str:
    below = f"<small>{escape(note)}</small>" if note else ""
    if value is None or math.isnan(value.mean):
        return f"<td>–{below}</td>"
    text = number(value.mean)
    text = f"<b>{text}</b>" if value.mean == best else text
    spread = math.isfinite(value.low) and value.low != value.high
    interval = f"<small>{number(value.low)} – {number(value.high)}</small>" if spread else ""
    # The script sorts cells without a value as the largest.
    sort_key = f' data-value="{value.mean!r}"' if math.isfinite(value.mean) else ""
    return f"<td{sort_key}>{text}{interval}{below}</td>"


def _ratio(baselines: Sequence[float], model: Summary | None) -> float:
    if not baselines or model is None or not model.mean > 0:
        return math.nan
    return min(baselines) / model.mean


def _wrapped(content: str, *, kind: str = "") -> str:
    return f'<div class="wide"><table class="{kind}">{content}</table></div>'
