"""The table of a league: Markdown for people, CSV for spreadsheets, JSON with the settings that made it."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from mondrian.evaluation.tables import size
from mondrian.league.plan import LeaguePlan
from mondrian.league.results import Row, diverged, hours, machines, packages, persistence, sources
from mondrian.league.spec import TIME
from mondrian.support.text import markdown_table

COLUMNS = (
    "budget", "name", "parameters", "samples_per_second", "measured_samples_per_second", "learning_rate", "samples",
    "final", "score", "mean", "deviation", "seeds", "first_low", "first_high",
)  # fmt: skip
EVERYWHERE = ("mae", "relative L2", "native mae")  # shown at every resolution
Rows = Mapping[str, Sequence[Row]]


def markdown(plan: LeaguePlan, rows: Rows, figures: Sequence[str]) -> str:
    """A page with a table for each budget, and what is not in it: trainings that diverged, and those still to come."""
    league, budgets = plan.league, plan.league.budgets
    failed = diverged(plan)
    parts = [f"# {league.title}, at scale {league.scale}\n", _conditions(plan)]
    for budget, amount in league.amounts.items():
        parts.append(f"## {amount}\n")
        if budget in rows:
            parts.append(f"{_table(plan, rows[budget])}\n")
        names = {row.entrant.name for row in rows.get(budget, ())}
        waiting = [name for name in _without(plan, budget) if name not in names]
        if waiting:
            seeds = " More seeds of the best follow when all are." if budgets.seeds > 1 and budget == TIME else ""
            parts.append(f"Not trained yet: {', '.join(waiting)}.{seeds}\n")
        if early := [row.entrant.name for row in rows.get(budget, ()) if not row.final]:
            parts.append(
                f"Shown with the best learning rate so far, others are still to be tried in full: {', '.join(early)}.\n"
            )
        if off := [text for row in rows.get(budget, ()) for text in _off_budget(plan, row)]:
            parts.append(f"Trained on other numbers of samples than the speeds of today give: {'; '.join(off)}.\n")
    if failed:
        parts.append("Diverged:\n")
        parts += [
            f"- {job.entrant.label}, {job.budget}, learning rate {job.rate:g}, seed {job.seed}: {message}"
            for job, message in failed.items()
        ]
        parts.append("")
    to_come = dict.fromkeys(job.entrant.name for job in plan.more_seeds() if not plan.snapshot.ended(job))
    if to_come:
        parts.append(f"Still to come: more seeds of {', '.join(to_come)}.\n")
    parts += [f"![{name}]({name}.png)\n" for name in figures]
    return "\n".join(parts)


def _without(plan: LeaguePlan, budget: str) -> list[str]:
    """Entrants whose training for a budget has not ended, or cannot be named yet."""
    jobs = {e.name: plan.trainings(e).get(budget) for e in plan.league.everyone if e.name in plan.speeds}
    ended = {name for name, job in jobs.items() if job is not None and plan.snapshot.ended(job)}
    return [entrant.name for entrant in plan.league.everyone if entrant.name not in ended]


def _off_budget(plan: LeaguePlan, row: Row) -> list[str]:
    """Trainings, by the speeds of another day, that saw a hundredth more or less than their budget has."""
    texts = []
    for job, outcome in zip(row.jobs, row.outcomes, strict=True):
        seen, wanted = int(outcome.samples[-1]), job.steps * plan.league.conditions.batch_size
        if abs(seen - wanted) > 0.01 * wanted:
            texts.append(f"{row.entrant.name} {seen:,} instead of {wanted:,} (seed {job.seed})")
    return texts


def _conditions(plan: LeaguePlan) -> str:
    """Data, tuning, machines and versions, a line each."""
    league = plan.league
    data = ", ".join(f"{count:,} for {split}" for split, count in league.conditions.simulations.items())
    code = ", ".join(f"{source} ({count})" for source, count in sources(plan).items())
    lines = [
        f"Simulations: {data}. Batches of {league.conditions.batch_size}.",
        *_tuning(plan),
        "Seeds start at 0; ± is the standard deviation over seeds.",
        f"samples/s: training samples a second, measured alone on {league.cores}; it turns minutes into samples.",
        "in training: the same by the clock in the training itself, while others ran.",
        f"Command: `{command(plan)}`.",
        f"Machines: {' and '.join(machines(plan)) or 'none yet'}.",
        f"Versions: {', '.join(packages(plan))}.",
        f"All trainings and validations, one after the other, took {hours(plan):.1f} hours.",
        f"Digests of the source, and how many trainings each made: {code}.",
    ]
    return "\n".join(f"- {line}" for line in lines) + "\n"


def _tuning(plan: LeaguePlan) -> list[str]:
    budgets = plan.league.budgets
    rates = ", ".join(f"{rate:g}" for rate in budgets.rates)
    if len(budgets.rates) <= budgets.finalists:
        if len(budgets.rates) == 1:
            return [f"Learning rate: {rates}."]
        return [
            f"Learning rates: {rates}, each tried on {budgets.samples:,} samples; the best by validation loss is kept."
        ]
    wider = f" Up to {budgets.wider} more beyond an end of the list, where the best was there." if budgets.wider else ""
    finalists = (
        f"The best {budgets.finalists} of them train on {budgets.samples:,} samples"
        if budgets.finalists > 1
        else "The best of them is kept"
    )
    kept = "; the best by validation loss is kept" if budgets.finalists > 1 else ", by validation loss"
    return [
        f"Learning rates: {rates}, each tried on {budgets.tuning_samples:,} samples.{wider}",
        f"{finalists}{kept}. An arrow marks the end of the rates that were tried.",
    ]


def _table(plan: LeaguePlan, rows: Sequence[Row]) -> str:
    """Errors at every resolution, rollouts at that of training; everything is in the CSV."""
    everything = dict.fromkeys(name for row in rows for name in row.scores)
    trained = size(rows[0].first.points)
    shown = [f"{kind} {trained}" for kind in ("rollout", "correlation time")]
    names = [name for name in everything if name.rpartition(" ")[0] in EVERYWHERE or name in shown]
    head = ["place", "model", "parameters", "samples/s", "in training", "lr", "samples", "minutes", "seeds", *names]
    body = [
        [
            str(number),
            row.entrant.label,
            f"{row.first.parameters:,}",
            f"{row.speed:.1f}",
            f"{row.first.samples_per_second:.1f}",
            f"{row.rate:g}{_end_of(plan, row)}",
            f"{row.samples:,}",
            f"{row.minutes:.1f}",
            str(len(row.jobs)),
            *(str(row.scores[name]) if name in row.scores else "" for name in names),
        ]
        for number, row in enumerate(rows, 1)
    ]
    still = persistence(rows[0])
    body.append(["", "persistence baseline", *[""] * 7, *(str(still.get(name, "")) for name in names)])
    return markdown_table(head, body, left=(1,))


def _end_of(plan: LeaguePlan, row: Row) -> str:
    """An arrow where the best learning rate was the first or the last of those that were tried."""
    rates = [job.rate for job in plan.tuning(row.entrant)]
    return {rates[0]: " ↓", rates[-1]: " ↑"}.get(row.rate, "") if rates else ""


def csv_text(rows: Rows) -> str:
    """One line for each entrant, budget and score."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for budget, ranked in rows.items():
        for row in ranked:
            speeds = (f"{speed:.4g}" for speed in (row.speed, row.first.samples_per_second))
            facts = [budget, row.entrant.name, row.first.parameters, *speeds, f"{row.rate:g}", row.samples, row.final]
            for name, score in row.scores.items():
                deviation = "" if score.deviation is None else f"{score.deviation:.6g}"
                interval = (f"{bound:.6g}" for bound in (score.first_low, score.first_high))
                writer.writerow([*facts, name, f"{score.mean:.6g}", deviation, score.seeds, *interval])
    return text.getvalue()


def facts(plan: LeaguePlan, rows: Rows) -> dict[str, Any]:
    """Everything that the tables show, with its settings, versions and machines."""
    return {
        "problem": plan.league.problem,
        "part": plan.league.part,
        "scale": plan.league.scale,
        "command": command(plan),
        "settings": plan.league.to_json(),
        "machines": machines(plan),
        "sources": sources(plan),
        "hours": hours(plan),
        "rows": [row.to_json() for ranked in rows.values() for row in ranked],
        "diverged": [
            {
                "name": job.entrant.name,
                "budget": job.budget,
                "learning_rate": job.rate,
                "seed": job.seed,
                "why": message,
            }
            for job, message in diverged(plan).items()
        ],
    }


def command(plan: LeaguePlan) -> str:
    """What was typed, without what has its default value or changes no result."""
    league = plan.league
    arguments = ["mondrian", "league", league.problem, f"scale={league.scale}"]
    return shlex.join([*arguments, *([] if league.part == "main" else [f"part={league.part}"]), *league.changed])
