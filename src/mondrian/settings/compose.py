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


def composed(name: str, overrides: Sequence[str]) -> DictConfig:
    """`conf/<name>.yaml` with overrides; one of an unknown setting is an error that suggests near names."""
    for override in overrides:
        parsed_override(override)
    with initialize_config_module("mondrian.conf", version_base="1.3"):
        try:
            return compose(name, list(overrides))
        except ConfigCompositionException as error:
            match = re.search(r"Could not override '([^']+)'", str(error))
            if match is None:
                raise
            rest = [override for override in overrides if override.partition("=")[0] != match[1]]
            raise ValueError(f"no setting {match[1]!r}{nearest(match[1], _keys(compose(name, rest)))}") from error


def plain(config: DictConfig) -> dict[str, Any]:
    """A configuration as plain dictionaries and lists, with all references to other settings replaced."""
    content: dict[str, Any] = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
    return content


def parsed(overrides: Sequence[str]) -> dict[str, Any]:
    """Overrides `key=value` alone, without a file that they change.

    >>> parsed(["points=[32,64]", "memory=false"])
    {'points': [32, 64], 'memory': False}
    """
    read = [parsed_override(override) for override in overrides]
    for text, override in zip(overrides, read, strict=True):
        if override.is_sweep_override():
            raise ValueError(f"{text} holds several values; needed one, or a list in brackets")
    return plain(OmegaConf.create({override.key_or_group: override.value() for override in read}))


def parsed_override(text: str) -> Override:
    """An override as Hydra reads it; a `ValueError` shows how to quote the value where that fails."""
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        key, equals, value = text.partition("=")
        is_key = equals and re.fullmatch(r"[\w.+~/@-]+", key, re.ASCII)
        advice = f"; quotes keep its value as it is: {shell_word(f'{key}={quoted(value)}')}" if is_key else ""
        raise ValueError(f"{text} cannot be read: {one_line(error)}{advice}") from error


def quoted(value: str | Path) -> str:
    """A value for `key=value`, in quotes where Hydra would read anything else than this text.

    >>> quoted("runs/first"), quoted("runs (1)"), quoted("1e3")
    ('runs/first', "'runs (1)'", "'1e3'")
    """
    # OmegaConf looks for ${...} even in quotes; a backslash is the sign that it is meant as it is.
    text = re.sub(r"(\\*)\$\{", r"\1\1\\${", str(value))
    try:
        read = OverridesParser.create().parse_override(f"key={text}").value()
    except HydraException:
        read = None
    return text if read == text else QuotedString(text, Quote.single).with_quotes()


def split_choices(overrides: Sequence[str], defaults: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The values of some settings, their defaults where no override names them, and all other overrides.

    >>> split_choices(["scale=smoke", "seed=1"], {"data": "allen_cahn", "scale": "cpu"})
    ({'data': 'allen_cahn', 'scale': 'smoke'}, ['seed=1'])
    """
    values, others = dict(defaults), []
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise ValueError(f"{override!r} is no setting; needed key=value")
        if key in values:
            values[key] = value
        else:
            others.append(override)
    return values, others


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
    """Refuse a name that a configuration does not have, and suggest near ones."""
    if key not in _keys(config):
        raise ValueError(f"no setting {key!r}{nearest(key, _keys(config))}")


def nearest(name: str, known: Sequence[str]) -> str:
    """Names that may have been meant, as the end of a message."""
    near = difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _keys(config: DictConfig, prefix: str = "") -> list[str]:
    """All settings, `optimizer.lr` and the like."""
    keys = []
    for key in map(str, config):
        keys.append(f"{prefix}{key}")
        if not OmegaConf.is_missing(config, key) and OmegaConf.is_dict(config[key]):
            keys += _keys(config[key], f"{prefix}{key}.")
    return keys
