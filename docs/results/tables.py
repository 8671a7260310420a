"""Draws all pages of results again from what the leagues published: `results.json` and `fields.npz` of each part.

python docs/results/tables.py            the tables of README.md, each between its marks, and the pages of all parts
python docs/results/tables.py README     the tables of README.md alone
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mondrian.league.publish import redraw
from mondrian.league.results import Row, Score, persistence
from mondrian.league.results_files import LeagueResults
from mondrian.league.spec import SAMPLES, TIME, Budgets
from mondrian.support.files import write_atomically
from mondrian.support.text import markdown_table

PAGE = Path(__file__).with_name("README.md")
BLOCK = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)
PERSISTENCE = "persistence baseline"
ATTRIBUTES = {"samples": "samples", "learning_rate": "rate", "samples_per_second": "speed"}  # of a row


@dataclass(frozen=True)
class Column:
    """What a column shows of each row: a score under a budget, or something else that the league's table has.

    The name of a row's entrant may depend on the column: `attention` is put into it.
    """

    title: str
    budget: str
    key: str
    attention: str = ""

    def number(self, part: str, name: str) -> Score | float | None:
        """The number of an entrant of a part; None where it is not there."""
        ranked = rows_of(part).get(self.budget, [])
        if name == PERSISTENCE:
            return persistence(ranked[0]).get(self.key) if ranked else None
        for row in ranked:
            if row.entrant.name == name.format(self.attention):
                return getattr(row, ATTRIBUTES[self.key]) if self.key in ATTRIBUTES else row.scores[self.key]
        return None

    def text(self, part: str, name: str) -> str:
        number = self.number(part, name)
        if number is None:
            return ""
        if self.key == "samples_per_second":
            return f"{number:.1f}"
        return f"{number:,}" if self.key == "samples" else f"{number:g}" if self.key in ATTRIBUTES else str(number)


@dataclass(frozen=True)
class Table:
    """Rows, each a label and an entrant of a part, under columns; by the first column unless `ordered`."""

    title: str
    rows: Mapping[str, tuple[str, str]]
    columns: Sequence[Column]
    ordered: bool = False

    def __str__(self) -> str:
        labels = list(self.rows) if self.ordered else sorted(self.rows, key=self._place)
        body = [
            [label + self._mark(label), *(column.text(*self.rows[label]) for column in self.columns)]
            for label in labels
        ]
        return markdown_table([self.title, *(column.title for column in self.columns)], body)

    def _mark(self, label: str) -> str:
        """A star where another learning rate may still take the place of what is shown."""
        part, name = self.rows[label]
        names = {name.format(column.attention) for column in self.columns}
        return " \\*" if any(row.entrant.name in names and not row.final for row in all_rows(part)) else ""

    def _place(self, label: str) -> tuple[bool, float]:
        """The persistence baseline at the end."""
        part, name = self.rows[label]
        number = self.columns[0].number(part, name)
        return name == PERSISTENCE, number.mean if isinstance(number, Score) else float("inf")


@cache
def results(part: str) -> LeagueResults:
    """The published results of a part of a league."""
    return LeagueResults.load(PAGE.parent / part)


@cache
def rows_of(part: str) -> dict[str, list[Row]]:
    """The rows of a part by budget."""
    return results(part).rows()


def all_rows(part: str) -> list[Row]:
    return [row for ranked in rows_of(part).values() for row in ranked]


def budgets(part: str) -> Budgets:
    return results(part).plan.league.budgets


def everyone(part: str) -> dict[str, tuple[str, str]]:
    """All entrants of a part by their labels."""
    return {row.entrant.label: (part, row.entrant.name) for row in all_rows(part)}


def those(part: str, names: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Entrants of a part under other labels; every entrant with results must be among them."""
    shown = {row.entrant.name for row in all_rows(part)}
    if forgotten := shown - set(names.values()):
        raise ValueError(f"{', '.join(sorted(forgotten))} of {part} have results but no row")
    return {label: (part, name) for label, name in names.items() if name in shown}


def main_part(folder: str, score: str, points: str, **more: str) -> Table:
    """Both budgets of a main part; `more` are titles of other scores."""
    part = f"{folder}/main"
    titles = {TIME: f"{budgets(part).minutes:g} minutes", SAMPLES: f"{budgets(part).samples:,} samples"}
    columns = []
    for budget, title in titles.items():
        columns += [Column(title, budget, f"{score} {points}"), Column("at 128 x 128", budget, f"{score} 128x128")]
        columns += [Column(words.replace("_", " "), budget, key) for words, key in more.items()]
        columns += [Column("samples seen", budget, "samples")] * (budget == TIME)
    return Table("model", everyone(part), columns)


