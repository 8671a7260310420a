"""Reports without pictures, which take most of the time."""

from __future__ import annotations

import pytest

from mondrian.drawing import style


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are laid out by nobody: drawing them takes most of the time of a report."""
    monkeypatch.setattr(style, "png_of", lambda *_, **__: b"")
    monkeypatch.setattr(style, "_svg_of", lambda *_: "<svg></svg>")
