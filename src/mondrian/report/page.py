"""The page: one self-contained HTML file for light and dark, wide and narrow screens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from mondrian.drawing.style import Picture
from mondrian.report.assets import SCRIPT, STYLE_SHEET
from mondrian.report.section import Section
from mondrian.report.summary import slug
from mondrian.report.tables import pairs_table

# A safeguard against later changes: the browser refuses to load anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Chapter:
    """The content about one run."""

    label: str
    summary: Mapping[str, str]
    sections: Sequence[Section]
    settings: Mapping[str, Mapping[str, str]]


def page(chapters: Sequence[Chapter], common: Sequence[Section]) -> str:
    """The whole page: first the `common` sections of several runs, then a chapter for each run."""
    if len(chapters) == 1:
        (chapter,) = chapters
        title, above = chapter.label, _summary(chapter.summary)
        links = [section.title for section in chapter.sections] + ["Settings"]
        body = _sections(chapter.sections) + _settings(chapter)
    else:
        title, above = f"{len(chapters)} runs", ""
        links = [section.title for section in common] + [chapter.label for chapter in chapters]
        body = _sections(common) + "".join(_folded(chapter) for chapter in chapters)
    anchors = "".join(f'<a href="#{slug(link)}">{escape(link)}</a>' for link in links)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE_SHEET}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{above}<nav>{anchors}</nav></header>\n"
        f"<main>\n{body}\n</main>\n<footer></footer>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _folded(chapter: Chapter) -> str:
    anchor = slug(chapter.label)
    content = _summary(chapter.summary) + _sections(chapter.sections, anchor=anchor) + _settings(chapter, anchor=anchor)
    opening = f'<details class="run" id="{anchor}"><summary>{escape(chapter.label)}</summary>'
    return f"{opening}\n{content}\n</details>\n"


def _summary(pairs: Mapping[str, str]) -> str:
    items = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in pairs.items())
    return f"<dl>{items}</dl>"


def _sections(sections: Sequence[Section], *, anchor: str = "") -> str:
    return "\n".join(_section(section, anchor) for section in sections)


def _section(section: Section, anchor: str) -> str:
    name = slug(f"{anchor} {section.title}")
    note = f"<p>{_text(section.note)}</p>" if section.note else ""
    figures = "\n".join(_figure(picture) for picture in section.pictures)
    group = f"<div{' data-tabs' if section.tabs else ''}>\n{figures}\n</div>" if figures else ""
    return f'<section id="{name}">\n<h2>{escape(section.title)}</h2>\n{note}{section.table}\n{group}\n</section>'


def _figure(picture: Picture) -> str:
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>"
    return f'<figure data-label="{escape(picture.label)}">\n{picture.svg}\n{caption}\n</figure>'


def _settings(chapter: Chapter, *, anchor: str = "") -> str:
    parts = "".join(f"<h3>{escape(name)}</h3>{pairs_table(pairs)}" for name, pairs in chapter.settings.items())
    return f'<details id="{slug(f"{anchor} Settings")}"><summary>Settings and versions</summary>{parts}</details>'


def _text(text: str) -> str:
    """Escaped text, with `commands` in code type."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
