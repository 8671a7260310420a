"""Folders that remember their settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from mondrian.support.settings_guard import SettingsGuard, changes

SETTINGS = {"seed": 0, "sampler": {"name": "tpe", "startup": 10}, "points": (8, 8), "trials": 20}


@pytest.fixture
def guard(tmp_path: Path) -> SettingsGuard:
    return SettingsGuard(tmp_path / "folder" / "settings.json", free=frozenset({"trials", "sampler.startup"}))


def test_the_first_use_writes_and_others_must_agree(guard: SettingsGuard) -> None:
    assert guard.stored() is None
    guard.check(SETTINGS)
    assert not guard.file.exists()
    guard.remember(SETTINGS)
    guard.remember(SETTINGS)
    guard.check(SETTINGS | {"trials": 50, "sampler": {"name": "tpe", "startup": 3}})
    assert guard.stored() == json.loads(json.dumps(SETTINGS))


@pytest.mark.parametrize(
    "other, message",
    [
        ({"seed": 1}, "seed was 0, now it is 1"),
        ({"sampler": {"name": "random", "startup": 10}}, r"sampler\.name was tpe, now it is random"),
        ({"sampler": {"name": "tpe", "group": True}}, r"sampler\.group was None, now it is True"),
        ({"points": [8, 16]}, r"points was \[8, 8\], now it is \[8, 16\]"),
    ],
)
def test_other_settings_are_refused_by_name_with_both_values(
    guard: SettingsGuard, other: dict[str, Any], message: str
) -> None:
    guard.remember(SETTINGS)
    before = guard.file.read_bytes()
    with pytest.raises(ValueError, match=f"settings.json: {message}; needed the same settings, or another folder"):
        guard.remember(SETTINGS | other)
    assert guard.file.read_bytes() == before


def test_free_settings_are_remembered_as_they_were_last(guard: SettingsGuard) -> None:
    guard.remember(SETTINGS)
    guard.remember(SETTINGS | {"trials": 50, "pruner": "median"})  # a setting of a later version
    stored = guard.stored()
    assert stored is not None
    assert (stored["trials"], stored["pruner"]) == (50, "median")
    with pytest.raises(ValueError, match="pruner was median, now it is none"):
        guard.remember(SETTINGS | {"pruner": "none"})


def test_of_two_lists_of_overrides_only_the_difference_is_told() -> None:
    (change,) = changes({"fixed": ["a=1", "b=2"]}, {"fixed": ["a=1", "b=3"]})
    assert str(change) == "fixed was ['b=2'], now it is ['b=3']"


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff"])
def test_a_damaged_file_is_named(guard: SettingsGuard, content: bytes) -> None:
    guard.file.parent.mkdir()
    guard.file.write_bytes(content)
    with pytest.raises(ValueError, match=r"settings\.json (is damaged|holds a list)"):
        guard.remember(SETTINGS)
