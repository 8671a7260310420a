"""From the arguments of `mondrian league` to a `LeagueSpec`, checked before anything starts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from mondrian.league.entrants import STAGGERED, Entrant, known_names
from mondrian.league.spec import FORMER_PARTS, PROBLEMS, Budgets, Conditions, LeagueSpec
from mondrian.settings.compose import composed, plain, scaled, split_choices
from mondrian.settings.values import Config, counts, flag, integer, number, strings
from mondrian.support.former import former_names
from mondrian.support.process import cores

PRACTICAL = ("entrants", "folder", "jobs", "publish")  # settings that change no result
# What the league decides for each training, whatever its entrant says.
DECIDED = ("run", "resume", "seed", "max_steps", "optimizer.lr", "validate_every", "checkpoint_every", "data.path")


def parse(arguments: Sequence[str]) -> LeagueSpec:
    """The league that arguments such as `allen_cahn part=ablation entrants=[vit_mo]` describe."""
    names = [argument for argument in arguments if "=" not in argument]
    if len(names) != 1 or names[0] not in PROBLEMS:
        raise ValueError(f"{' '.join(names) or 'nothing'} is no league; needed one of {', '.join(PROBLEMS)}")
    problem = names[0]
    chosen, rest = split_choices([_renamed(argument) for argument in arguments if "=" in argument], {"scale": "cpu"})
    scale = chosen["scale"]
    described = composed("league", [f"league_scale={scaled('league_scale', problem, scale)}", *rest])
    part = str(described.part)
    for known_parts in (described.parts, described.budgets):
        if part not in known_parts:
            raise ValueError(f"part={part} is not known; needed one of {', '.join(map(str, known_parts))}")
    config = plain(described)  # budgets refer to the part
    candidates = _candidates(problem, config)
    everyone = tuple(
        candidates.get(name) or Entrant.named(problem, name) for name in dict.fromkeys(strings(config, f"parts.{part}"))
    )
    league = LeagueSpec(
        problem,
        scale,
        part,
        Path(str(config["folder"] or f"leagues/{problem}_{scale}")),
        _chosen(problem, part, everyone, strings(config, "entrants")),
        everyone,
        _budgets(config),
        _conditions(config),
        tuple(override for override in rest if override.partition("=")[0] not in ("part", *PRACTICAL)),
        _at_once(config),
        None if config["publish"] is None else Path(str(config["publish"])),
        candidates,
    )
    _check(league)
    return league


def _renamed(override: str) -> str:
    """The override with today's name for a setting or a part, and a warning where it has a former one."""
    key, _, value = override.partition("=")
    if key == "words":
        return _warned(override, f"overrides={value}")
    if key == "part" and value in FORMER_PARTS:
        return _warned(override, f"part={FORMER_PARTS[value]}")
    group, dot, name = key.partition(".")
    if group in ("parts", "budgets") and dot:
        part, dot, rest = name.partition(".")
        if part in FORMER_PARTS:
            return _warned(override, f"{group}.{FORMER_PARTS[part]}{dot}{rest}={value}")
    return override


def _warned(former: str, override: str) -> str:
    warnings.warn(
        f"{former} is now {override}; the former name goes with the next release", FutureWarning, stacklevel=4
    )
    return override


def _candidates(problem: str, config: Config) -> dict[str, Entrant]:
    """All entrants that a configuration can name: recipes, those of ours also staggered, and variants."""
    recipes = known_names(problem)
    entrants = [Entrant.named(problem, name) for name in recipes]
    entrants += [Entrant.named(problem, f"{each.name}{STAGGERED}") for each in entrants if each.ours]
    variants = config["variants"]
    if not isinstance(variants, Mapping):
        raise ValueError(f"variants={variants} must give each variant its base, label and overrides")
    entrants += [Entrant.variant(problem, str(name), description) for name, description in variants.items()]
    shared = strings(config, "overrides")
    widths = {str(name): strings(config, f"widths.{name}") for name in config["widths"]}
    return {
        each.name: replace(each, overrides=(*shared, *widths.get(each.model, ()), *each.overrides)) for each in entrants
    }


def _chosen(problem: str, part: str, everyone: Sequence[Entrant], names: Sequence[str]) -> tuple[Entrant, ...]:
    """The entrants of this call."""
    known = [entrant.name for entrant in everyone]
    for name in names:
        if name not in known:
            Entrant.named(problem, name)
            raise ValueError(f"{name} is not in parts.{part}={known}, of which entrants are a part")
    if not names:
        raise ValueError(f"entrants=[] of part {part}; needed some of {known}")
    return tuple(entrant for entrant in everyone if entrant.name in names)


def _conditions(config: Config) -> Conditions:
    warmup = None if config["warmup"] is None else number(config, "warmup")
    if warmup is not None and not 0 <= warmup < 1:
        raise ValueError(f"warmup={warmup} must be a part of the steps, from 0 on and below 1, or null")
    return Conditions(
        simulations=counts(config, "simulations"),
        native=flag(config, "native"),
        horizon=integer(config, "horizon"),
        batch_size=integer(config, "batch_size"),
        threads=integer(config, "threads"),
        warmup=warmup,
    )


def _at_once(config: Config) -> int:
    """Trainings at a time."""
    if config["jobs"] is not None:
        return integer(config, "jobs", least=0)
    return 1 if torch.cuda.is_available() else max(1, cores() // integer(config, "threads"))


def _check(league: LeagueSpec) -> None:
    """Refuse overrides of entrants that the league would overwrite."""
    decided = (*DECIDED, *([] if league.conditions.warmup is None else ["optimizer.warmup"]))
    for entrant in league.everyone:
        for override in entrant.overrides:
            if override.partition("=")[0].lstrip("+") in decided:
                raise ValueError(f"{override} of {entrant.name} is what the league decides, by its own settings")


def _budgets(config: Config) -> Budgets:
    rates = config["rates"] if isinstance(config["rates"], list) else []
    if not rates or not all(_positive(rate) for rate in rates) or len({f"{rate:g}" for rate in rates}) < len(rates):
        raise ValueError(f"rates={config['rates']} must be different learning rates, for example rates=[1e-3,3e-3]")
    minutes = None if config["minutes"] is None else number(config, "minutes")
    if minutes is not None and not minutes > 0:
        raise ValueError(f"minutes={minutes} must be positive, or null")
    return Budgets(
        samples=integer(config, "samples"),
        minutes=minutes,
        tuning_samples=integer(config, "tuning_samples"),
        rates=tuple(map(float, rates)),
        wider=integer(config, "wider", least=0),
        finalists=integer(config, "finalists"),
        seeds=integer(config, "seeds"),
        best=integer(config, "best", least=0),
    )


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


__getattr__ = former_names(__name__)
