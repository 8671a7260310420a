"""Settings guards: a folder remembers the settings of its first use and refuses others."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mondrian.support.files import json_text, write_json


@dataclass(frozen=True)
class Change:
    """A setting whose value differs from the stored one.

    >>> print(Change("seed", 0, 1))
    seed was 0, now it is 1
    """

    key: str
    old: Any
    new: Any

    def __str__(self) -> str:
        old, new = self.old, self.new
        if _is_overrides(old) and _is_overrides(new):  # show only those that differ
            old, new = ([text for text in a if text not in b] for a, b in ((old, new), (new, old)))
        return f"{self.key} was {old}, now it is {new}"


def changes(old: Mapping[str, Any], new: Mapping[str, Any], *, free: Collection[str] = ()) -> list[Change]:
    """The settings that differ, by dotted key, except those in `free` and all below them.

    Settings are compared as JSON. A new key at the top is not a change: an earlier version did not have it.

    >>> changes({"data": {"path": "a", "points": (8, 8)}}, {"data": {"path": "b", "points": [8, 8]}, "new": 1})
    [Change(key='data.path', old='a', new='b')]
    """
    before, now = (json.loads(json_text(settings)) for settings in (old, new))
    return [change for key in before for change in _changes(key, before[key], now.get(key), free)]


def _changes(key: str, old: Any, new: Any, free: Collection[str]) -> list[Change]:
    if key in free:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys((*old, *new))
        return [change for name in keys for change in _changes(f"{key}.{name}", old.get(name), new.get(name), free)]
    return [] if old == new else [Change(key, old, new)]


def _is_overrides(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(isinstance(item, str) for item in value)


@dataclass(frozen=True)
class SettingsGuard:
    """The settings of a folder, stored in `file`; keys in `free` may change between uses.

    guard = SettingsGuard(folder / "sweep.json", free={"trials"}, advice="run=... starts another sweep")
    guard.remember({"sampler": "tpe", "trials": 20})
    """

    file: Path
    free: frozenset[str] = field(default_factory=frozenset)
    advice: str = "needed the same settings, or another folder"

    def stored(self) -> dict[str, Any] | None:
        """The settings of the first use, with the free ones of the last use; None before the first."""
        try:
            content = json.loads(self.file.read_text())
        except FileNotFoundError:
            return None
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{self.file} is damaged: {error}") from error
        if not isinstance(content, dict):
            raise ValueError(f"{self.file} holds a {type(content).__name__}; needed a mapping of settings")
        return content

    def check(self, settings: Mapping[str, Any]) -> None:
        """Raise `ValueError` with the first setting that differs and both values."""
        if changed := changes(self.stored() or {}, settings, free=self.free):
            raise ValueError(f"{self.file}: {changed[0]}; {self.advice}")

    def remember(self, settings: Mapping[str, Any]) -> None:
        """Check `settings` and store them. Concurrent processes need a lock."""
        stored = self.stored()
        self.check(settings)
        if stored is None or stored != json.loads(json_text(settings)):
            write_json(self.file, (stored or {}) | dict(settings))
