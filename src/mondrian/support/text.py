"""Tables, sizes and messages for people to read."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> str:
    """Rows as an aligned table, the columns `left` to the left and all others to the right.

    >>> print(aligned([["model", "samples/s"], ["FNO", "96.1"]]))
    model  samples/s
    FNO         96.1
    """
    return "\n".join("  ".join(row).rstrip() for row in _padded(rows, left))


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> str:
    """A Markdown table that is aligned as plain text too.

    >>> print(markdown_table(["model", "samples/s"], [["FNO", "96.1"]]))
    | model | samples/s |
    | ----- | --------: |
    | FNO   |      96.1 |
    """
    first, *rest = _padded([head, *rows], left)
    rule = ["-" * len(cell) if column in left else "-" * (len(cell) - 1) + ":" for column, cell in enumerate(first)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [first, rule, *rest])


def memory_text(size: float) -> str:
    """A number of bytes; `-` for NaN.

    >>> memory_text(1.5 * 2**30), memory_text(5e6), memory_text(math.nan)
    ('1.50 GiB', '5 MiB', '-')
    """
    if math.isnan(size):
        return "-"
    return f"{size / 2**30:.2f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def one_line(error: BaseException) -> str:
    """The message of an error in one line, without Hydra's search paths and links."""
    noise = ("Config search path:", "provider=", "full_key:", "object_type=", "See https://")
    text = error.strerror if isinstance(error, OSError) and error.strerror and not error.filename else str(error)
    lines = (line.strip() for line in text.splitlines())
    return " ".join(line for line in lines if line and not line.startswith(noise))


def shell_word(text: str) -> str:
    """An argument of a shell command, quoted if needed, with double quotes if these suffice.

    >>> print(shell_word("run='a (1)'"), shell_word("run=$HOME"))
    "run='a (1)'" 'run=$HOME'
    """
    plain = not re.search(r'["\\$`!]', text)
    return f'"{text}"' if plain and shlex.quote(text) != text else shlex.quote(text)


def _padded(rows: Sequence[Sequence[str]], left: Collection[int]) -> list[list[str]]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [cell.ljust(width) if column in left else cell.rjust(width) for column, (cell, width) in enumerate(pairs)]
        for pairs in (zip(row, widths, strict=True) for row in rows)
    ]
