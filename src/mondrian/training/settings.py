"""From words on the command line to the settings of a run: one configuration, checked before anything starts."""

from __future__ import annotations

import difflib
import os
import re
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_module
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf

from mondrian.data.datasets import Window
from mondrian.data.generate import generate, plan
from mondrian.data.manifest import FILE, Manifest
from mondrian.data.sources import Files, WellFiles
from mondrian.data.splits import Splits
from mondrian.process import is_first
from mondrian.recipes import recipe_names
from mondrian.spec import Spec

CHOICES = {"experiment": "custom", "scale": "paper"}


def configure(words: Sequence[str]) -> DictConfig:
    """The configuration that overrides such as `experiment=allen_cahn/vit_mo scale=cpu` describe.

    The scale of a run goes with its data set: `scale=cpu` is `conf/scale/allen_cahn_cpu.yaml` there.
    """
    if not words:
        raise ValueError(
            "nothing to train is named; needed experiment=... of `mondrian models`, or data=files data.path=..."
        )
    chosen = dict(CHOICES)
    rest = []
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{word!r} is no setting; needed words such as max_steps=1000")
        if key in chosen:
            chosen[key] = value
        else:
            rest.append(word)
    given = dict(word.split("=", 1) for word in rest)
    if given.get("data") == "meshes" and chosen["experiment"] == CHOICES["experiment"]:
        chosen["experiment"] = "meshes"
    data = given.get("data", chosen["experiment"].split("/")[0] if "/" in chosen["experiment"] else "files")
    folder = Path(str(files("mondrian") / "conf"))
    known = sorted(path.stem for path in (folder / "scale").glob(f"{data}_*.yaml"))
    if not known:
        names = sorted(path.stem for path in (folder / "data").glob("*.yaml"))
        raise ValueError(f"data={data} is not known; needed one of {', '.join(names)}")
    if f"{data}_{chosen['scale']}" not in known:
        scales = ", ".join(name.removeprefix(f"{data}_") for name in known)
        raise ValueError(f"scale={chosen['scale']} is not known; needed one of {scales}")
    words = [f"experiment={chosen['experiment']}", f"scale={data}_{chosen['scale']}", *rest]
    if "/" in chosen["experiment"] and chosen["experiment"] not in recipe_names():
        raise ValueError(f"no recipe {chosen['experiment']!r}{_nearest(chosen['experiment'], recipe_names())}")
    config = _compose(words)
    OmegaConf.update(config, "run", config.run or default_folder(chosen["experiment"], chosen["scale"]))
    if config.data.path is None and config.data.reader is None and "problem" in config.data:
        OmegaConf.update(config, "data.path", f"data/{data}_{chosen['scale']}")
        OmegaConf.update(config, "data.make", True, force_add=True)
    return config


def _compose(words: Sequence[str]) -> DictConfig:
    with initialize_config_module("mondrian.conf", version_base="1.3"):
        try:
            return compose("train", list(words))
        except ConfigCompositionException as error:
            found = re.search(r"Could not override '([^']+)'", str(error))
            if found is None:
                raise
            rest = [word for word in words if word.partition("=")[0] != found[1]]
            raise ValueError(f"no setting {found[1]!r}{_nearest(found[1], _keys(compose('train', rest)))}") from error


def _keys(config: DictConfig, prefix: str = "") -> list[str]:
    """All settings, `optimizer.lr` and the like."""
    found = []
    for key in map(str, config):
        found.append(f"{prefix}{key}")
        if not OmegaConf.is_missing(config, key) and OmegaConf.is_dict(config[key]):
            found += _keys(config[key], f"{prefix}{key}.")
    return found


