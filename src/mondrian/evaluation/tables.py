"""Results as text: an aligned table, and CSV in long form with one number and its interval in each row."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence

from mondrian.evaluation.entries import FieldErrors, OneStep, Trajectories
from mondrian.evaluation.statistics import Summary
from mondrian.support.text import aligned

COLUMNS = ("kind", "points", "time", "metric", "mean", "low", "high", "count")
TITLES = {
    "mae": "mean absolute error",
    "mse": "mean square error",
    "relative_l2": "relative L2 error",
    "maximum": "maximum error",
    "interface": "error at interfaces",
}
ONE_STEP = ("points", "", "model", "95 % interval", "persistence", "ratio", "training mean", "ratio")
ROLLOUT = ("rollout", "simulations", "from", "to", "relative L2", "95 % interval", "at the end", "correlated until")
_NONE: Mapping[str, Summary] = {}


def csv_text(one_step: Sequence[OneStep], rollout: Sequence[Trajectories]) -> str:
    """All numbers as CSV; undefined ones are `nan`, and `mae[p]` is the error of the field p."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    for kind, points, time, metric, value in _rows(one_step, rollout):
        writer.writerow((kind, points, time, metric, value.mean, value.low, value.high, value.count))
    return buffer.getvalue()


def table_text(one_step: Sequence[OneStep], rollout: Sequence[Trajectories]) -> str:
    """An aligned table. A ratio is the baseline's error divided by the model's: above 1 the model is better."""
    rows: list[tuple[str, ...]] = [ONE_STEP]
    for entry in one_step:
        for metric in entry.model:
            points = label(entry) if metric == next(iter(entry.model)) else ""
            rows.append((points, TITLES.get(metric, metric), *_with_baselines(entry, metric)))
            fields = (entry.by_field or {}).items()
            rows += [
                ("", f"  {name}", *_with_baselines(errors, metric)) for name, errors in fields if metric in errors.model
            ]
    text = aligned(rows, left=(0, 1))
    if rollout:
        text += "\n\n" + aligned([ROLLOUT, *map(_rollout_row, rollout)])
    return text


def size(points: Sequence[int]) -> str:
    """A resolution as text.

    >>> size((64, 32))
    '64x32'
    """
    return "x".join(map(str, points))


def label(entry: OneStep) -> str:
    """The resolution of an entry, after the part of the data set on meshes."""
    return f"{entry.part} {size(entry.points)}".strip()


def _rows(one_step: Sequence[OneStep], rollout: Sequence[Trajectories]) -> Iterator[tuple[str, str, str, str, Summary]]:
    for entry in one_step:
        points = label(entry)
        all_errors: dict[str, OneStep | FieldErrors] = {"": entry, **(entry.by_field or {})}
        for field, errors in all_errors.items():
            sides = {"one_step": errors.model, "persistence": errors.persistence, "training_mean": errors.training_mean}
            for kind, metrics in sides.items():
                for metric, value in (metrics or _NONE).items():
                    yield kind, points, "", f"{metric}[{field}]" if field else metric, value
        for band in entry.bands:
            yield "one_step", points, "", f"relative_error[{band.low:.4g};{band.high:.4g}]", band.relative_error
    for run in rollout:
        points, end = size(run.points), repr(run.times[-1])
        for metric in ("mae", "relative_l2", "correlation"):
            for time, value in zip(run.times, getattr(run, metric), strict=True):
                yield "rollout", points, repr(time), metric, value
        for metric in ("mean_relative_l2", "correlation_time"):
            yield "rollout", points, "", metric, getattr(run, metric)
        for band in run.bands:
            yield "rollout", points, end, f"relative_error[{band.low:.4g};{band.high:.4g}]", band.relative_error


def _rollout_row(entry: Trajectories) -> tuple[str, ...]:
    mean, diverged = entry.mean_relative_l2, f" ({entry.diverged} diverged)" if entry.diverged else ""
    return (
        size(entry.points),
        f"{entry.simulations}{diverged}",
        _short(entry.start),
        _short(entry.times[-1]),
        _short(mean.mean),
        _interval(mean),
        _short(entry.relative_l2[-1].mean),
        _short(entry.correlation_time.mean),
    )


def _with_baselines(errors: OneStep | FieldErrors, metric: str) -> tuple[str, ...]:
    """The model's error with its interval, and the error of each baseline with its ratio."""
    value = errors.model[metric]
    baselines = [(side or _NONE).get(metric) for side in (errors.persistence, errors.training_mean)]
    compared = [text for baseline in baselines for text in _compared(baseline, value)]
    return _short(value.mean), _interval(value), *compared


def _compared(baseline: Summary | None, model: Summary) -> tuple[str, str]:
    if baseline is None:
        return "-", "-"
    ratio = baseline.mean / model.mean if model.mean else math.inf if baseline.mean else math.nan
    return _short(baseline.mean), "-" if math.isnan(ratio) else f"{ratio:.2f}"


def _interval(value: Summary) -> str:
    return "-" if math.isnan(value.low) else f"{_short(value.low)} to {_short(value.high)}"


def _short(number: float) -> str:
    return "-" if math.isnan(number) else f"{number:.4g}"
