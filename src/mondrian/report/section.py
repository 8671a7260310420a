"""A section of the page."""

from __future__ import annotations

from dataclasses import dataclass

from mondrian.drawing.style import Picture


@dataclass(frozen=True)
class Section:
    """A heading, a line of text, a table in HTML, and pictures: one below the other, or in tabs."""

    title: str
    note: str = ""
    table: str = ""
    pictures: tuple[Picture, ...] = ()
    tabs: bool = False
