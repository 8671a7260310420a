"""JSON that is small and still legible: numbers with few digits, one short record a line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from mondrian.support.files import json_text

LINE = 110  # characters


def rounded(value: Any, digits: int) -> Any:
    """The same with all floating-point numbers, also inside of lists and mappings, to so many significant digits.

    >>> rounded({"mae": [0.123456, 1e-12], "count": 8}, 3)
    {'mae': [0.123, 1e-12], 'count': 8}
    """
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, Mapping):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return value


def compact_json(value: Any, indent: str = "") -> str:
    """JSON with numbers of a list, and what is short, on one line.

    >>> print(compact_json({"samples": list(range(3)), "loss": float("nan")}))
    {"samples": [0, 1, 2], "loss": null}
    """
    line = _line(value)
    items = list(value.values() if isinstance(value, Mapping) else value) if _is_container(value) else []
    if not items or len(indent + line) <= LINE or (isinstance(value, list) and not any(map(_is_container, items))):
        return line
    inner = indent + " "
    texts = [compact_json(item, inner) for item in items]
    if isinstance(value, Mapping):
        texts = [f"{json.dumps(str(key))}: {text}" for key, text in zip(value, texts, strict=True)]
    opening, closing = "{}" if isinstance(value, Mapping) else "[]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(texts) + f"\n{indent}{closing}"


def _line(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_line, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return json_text(value).strip()
    return json.dumps(value)


def _is_container(value: Any) -> bool:
    return isinstance(value, Mapping | list | tuple)