def _nearest(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word, known, n=3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def check_setting(config: DictConfig, key: str) -> None:
    """Refuse a name that a configuration does not have, with those that may have been meant."""
    if key not in CHOICES and key not in _keys(config):
        raise ValueError(f"no setting {key!r}{_nearest(key, _keys(config))}")


def default_folder(experiment: str, scale: str) -> str:
    """Where a run goes that names no folder."""
    return f"runs/{experiment}" + ("" if scale == "paper" else f"_{scale}")


def spec_of(config: DictConfig, key: str, kind: type[Spec]) -> Any:
    """The spec that a part of the configuration describes."""
    found = Spec.from_json(OmegaConf.to_container(config[key], resolve=True))
    if not isinstance(found, kind):
        raise ValueError(f"{key}={found} is no {kind.__name__}")
    return found


def whole(config: DictConfig, key: str, *, least: int = 1) -> int:
    """A whole number of the configuration."""
    value = OmegaConf.select(config, key)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{key}={value} must be a whole number from {least} on")
    return value


def flag(config: DictConfig, key: str) -> bool:
    """A yes or no of the configuration."""
    value = OmegaConf.select(config, key)
    if not isinstance(value, bool):
        raise ValueError(f"{key}={value} must be true or false")
    return value


def number(config: DictConfig, key: str) -> float:
    """A number of the configuration."""
    value = OmegaConf.select(config, key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key}={value} must be a number")
    return float(value)


def words_of(config: DictConfig, key: str) -> tuple[str, ...]:
    """A list of words of the configuration."""
    value = OmegaConf.select(config, key)
    if not OmegaConf.is_list(value) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{key}={value} must be a list of words, for example {key}=[u]")
    return tuple(value)


def splits_of(config: DictConfig, *, progress: bool) -> Splits:
    """The data set of a configuration, simulated first where it is ours and its folder was not given."""
    data = config.data
    for key in ("input", "target"):
        if OmegaConf.is_missing(data, key):
            raise ValueError(f"data.{key} is missing; needed names of fields, for example data.{key}=[u]")
    window = Window(
        input=words_of(config, "data.input"),
        target=words_of(config, "data.target"),
        steps_in=whole(config, "data.steps_in"),
        steps_out=whole(config, "data.steps_out"),
    )
    if data.get("make"):
        _simulate(config, progress=progress)
    described = data.get("reader") is not None
    if described == (data.path is not None):
        raise ValueError("needed one of data.path, a folder, and data.reader, a description of other people's files")
    return Splits(
        files=spec_of(data, "reader", Files) if described else WellFiles(path=str(Path(data.path).resolve())),
        window=window,
        points=tuple(data.train_points or ()),
        simulations=None if data.simulations is None else whole(config, "data.simulations"),
        fractions=tuple(data.fractions),
        seed=whole(config, "data.seed", least=0),
    )


def _simulate(config: DictConfig, *, progress: bool) -> None:
    """Make, or complete, the data set that a configuration describes."""
    from mondrian.data.problems import Problem  # the solvers, which a run on existing files does not need

    problem = spec_of(config.data, "problem", Problem)
    points = {split: [tuple(sizes) for sizes in stored] for split, stored in config.data.points.items()}
    wanted = plan(
        problem,
        seed=0,
        simulations=dict(config.simulations),
        points=points,
        shard_size=whole(config, "shard_size"),
    )
    folder = Path(config.data.path)
    if is_first(os.environ):
        if not (folder / FILE).exists():
            print(f"simulating {sum(wanted.simulations.values()):,} problems to {folder}; data.path=... takes others")
        generate(folder, wanted, progress=progress)
    files = [folder / path for path in wanted.files()]

    def recorded() -> bool:
        return (folder / FILE).exists() and not Manifest.load(folder).missing

    wait_for_files(files, number(config, "trainer.timeout"), folder, done=recorded)


def wait_for_files(
    files: Sequence[Path], seconds: float, folder: Path, *, done: Callable[[], bool] = lambda: True
) -> None:
    """Wait until the first process has made all files, as long as a new one comes every so many seconds."""
    count, since = -1, time.monotonic()
    while (there := sum(path.exists() for path in files)) < len(files) or not done():
        if there > count:
            count, since = there, time.monotonic()
        elif time.monotonic() - since > seconds:
            raise TimeoutError(
                f"{folder} has {there} of {len(files)} files and has had no new one for {seconds:g} s "
                "(trainer.timeout): the first process, which makes them, does not answer"
            )
        time.sleep(1)
