"""Tables of the page; every text is escaped here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from mondrian.evaluation import Evaluation, FieldErrors, OneStep, Trajectories
from mondrian.evaluation.statistics import Summary
from mondrian.evaluation.tables import TITLES
from mondrian.report.errors import REFERENCES, Errors, metric_names
from mondrian.report.resolutions import in_order, name_of
from mondrian.report.summary import number

_SHORT = {"mae": "MAE", "mse": "MSE", "relative_l2": "relative L2", "maximum": "maximum", "interface": "interface"}


@dataclass(frozen=True)
class Column:
    """One column of a comparison: a value for each run, `None` where it has none."""

    group: str
    title: str
    values: Sequence[Summary | None]
    better: Literal["less", "more", "neither"] = "less"
    notes: Sequence[str] = ()  # a line below each value

    def best(self) -> float:
        """The best mean; NaN where there is none."""
        known = [value.mean for value in self.values if value and math.isfinite(value.mean)]
        if not known or self.better == "neither":
            return math.nan
        return min(known) if self.better == "less" else max(known)


def errors_table(evaluation: Evaluation) -> str:
    """Errors of one run, a row for each resolution; the last column compares with the better simple forecast."""
    return _compared({name_of(entry.resolution): entry for entry in evaluation.one_step}, of="points")


def fields_table(evaluation: Evaluation) -> str:
    """The same of each field; nothing where there is only one."""
    rows = {
        f"{name_of(entry.resolution)}, {field}": errors
        for entry in evaluation.one_step
        for field, errors in (entry.by_field or {}).items()
    }
    return _compared(rows, of="points, field") if rows else ""


def _compared(entries: Mapping[str, OneStep | FieldErrors], *, of: str) -> str:
    there = {title: side for side, (title, _) in REFERENCES.items() if any(getattr(e, side) for e in entries.values())}
    names = metric_names(entry.model for entry in entries.values())
    titles = [_SHORT.get(name, name) for name in names]
    titles += [f"MAE, {title}" for title in there] + (["times better"] if there else [])
    rows = []
    for label, entry in entries.items():
        cells = [_cell(entry.model.get(name)) for name in names]
        others = [(getattr(entry, side) or {}).get("mae") for side in there.values()]
        cells += [_cell(other) for other in others]
        known = [other.mean for other in others if other]
        if there:
            cells.append(f'<td class="strong">{number(_ratio(known, entry.model.get("mae")))}</td>')
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{"".join(cells)}</tr>')
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in [of, *titles])
    return _wrapped(f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>")


def comparison_table(names: Sequence[str], columns: Sequence[Column], *, of: str = "run") -> str:
    """A row for each name, the best of each column in bold; a click on a heading sorts."""
    groups: dict[str, int] = {}
    for column in columns:
        groups[column.group] = groups.get(column.group, 0) + 1
    above = "".join(f'<th colspan="{count}" scope="colgroup">{escape(group)}</th>' for group, count in groups.items())
    titles = [of, *(column.title for column in columns)]
    below = "".join(f'<th scope="col"><button type="button">{escape(title)}</button></th>' for title in titles)
    rows = []
    for place, name in enumerate(names):
        cells = "".join(
            _cell(column.values[place], best=column.best(), note=column.notes[place] if column.notes else "")
            for column in columns
        )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    first = f"<tr><th></th>{above}</tr>" if any(groups) else ""
    head = f"<thead>{first}<tr>{below}</tr></thead>"
    return _wrapped(f"{head}<tbody>{''.join(rows)}</tbody>", kind="sortable")


def comparison_columns(series: Mapping[str, Errors]) -> list[Column]:
    """A column for each metric at each resolution that occurs."""
    resolutions = in_order(place for errors in series.values() for place in errors)
    return [
        Column(TITLES.get(name, name), name_of(place), [row.get(place, {}).get(name) for row in series.values()])
        for name in metric_names(row for errors in series.values() for row in errors.values())
        for place in resolutions
        if any(name in row.get(place, {}) for row in series.values())
    ]


def diverged(entry: Trajectories | None) -> str:
    """How many simulations of a rollout did not stay finite; nothing where all did."""
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
    size = f' data-value="{value.mean!r}"' if math.isfinite(value.mean) else ""  # without one, sorted as the largest
    return f"<td{size}>{text}{interval}{below}</td>"


def _ratio(others: Sequence[float], own: Summary | None) -> float:
    if not others or own is None or not own.mean > 0:
        return math.nan
    return min(others) / own.mean


def _wrapped(content: str, *, kind: str = "") -> str:
    return f'<div class="wide"><table class="{kind}">{content}</table></div>'
