"""A folder holds one league: every call that works on it, or shows it, has the settings of the first."""

from __future__ import annotations

import json
from typing import Any

from omegaconf import OmegaConf

from mondrian.files import write_json
from mondrian.league.settings import League

FILE = "league.json"


def agree(league: League) -> None:
    """Write down the settings of a part, or refuse others than are there; the number of seeds may grow."""
    file = league.runs / FILE
    wanted = _settings(league)
    former: dict[str, Any] = {"common": {}, "entrants": {}}
    if file.exists():
        former = json.loads(file.read_text())
    for group, settings in wanted.items():
        for key, value in settings.items():
            known = former[group].get(key, value)
            if known != value:
                raise ValueError(
                    f"{key}: {_difference(known, value)} in {file}; needed the same settings, or another folder=..."
                )
    write_json(file, former | {group: former[group] | wanted[group] for group in wanted})


def _settings(league: League) -> dict[str, dict[str, Any]]:
    budgets = league.budgets
    common = {
        "simulations": OmegaConf.to_container(league.config.simulations),
        "native": league.native_data is not None,
        "horizon": league.horizon,
        "batch_size": league.batch_size,
        "threads": league.threads,
        "warmup": league.warmup,
        "rates": list(budgets.rates),
        "tuning_samples": budgets.tuning_samples,
        "samples": budgets.samples,
        "minutes": budgets.minutes,
    }
    entrants = {
        entrant.name: [word for word in league.words(entrant) if not word.startswith("data.path=")]
        for entrant in league.everyone
    }
    return {"common": common, "entrants": entrants}


def _difference(known: Any, wanted: Any) -> str:
    """What has changed; of words only those that have."""
    if known and isinstance(known, list) and isinstance(known[0], str):
        known, wanted = ([word for word in a if word not in b] for a, b in ((known, wanted), (wanted, known)))
    return f"{wanted} where there was {known}"
