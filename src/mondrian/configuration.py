"""Settings as words such as `max_steps=1000`: composed to a configuration, and read from it.

Who reads a setting says of what kind it must be. What does not fit is a `ValueError` that names it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from hydra import compose, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig, OmegaConf

from mondrian.support.spec import Spec
from mondrian.support.text import one_line, shell_word

Setting = TypeVar("Setting")
Readers = Mapping[str, Callable[[DictConfig, str], Any]]


# From words to a configuration


def composed(name: str, words: Sequence[str]) -> DictConfig:
    """`conf/<name>.yaml` with some words; one that fits nothing is an error, which names what may be meant."""
    for word in words:
        override_of(word)
    with initialize_config_module("mondrian.conf", version_base="1.3"):
        try:
            return compose(name, list(words))
        except ConfigCompositionException as error:
            found = re.search(r"Could not override '([^']+)'", str(error))
            if found is None:
                raise
            rest = [word for word in words if word.partition("=")[0] != found[1]]
            raise ValueError(f"no setting {found[1]!r}{nearest(found[1], _keys(compose(name, rest)))}") from error


def parsed(words: Sequence[str]) -> DictConfig:
    """Words `key=value` alone, without a file that they change.

    >>> parsed(["points=[32,64]", "memory=false"])
    {'points': [32, 64], 'memory': False}
    """
    overrides = [override_of(word) for word in words]
    for word, override in zip(words, overrides, strict=True):
        if override.is_sweep_override():
            raise ValueError(f"{word} holds several values; needed one, or a list in brackets")
    return OmegaConf.create({override.key_or_group: override.value() for override in overrides})


def override_of(word: str) -> Override:
    """A word as Hydra reads it; `ValueError` that names it, and shows how to quote its value, where that fails."""
    try:
        return OverridesParser.create().parse_override(word)
    except HydraException as error:
        key, equals, value = word.partition("=")
        plain = equals and re.fullmatch(r"[\w.+~/@-]+", key, re.ASCII)
        advice = f"; quotes keep its value as it is: {shell_word(f'{key}={quoted(value)}')}" if plain else ""
        raise ValueError(f"{word} cannot be read: {one_line(error)}{advice}") from error


def quoted(value: str | Path) -> str:
    """A value for `key=value`, in quotes where Hydra would read anything else than this text.

    >>> quoted("runs/first"), quoted("runs (1)"), quoted("1e3")
    ('runs/first', "'runs (1)'", "'1e3'")
    """
    # OmegaConf looks for ${...} even in quotes; a backslash is the sign that it is meant as it is.
    text = re.sub(r"(\\*)\$\{", r"\1\1\\${", str(value))
    try:
        read = OverridesParser.create().parse_rule(text, "value")
    except HydraException:
        read = None
    return text if read == text else QuotedString(text, Quote.single).with_quotes()


def taken(words: Sequence[str], defaults: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What the words say of some settings, or their defaults; and the other words.

    >>> taken(["scale=smoke", "seed=1"], {"data": "allen_cahn", "scale": "cpu"})
    ({'data': 'allen_cahn', 'scale': 'smoke'}, ['seed=1'])
    """
    said, others = dict(defaults), []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is no setting; needed key=value")
        if key in said:
            said[key] = value
        else:
            others.append(word)
    return said, others


def choices(group: str) -> list[str]:
    """The files of a folder of `conf`, without their ending."""
    folder = files("mondrian.conf") / group
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def scales(group: str, of: str) -> list[str]:
    """The scales that a folder of `conf` has for a problem: `cpu` where there is `allen_cahn_cpu.yaml`."""
    return [name.removeprefix(f"{of}_") for name in choices(group) if name.startswith(f"{of}_")]


def scaled(group: str, of: str, scale: str) -> str:
    """The file of a folder of `conf` that holds a problem at a scale."""
    known = scales(group, of)
    if scale not in known:
        raise ValueError(f"scale={scale} is not known; needed one of {', '.join(known)}")
    return f"{of}_{scale}"


def check_setting(config: DictConfig, key: str) -> None:
    """Refuse a name that a configuration does not have, with those that may have been meant."""
    if key not in _keys(config):
        raise ValueError(f"no setting {key!r}{nearest(key, _keys(config))}")


