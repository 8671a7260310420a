"""The history of a training run: a table that a crash cannot spoil."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mondrian.support.files import write_atomically

COLUMNS = (
    "step", "samples", "seconds", "train_loss", "learning_rate", "samples_per_second", "valid_loss", "valid_mae",
)  # fmt: skip


class HistoryFile:
    """Rows of `COLUMNS`, appended one by one. The next `keep` drops a row that a crash cut off."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self, last_step: int) -> None:
        """Drop all rows after a step, from which the run resumes."""
        rows = [row for row in self.rows() if int(row["step"]) <= last_step]
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path, text.getvalue().encode())

    def rows(self) -> list[dict[str, str]]:
        """All rows that are whole."""
        if not self.path.exists():
            return []
        text = self.path.read_text()
        whole = text[: text.rfind("\n") + 1]
        return [row for row in csv.DictReader(io.StringIO(whole)) if None not in row.values()]

    def columns(self) -> dict[str, Float[np.ndarray, " row"]]:
        """All rows as numbers; NaN where a column was not logged."""
        rows = self.rows()
        try:
            return {name: np.array([float(row[name] or "nan") for row in rows]) for name in rows[0]} if rows else {}
        except ValueError as error:
            raise ValueError(f"{self.path} is damaged: {error}") from error

    def append(self, row: dict[str, Any]) -> None:
        cells = [f"{row[name]:.9g}" if name in row else "" for name in COLUMNS]
        try:
            with open(self.path, "a") as file:
                file.write(",".join(cells) + "\n")
        except OSError as error:
            raise OSError(error.errno, f"cannot write {self.path}: {error.strerror or error}") from error
