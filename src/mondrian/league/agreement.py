"""A folder holds one league: every call that works on it, or shows it, has the settings of the first that trained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from mondrian.league.outcome import FILE as OUTCOME
from mondrian.league.plan import TASK
from mondrian.league.settings import League
from mondrian.support.files import write_json

FILE = "league.json"
COMMON, ENTRANTS = "common", "entrants"  # what is in it
SHARED = ("simulations", "native", "batch_size", "threads")  # by all parts, with the data and the speeds


def agree(league: League) -> None:
    """Write down the settings of a part, or refuse others than are there; the number of seeds may grow.

    An entrant is the same model in all parts, which share its speed. A part in which nothing has begun takes others.
    """
    own = league.runs / FILE
    wanted = _settings(league)
    files = (file for file in sorted(league.folder.glob(f"*/{FILE}")) if _begun(file.parent))
    stored = {file: json.loads(file.read_text()) for file in files}
    for file, former in stored.items():
        for group, settings in wanted.items():
            for key, value in settings.items():
                known = former[group].get(key, value)
                if known != value and (file == own or group == ENTRANTS or key in SHARED):
                    difference = _difference(known, value)
                    raise ValueError(f"{key}: {difference} in {file}; needed the same settings, or another folder=...")
    former = stored.get(own, {COMMON: {}, ENTRANTS: {}})
    write_json(own, former | {group: former[group] | wanted[group] for group in wanted})


def _begun(part: Path) -> bool:
    """Whether a training of a part has been started, or carried here."""
    return any(next(part.glob(f"*/*/{name}"), None) for name in (TASK, OUTCOME))


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
        "wider": budgets.wider,
        "finalists": budgets.finalists,
        "tuning_samples": budgets.tuning_samples,
        "samples": budgets.samples,
        "minutes": budgets.minutes,
    }
    entrants = {
        entrant.name: [word for word in league.words(entrant) if not word.startswith("data.path=")]
        for entrant in league.everyone
    }
    return {COMMON: common, ENTRANTS: entrants}


def _difference(known: Any, wanted: Any) -> str:
    """What has changed; of words only those that have."""
    if known and isinstance(known, list) and isinstance(known[0], str):
        known, wanted = ([word for word in a if word not in b] for a, b in ((known, wanted), (wanted, known)))
    return f"{wanted} where there was {known}"
