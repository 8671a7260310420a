r"""Equations become MathML when the site is built: a browser shows them without a script.

Arithmatex marks them in the page, `\(...\)` in a line and `\[...\]` on lines of their own.
"""

from __future__ import annotations

import re
from html import unescape

from latex2mathml.converter import convert

MARKED = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)


def on_page_content(html: str, **_: object) -> str:
    """Replace each equation of a page."""
    return MARKED.sub(_equation, html)


def _equation(match: re.Match[str]) -> str:
    display = "block" if match[1] == "div" else "inline"
    return convert(unescape(match[2]), display=display)
