"""Values of a configuration: each reader checks the type of a setting, and its `ValueError` names the setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from mondrian.settings.compose import parsed
from mondrian.support.spec import Spec

Setting = TypeVar("Setting")
S = TypeVar("S", bound=Spec)
Config = Mapping[str, Any]  # as `conf` has it: nested, `optimizer.lr` is `config["optimizer"]["lr"]`
Readers = Mapping[str, Callable[[Config, str], Any]]
MISSING = "???"


def select(config: Config, key: str) -> Any:
    """The value of a setting, `optimizer.lr` and the like; None where it is missing or left open."""
    value: Any = config
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return None if value == MISSING else value


def read_overrides(overrides: Sequence[str], readers: Readers) -> dict[str, Any]:
    """Overrides `key=value` alone, each with the reader of its key.

    >>> readers = {"points": resolutions, "split": string, "horizon": integer}
    >>> read_overrides(["points=[[32,32]]", "split=valid"], readers)
    {'points': ((32, 32),), 'split': 'valid'}
    """
    config = parsed(overrides)
    return {key: readers[key](config, key) for key in map(str, config)}


def integer(config: Config, key: str, *, least: int = 1) -> int:
    """A whole number."""
    value = select(config, key)
    if not is_integer(value, least=least):
        raise ValueError(f"{key}={value} must be a whole number from {least} on")
    return value


def is_integer(value: Any, *, least: int = 1) -> bool:
    """Whether this is a whole number, which a yes or no is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def number(config: Config, key: str) -> float:
    """A number."""
    value = select(config, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key}={value} must be a number")
    return float(value)


def flag(config: Config, key: str) -> bool:
    """A yes or no."""
    value = select(config, key)
    if not isinstance(value, bool):
        raise ValueError(f"{key}={value} must be true or false")
    return value


def string(config: Config, key: str) -> str:
    """A string that is not empty."""
    value = select(config, key)
    if value is None or value == "":
        raise ValueError(f"{key} is empty; needed a value, for example {key}=...")
    return str(value)


def strings(config: Config, key: str) -> tuple[str, ...]:
    """A list of strings."""
    value = select(config, key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key}={value} must be a list of strings, for example {key}=[u]")
    return tuple(value)


def numbers(config: Config, key: str) -> tuple[float, ...]:
    """A list of numbers."""
    value = select(config, key)
    real = isinstance(value, list) and not any(isinstance(part, bool) for part in value)
    if not real or not all(isinstance(part, int | float) for part in value):
        raise ValueError(f"{key}={value} must be a list of numbers, for example {key}=[0.7,0.2,0.1]")
    return tuple(map(float, value))


def resolution(config: Config, key: str) -> tuple[int, ...]:
    """The points along all axes."""
    value = select(config, key)
    if not isinstance(value, list) or not value or not all(is_integer(size) for size in value):
        raise ValueError(f"{key}={value} must list the points of each axis, for example {key}=[32,32]")
    return tuple(value)


def resolutions(config: Config, key: str) -> tuple[tuple[int, ...], ...]:
    """A list of resolutions, each the points along all axes."""
    value = select(config, key)
    lists = isinstance(value, list) and value and all(isinstance(sizes, list) and sizes for sizes in value)
    if not lists or not all(is_integer(size) for sizes in value for size in sizes):
        raise ValueError(f"{key}={value} must list resolutions, for example {key}=[[32,32],[64,64]]")
    return tuple(map(tuple, value))


def counts(config: Config, key: str) -> dict[str, int]:
    """A number from 0 on for each split."""
    return per_split(config, key, partial(integer, least=0))


def per_split(config: Config, key: str, read: Callable[[Config, str], Setting]) -> dict[str, Setting]:
    """A setting for each split."""
    value = select(config, key)
    if not isinstance(value, Mapping):
        raise ValueError(f"{key}={value} must give a value for each split, for example {key}.train=...")
    return {str(split): read(config, f"{key}.{split}") for split in value}


def spec_of(config: Config, key: str, kind: type[S]) -> S:
    """The spec that a part of the configuration describes."""
    spec = Spec.from_json(select(config, key))
    if not isinstance(spec, kind):
        raise ValueError(f"{key}={spec} is no {kind.__name__}")
    return spec
