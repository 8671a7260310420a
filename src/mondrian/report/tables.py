"""Tables of the page; every text is escaped here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from mondrian.evaluation import Evaluation
from mondrian.evaluation.tables import TITLES
from mondrian.report.errors import Errors, metric_names, of_one_run
from mondrian.report.places import in_order, name_of
from mondrian.report.summary import number
from mondrian.statistics import Summary

_SHORT = {"mae": "MAE", "mse": "MSE", "relative_l2": "relative L2", "maximum": "maximum", "interface": "interface"}


@dataclass(frozen=True)
class Column:
    """One column of a comparison: a value for each run, `None` where it has none."""

    group: str
    title: str
    values: Sequence[Summary | None]
    better: Literal["less", "more", "neither"] = "less"

    def best(self) -> float:
        """The best mean; NaN where there is none."""
        known = [value.mean for value in self.values if value and math.isfinite(value.mean)]
        if not known or self.better == "neither":
            return math.nan
        return min(known) if self.better == "less" else max(known)


def errors_table(evaluation: Evaluation) -> str:
    """Errors of one run, a row for each resolution; the last column compares with the better simple forecast."""
    series = of_one_run(evaluation)
    references = {title: errors for title, errors in series.items() if title != "model"}
    names = metric_names({"model": series["model"]})
    titles = [_SHORT.get(name, name) for name in names]
    titles += [f"MAE, {title}" for title in references] + (["times better"] if references else [])
    rows = []
    for place, row in series["model"].items():
        cells = [_cell(row.get(name)) for name in names]
        others = [errors.get(place, {}).get("mae") for errors in references.values()]
        cells += [_cell(other) for other in others]
        known = [other.mean for other in others if other]
        if references:
            cells.append(f'<td class="strong">{number(_ratio(known, row.get("mae")))}</td>')
        rows.append(f'<tr><th scope="row">{escape(name_of(place))}</th>{"".join(cells)}</tr>')
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in ["points", *titles])
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
        cells = "".join(_cell(column.values[place], best=column.best()) for column in columns)
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    first = f"<tr><th></th>{above}</tr>" if any(groups) else ""
    head = f"<thead>{first}<tr>{below}</tr></thead>"
    return _wrapped(f"{head}<tbody>{''.join(rows)}</tbody>", kind="sortable")


def comparison_columns(series: Mapping[str, Errors]) -> list[Column]:
    """A column for each metric at each resolution that occurs."""
    resolutions = in_order(place for errors in series.values() for place in errors)
    return [
        Column(TITLES.get(name, name), name_of(place), [row.get(place, {}).get(name) for row in series.values()])
        for name in metric_names(series)
        for place in resolutions
        if any(name in row.get(place, {}) for row in series.values())
    ]


def pairs_table(pairs: Mapping[str, str]) -> str:
    """Names and values."""
    rows = (
        f'<tr><th scope="row">{escape(name)}</th><td class="text">{escape(value)}</td></tr>'
        for name, value in pairs.items()
    )
    return _wrapped(f"<tbody>{''.join(rows)}</tbody>", kind="pairs")


def _cell(value: Summary | None, *, best: float = math.nan) -> str:
    if value is None or not math.isfinite(value.mean):
        return "<td>–</td>"
    text = number(value.mean)
    text = f"<b>{text}</b>" if value.mean == best else text
    spread = math.isfinite(value.low) and value.low != value.high
    interval = f"<small>{number(value.low)} – {number(value.high)}</small>" if spread else ""
    return f'<td data-value="{value.mean!r}">{text}{interval}</td>'


def _ratio(others: Sequence[float], own: Summary | None) -> float:
    if not others or own is None or not own.mean > 0:
        return math.nan
    return min(others) / own.mean


def _wrapped(content: str, *, kind: str = "") -> str:
    return f'<div class="wide"><table class="{kind}">{content}</table></div>'
