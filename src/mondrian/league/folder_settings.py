"""A folder holds one league: other settings than those of its first training are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mondrian.league.jobs import TASK
from mondrian.league.outcome import FILE as OUTCOME
from mondrian.league.spec import LeagueSpec
from mondrian.settings.former import current_overrides
from mondrian.support.files import write_json
from mondrian.support.settings_guard import SettingsGuard, changes

FILE = "league.json"
COMMON, ENTRANTS = "common", "entrants"  # what is in it
SHARED = ("simulations", "native", "batch_size", "threads")  # by all parts, with the data and the speeds
FREE = ("seeds", "best")  # may change from one call to the next
Settings = Mapping[str, Mapping[str, Any]]


def remember_settings(league: LeagueSpec) -> None:
    """Write down the settings of a part, or refuse others than are there; the number of seeds may grow.

    An entrant is the same model in all parts, which share its speed. A part in which nothing has begun takes others.
    """
    own, wanted = league.runs / FILE, settings_of(league)
    former: Settings = {}
    for file in sorted(league.folder.glob(f"*/{FILE}")):
        if _begun(file.parent):
            stored = SettingsGuard(file).stored() or {}
            compare(stored, wanted, where=str(file), same_part=file == own)
            if file == own:
                former = stored
    write_json(own, {group: {**former.get(group, {}), **wanted[group]} for group in wanted})


def compare(stored: Settings, wanted: Settings, *, where: str, same_part: bool = True) -> None:
    """`ValueError` that names the first setting of a part that differs from what another call had."""
    for group, settings in wanted.items():
        keys = [key for key in settings if same_part or group == ENTRANTS or key in SHARED]
        known, now = ({key: each[key] for key in keys if key in each} for each in (stored.get(group, {}), settings))
        if changed := changes(_comparable(known), _comparable(now)):
            raise ValueError(f"{where}: {changed[0]}; needed the same settings, or another folder=...")


def settings_of(league: LeagueSpec) -> dict[str, dict[str, Any]]:
    """What must not change from one call to the next in the same folder."""
    common = {
        key: value
        for part in (league.conditions, league.budgets)
        for key, value in asdict(part).items()
        if key not in FREE
    }
    entrants = {
        entrant.name: [override for override in league.overrides(entrant) if not override.startswith("data.path=")]
        for entrant in league.everyone
    }
    return {COMMON: common, ENTRANTS: entrants}


def _comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides of entrants with today's names of specs: earlier versions wrote `_target_:mondrian.Gaze`."""
    return {
        key: current_overrides(value, warn=False)
        if isinstance(value, list) and all(isinstance(item, str) for item in value)
        else value
        for key, value in settings.items()
    }


def _begun(part: Path) -> bool:
    """Whether a training of a part has been started, or carried here."""
    return any(next(part.glob(f"*/*/{name}"), None) for name in (TASK, OUTCOME))