def nearest(word: str, known: Sequence[str]) -> str:
    """What may have been meant, as the end of a message."""
    near = difflib.get_close_matches(word, known, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _keys(config: DictConfig, prefix: str = "") -> list[str]:
    """All settings, `optimizer.lr` and the like."""
    found = []
    for key in map(str, config):
        found.append(f"{prefix}{key}")
        if not OmegaConf.is_missing(config, key) and OmegaConf.is_dict(config[key]):
            found += _keys(config[key], f"{prefix}{key}.")
    return found


# From a configuration to values


def read_words(words: Sequence[str], readers: Readers) -> dict[str, Any]:
    """Words `key=value` alone, each read as the kind that its key has.

    >>> read_words(["points=[[32,32]]", "split=valid"], {"points": resolutions, "split": word, "horizon": whole})
    {'points': ((32, 32),), 'split': 'valid'}
    """
    config = parsed(words)
    return {key: readers[key](config, key) for key in map(str, config)}


def whole(config: DictConfig, key: str, *, least: int = 1) -> int:
    """A whole number."""
    value = OmegaConf.select(config, key)
    if not is_whole(value, least=least):
        raise ValueError(f"{key}={value} must be a whole number from {least} on")
    return value


def is_whole(value: Any, *, least: int = 1) -> bool:
    """Whether this is a whole number, which a yes or no is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def number(config: DictConfig, key: str) -> float:
    """A number."""
    value = OmegaConf.select(config, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key}={value} must be a number")
    return float(value)


def flag(config: DictConfig, key: str) -> bool:
    """A yes or no."""
    value = OmegaConf.select(config, key)
    if not isinstance(value, bool):
        raise ValueError(f"{key}={value} must be true or false")
    return value


def word(config: DictConfig, key: str) -> str:
    """A word that is not empty."""
    value = OmegaConf.select(config, key)
    if value is None or value == "":
        raise ValueError(f"{key} is empty; needed a word, for example {key}=...")
    return str(value)


def words_of(config: DictConfig, key: str) -> tuple[str, ...]:
    """A list of words."""
    value = OmegaConf.select(config, key)
    if not OmegaConf.is_list(value) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{key}={value} must be a list of words, for example {key}=[u]")
    return tuple(value)


def numbers(config: DictConfig, key: str) -> tuple[float, ...]:
    """A list of numbers."""
    value = OmegaConf.select(config, key)
    real = OmegaConf.is_list(value) and not any(isinstance(part, bool) for part in value)
    if not real or not all(isinstance(part, int | float) for part in value):
        raise ValueError(f"{key}={value} must be a list of numbers, for example {key}=[0.7,0.2,0.1]")
    return tuple(map(float, value))


def resolution(config: DictConfig, key: str) -> tuple[int, ...]:
    """The points along all axes."""
    value = OmegaConf.select(config, key)
    if not OmegaConf.is_list(value) or not value or not all(is_whole(size) for size in value):
        raise ValueError(f"{key}={value} must list the points of each axis, for example {key}=[32,32]")
    return tuple(value)


def resolutions(config: DictConfig, key: str) -> tuple[tuple[int, ...], ...]:
    """A list of resolutions, each the points along all axes."""
    value = OmegaConf.select(config, key)
    lists = OmegaConf.is_list(value) and value and all(OmegaConf.is_list(sizes) and sizes for sizes in value)
    if not lists or not all(is_whole(size) for sizes in value for size in sizes):
        raise ValueError(f"{key}={value} must list resolutions, for example {key}=[[32,32],[64,64]]")
    return tuple(map(tuple, value))


def counts(config: DictConfig, key: str) -> dict[str, int]:
    """A number from 0 on for each split."""
    return each(config, key, partial(whole, least=0))


def each(config: DictConfig, key: str, read: Callable[[DictConfig, str], Setting]) -> dict[str, Setting]:
    """A setting for each split."""
    value = OmegaConf.select(config, key)
    if not OmegaConf.is_dict(value):
        raise ValueError(f"{key}={value} must give a value for each split, for example {key}.train=...")
    return {str(split): read(config, f"{key}.{split}") for split in value}


def spec_of(config: DictConfig, key: str, kind: type[Spec]) -> Any:
    """The spec that a part of the configuration describes."""
    found = Spec.from_json(OmegaConf.to_container(config[key], resolve=True))
    if not isinstance(found, kind):
        raise ValueError(f"{key}={found} is no {kind.__name__}")
    return found