def operators(folder: str, score: str, points: str) -> Table:
    """The seven operators under plain attention and in windows."""
    part = f"{folder}/ablation"
    titles = {SAMPLES: f"{budgets(part).samples:,} samples", TIME: f"{budgets(part).minutes:g} minutes"}
    rows = {
        "integral": "{}_integral",
        "low rank": "{}_low_rank",
        "point attention": "{}_attention",
        "spectral": "{}_spectral",
        "interpolating": "{}_interpolating",
        "mixture": "{}_mo",
        "separable mixture": "{}_sepmo",
        PERSISTENCE: PERSISTENCE,
    }
    columns = []
    for budget, title in titles.items():
        for words, attention in {"ViT": "vit", "Swin": "swin"}.items():
            columns.append(Column(f"{words}, {title}", budget, f"{score} {points}", attention))
            columns.append(Column("at 128 x 128", budget, f"{score} 128x128", attention))
    columns += [
        Column(f"{words}, samples/s", SAMPLES, "samples_per_second", attention)
        for words, attention in {"ViT": "vit", "Swin": "swin"}.items()
    ]
    return Table("operator", {words: (part, name) for words, name in rows.items()}, columns)


def design_ablation() -> Table:
    """Each change of the staggered model, in groups."""
    rows = {
        "nothing": "vit_sepmo_staggered",
        "*communication*: 16 x 16 subdomains instead of 8 x 8": "staggered_many_cells",
        "4 x 4 subdomains": "staggered_few_cells",
        "a relative bias in place of learned positions": "staggered_relative",
        "each of the 4 heads starts at one neighbour (`Gaze`)": "staggered_gaze",
        "the same with 8 heads": "staggered_gaze_eight_heads",
        "8 heads alone": "staggered_eight_heads",
        "*operator*: interpolating, 32 channels": "staggered_interpolating",
        "blocks on 4 x 4 points a subdomain at every resolution": "staggered_cell_points",
        "both of these": "staggered_interpolating_cell_points",
        "kernels of 32 ridges instead of 8": "staggered_sharp",
        "no pointwise skips in the operators": "staggered_no_skips",
        "*size*: 96 channels instead of 48": "staggered_wide",
        "8 blocks instead of 4": "staggered_deep",
        "*normalisation*: statistics of each point": "staggered_point_norm",
        "*initialisation*: branches begin at 0.1": "staggered_small_branches",
        "*optimisation*: no bound on gradients": "staggered_unbounded",
        "FNO, for comparison": "fno",
    }
    columns = (
        Column("32 x 32", SAMPLES, "mae 32x32"),
        Column("128 x 128", SAMPLES, "mae 128x128"),
        Column("learning rate", SAMPLES, "learning_rate"),
        Column("samples/s", SAMPLES, "samples_per_second"),
    )
    return Table("changed", those("allen_cahn_cpu/design_ablation", rows), columns, ordered=True)


def beyond() -> Table:
    """Our models with the changes that helped, beside the best of the main part."""
    main = "allen_cahn_cpu/main"
    rows = {
        "Factorised FNO (main part)": (main, "ffno"),
        "ViT-NO, separable mixture, staggered (main part)": (main, "vit_sepmo_staggered"),
    }
    rows |= those(
        "allen_cahn_cpu/beyond",
        {
            "interpolating, 4 x 4 points a subdomain, heads that start at neighbours": "staggered_gaze_interpolating",
            "interpolating, 4 x 4 points a subdomain": "staggered_interpolating_cell_points",
            "separable mixture, heads that start at neighbours": "staggered_gaze_eight_heads",
            "separable mixture, 4 x 4 points a subdomain": "staggered_cell_points",
        },
    )
    titles = {SAMPLES: "8,192 samples", TIME: "8 minutes"}
    columns = [
        Column(words, budget, f"{score} {points}")
        for budget, title in titles.items()
        for words, score, points in (
            (title, "mae", "32x32"),
            ("at 128 x 128", "mae", "128x128"),
            ("relative L2 there", "relative L2", "128x128"),
        )
    ]
    columns += [
        Column("learning rate", SAMPLES, "learning_rate"),
        Column("samples/s", SAMPLES, "samples_per_second"),
    ]
    return Table("model", rows, columns)


TABLES = {
    "allen_cahn": lambda: main_part("allen_cahn_cpu", "mae", "32x32"),
    "allen_cahn_operators": lambda: operators("allen_cahn_cpu", "mae", "32x32"),
    "design_ablation": design_ablation,
    "beyond": beyond,
    "navier_stokes": lambda: main_part(
        "navier_stokes_cpu", "relative L2", "64x64", correlated_until="correlation time 64x64"
    ),
    "navier_stokes_operators": lambda: operators("navier_stokes_cpu", "relative L2", "64x64"),
}


def rendered(page: str) -> str:
    """The page with its tables as they follow from the published results."""
    return BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", page)


if __name__ == "__main__":
    if sys.argv[1:] != ["README"]:
        redraw(PAGE.parent)
    write_atomically(PAGE, rendered(PAGE.read_text()).encode())
