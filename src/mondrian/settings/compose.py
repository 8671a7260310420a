"""From overrides such as `max_steps=1000` to a configuration: the only place where Hydra composes files of `conf`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig, OmegaConf

from mondrian.support.text import one_line, shell_word


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


def plain(config: DictConfig) -> dict[str, Any]:
    """A configuration as plain dictionaries and lists, with all references to other settings replaced."""
    content: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    return content


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
