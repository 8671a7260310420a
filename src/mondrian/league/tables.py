"""The table of a league: Markdown for people, CSV for spreadsheets, JSON with the settings that made it."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

from mondrian.evaluation.tables import size
from mondrian.league.plan import Plan
from mondrian.league.results import Row, diverged, hours, machines, packages, sources, unchanged
from mondrian.league.settings import TIME
from mondrian.support.text import markdown_table

COLUMNS = (
    "budget", "name", "parameters", "samples_per_second", "measured_samples_per_second", "learning_rate", "samples",
    "final", "score", "mean", "deviation", "seeds", "first_low", "first_high",
)  # fmt: skip
EVERYWHERE = ("mae", "relative L2", "native mae")  # shown at every resolution
Rows = Mapping[str, Sequence[Row]]


def markdown(plan: Plan, rows: Rows, figures: Sequence[str]) -> str:
    """A page with a table for each budget, and what is not in it: trainings that diverged, and those to come."""
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
            seeds = " More seeds of the best follow when they are." if budgets.seeds > 1 and budget == TIME else ""
            parts.append(f"Not there yet: {', '.join(waiting)}.{seeds}\n")
        if early := [row.entrant.name for row in rows.get(budget, ()) if not row.final]:
            parts.append(f"With the best learning rate so far, others are still to be tried: {', '.join(early)}.\n")
        if off := [text for row in rows.get(budget, ()) for text in _off_budget(plan, row)]:
            parts.append(f"With other samples than the speeds of today give: {'; '.join(off)}.\n")
    if failed:
        parts.append("Diverged:\n")
        parts += [
            f"- {job.entrant.label}, {job.budget}, learning rate {job.rate:g}, seed {job.seed}: {message}"
            for job, message in failed.items()
        ]
        parts.append("")
    to_come = dict.fromkeys(job.entrant.name for job in plan.more_seeds() if job.outcome is None)
    if to_come:
        parts.append(f"More seeds are to come of {', '.join(to_come)}.\n")
    parts += [f"![{name}]({name}.png)\n" for name in figures]
    return "\n".join(parts)


def _without(plan: Plan, budget: str) -> list[str]:
    """Whose training for a budget has not ended, or cannot be named yet."""
    jobs = {e.name: plan.trainings(e).get(budget) for e in plan.league.everyone if e.name in plan.speeds}
    ended = {name for name, job in jobs.items() if job is not None and job.outcome is not None}
    return [entrant.name for entrant in plan.league.everyone if entrant.name not in ended]


def _off_budget(plan: Plan, row: Row) -> list[str]:
    """Trainings, by the speeds of another day, that saw a hundredth more or less than their budget has."""
    found = []
    for job, outcome in zip(row.jobs, row.outcomes, strict=True):
        seen, wanted = int(outcome.samples[-1]), job.steps * plan.league.batch_size
        if abs(seen - wanted) > 0.01 * wanted:
            found.append(f"{row.entrant.name} {seen:,} instead of {wanted:,} (seed {job.seed})")
    return found


def _conditions(plan: Plan) -> str:
    """How everybody was treated, and what made it."""
    league, budgets = plan.league, plan.league.budgets
    rates = ", ".join(f"{rate:g}" for rate in budgets.rates)
    tuned = f"learning rate {rates}"
    if len(budgets.rates) > budgets.finalists:
        tuned = f"learning rates {rates} tried by each on {budgets.tuning_samples:,} samples"
        if budgets.wider:
            tuned += f" (up to {budgets.wider} more beyond an end, where the best was there)"
        if budgets.finalists > 1:
            tuned += f", the best {budgets.finalists} of them on {budgets.samples:,}"
        tuned += ", the best by validation loss kept (an arrow: the end of what was tried)"
    elif len(budgets.rates) > 1:
        tuned = f"learning rates {rates} tried by each on {budgets.samples:,} samples, the best by validation loss kept"
    data = ", ".join(f"{count:,} for {split}" for split, count in league.config.simulations.items())
    where = " and ".join(machines(plan)) or "no machine yet"
    code = ", ".join(f"{source} ({count})" for source, count in sources(plan).items())
    return (
        f"Simulations: {data}. Batches of {league.batch_size}; {tuned}. Seeds from 0 on; ± is the standard deviation "
        f"over them. Samples a second: alone on {league.cores}, which turns minutes into samples, and by the clock in "
        "the training itself, beside others.\n\n"
        f"Made by `{command(plan)}` on {where}, with {', '.join(packages(plan))}; all trainings and validations, one "
        f"after the other, took {hours(plan):.1f} hours. Digests of the source, and how many trainings each made: "
        f"{code}.\n"
    )


def _table(plan: Plan, rows: Sequence[Row]) -> str:
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
    still = unchanged(rows[0])
    body.append(["", "nothing changes", *[""] * 7, *(str(still.get(name, "")) for name in names)])
    return markdown_table(head, body, left=(1,))


def _end_of(plan: Plan, row: Row) -> str:
    """An arrow where the best learning rate was the first or the last of those that were tried."""
    rates = [job.rate for job in plan.tuning(row.entrant)]
    return {rates[0]: " ↓", rates[-1]: " ↑"}.get(row.rate, "") if rates else ""


def csv_text(rows: Rows) -> str:
    """One line for each entrant, budget and score."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for budget, found in rows.items():
        for row in found:
            speeds = (f"{speed:.4g}" for speed in (row.speed, row.first.samples_per_second))
            facts = [budget, row.entrant.name, row.first.parameters, *speeds, f"{row.rate:g}", row.samples, row.final]
            for name, score in row.scores.items():
                deviation = "" if score.deviation is None else f"{score.deviation:.6g}"
                interval = (f"{bound:.6g}" for bound in (score.first_low, score.first_high))
                writer.writerow([*facts, name, f"{score.mean:.6g}", deviation, score.seeds, *interval])
    return text.getvalue()


def facts(plan: Plan, rows: Rows) -> dict[str, Any]:
    """Everything, with what made it: the content of `results.json`."""
    return {
        "problem": plan.league.problem,
        "part": plan.league.part,
        "scale": plan.league.scale,
        "command": command(plan),
        "settings": OmegaConf.to_container(plan.league.config, resolve=True),
        "machines": machines(plan),
        "sources": sources(plan),
        "hours": hours(plan),
        "unchanged": {
            budget: {name: score.mean for name, score in unchanged(found[0]).items()} for budget, found in rows.items()
        },
        "rows": [row.to_json() for found in rows.values() for row in found],
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


def command(plan: Plan) -> str:
    """What was typed, without what has its default value or changes no result."""
    league = plan.league
    words = ["mondrian", "league", league.problem, f"scale={league.scale}"]
    return shlex.join([*words, *([] if league.part == "main" else [f"part={league.part}"]), *league.overrides])
