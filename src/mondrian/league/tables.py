"""The table of a league: Markdown for people, CSV for spreadsheets, JSON with the settings that made it."""

from __future__ import annotations

import csv
import io
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from mondrian.league.plan import Plan
from mondrian.league.results import Row
from mondrian.league.settings import SAMPLES, TIME
from mondrian.training.record import versions

TITLES = {SAMPLES: "The same samples", TIME: "The same time"}
COLUMNS = (
    "budget", "name", "parameters", "samples_per_second", "learning_rate", "samples", "score", "mean", "deviation",
    "seeds",
)  # fmt: skip
Rows = Mapping[str, Sequence[Row]]


def markdown(plan: Plan, rows: Rows, figures: Sequence[str]) -> str:
    """A page with a table for each budget."""
    league, budgets = plan.league, plan.league.budgets
    parts = [f"# {league.problem}: {league.part} league at scale {league.scale}\n"]
    rates = ", ".join(f"{rate:g}" for rate in budgets.rates)
    parts.append(
        f"Batches of {league.batch_size}; learning rates {rates} tried by each on {budgets.tuning_samples:,} samples, "
        f"the best by validation loss kept. Speed: training samples a second on {league.threads} "
        f"thread{'s' if league.threads > 1 else ''}, all entrants in turn. Made by `{command(plan)}` on {machine()}.\n"
    )
    for budget, found in rows.items():
        amount = f"{budgets.samples:,} samples" if budget == SAMPLES else f"{budgets.minutes:g} minutes of training"
        parts.append(f"## {TITLES[budget]}: {amount}\n\n{_table(plan, found)}\n")
    waiting = sorted({e.name for e in league.everyone} - {row.entrant.name for found in rows.values() for row in found})
    if waiting:
        parts.append(f"Not there yet: {', '.join(waiting)}.\n")
    parts += [f"![{name}]({name}.png)\n" for name in figures]
    return "\n".join(parts)


def _table(plan: Plan, rows: Sequence[Row]) -> str:
    """Absolute errors at every resolution, the others at that of training; all of them are in the CSV."""
    everything = dict.fromkeys(name for row in rows for name in row.scores)
    trained = "x".join(map(str, plan.league.config.points))
    names = [name for name in everything if "mae " in name or name.endswith(f" {trained}")]
    head = ["place", "model", "parameters", "samples/s", "lr", "samples", "minutes", *names]
    body = [
        [
            str(place),
            row.entrant.label,
            f"{row.parameters:,}",
            f"{row.speed:.1f}",
            f"{row.rate:g}",
            f"{row.samples:,}",
            f"{row.minutes:.1f}",
            *(str(row.scores[name]) if name in row.scores else "" for name in names),
        ]
        for place, row in enumerate(rows, 1)
    ]
    widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
    rule = [("-" * width) if column == 1 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    lines = [" | ".join(_aligned(line, widths)) for line in [head, *body]]
    return "\n".join(f"| {line} |" for line in [lines[0], " | ".join(rule), *lines[1:]])


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Numbers to the right, the label of the model to the left."""
    pairs = enumerate(zip(cells, widths, strict=True))
    return [cell.ljust(width) if column == 1 else cell.rjust(width) for column, (cell, width) in pairs]


def csv_text(rows: Rows) -> str:
    """One line for each entrant, budget and score."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for budget, found in rows.items():
        for row in found:
            facts = [budget, row.entrant.name, row.parameters, f"{row.speed:.4g}", f"{row.rate:g}", row.samples]
            for name, score in row.scores.items():
                deviation = "" if score.deviation is None else f"{score.deviation:.6g}"
                writer.writerow([*facts, name, f"{score.mean:.6g}", deviation, score.seeds])
    return text.getvalue()


def facts(plan: Plan, rows: Rows) -> dict[str, Any]:
    """Everything, with what made it: the content of `results.json`."""
    return {
        "problem": plan.league.problem,
        "part": plan.league.part,
        "scale": plan.league.scale,
        "command": command(plan),
        "settings": OmegaConf.to_container(plan.league.config, resolve=True),
        "versions": versions(),
        "machine": machine(),
        "rows": [row.to_json() for found in rows.values() for row in found],
    }


def command(plan: Plan) -> str:
    """What was typed, without what has its default value."""
    league = plan.league
    words = ["mondrian league", league.problem, f"scale={league.scale}"]
    return " ".join([*words, *([] if league.part == "main" else [f"part={league.part}"]), *league.overrides])


def machine() -> str:
    """The processor, its cores for us, and memory."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{(names or [platform.machine()])[0]}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB"
