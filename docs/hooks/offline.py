"""The site loads nothing from elsewhere; a build that would is stopped."""

from __future__ import annotations

import re

from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link(?=[^>]*rel="?(?:stylesheet|preconnect|icon|preload)))\b[^>]*?"""
    r"""(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)"""
)


def on_post_page(output: str, *, page: Page, **_: object) -> str:
    """Refuse scripts, styles, fonts and pictures of other hosts."""
    found = LOADED.findall(output)
    if found:
        raise PluginError(f"{page.file.src_uri} would load {found[0]}; needed a copy in the site")
    return output
