"""From words on the command line to the settings of a run: one configuration, checked before anything starts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from mondrian.data.generate import generate, plan
from mondrian.data.manifest import FILE, Manifest
from mondrian.data.sources import Files, WellFiles
from mondrian.data.splits import Splits
from mondrian.settings.compose import choices, composed, nearest, scaled, scales, taken
from mondrian.settings.recipes import recipe_names
from mondrian.settings.values import counts, each, number, numbers, resolution, resolutions, spec_of, whole, words_of
from mondrian.support.process import is_first
from mondrian.surrogate import Window
from mondrian.training.normalisation import check_log, check_method

CHOICES = {"experiment": "custom", "scale": "paper"}


def configure(words: Sequence[str]) -> DictConfig:
    """The configuration that overrides such as `experiment=allen_cahn/vit_mo scale=cpu` describe.

    The scale of a run goes with its data set: `scale=cpu` is `conf/scale/allen_cahn_cpu.yaml` there.
    """
    if not words:
        raise ValueError(
            "nothing to train is named; needed experiment=... of `mondrian models`, or data=files data.path=..."
        )
    chosen, rest = taken(words, CHOICES)
    given = dict(word.split("=", 1) for word in rest)
    if given.get("data") == "meshes" and chosen["experiment"] == CHOICES["experiment"]:
        chosen["experiment"] = "meshes"
    experiment, scale = chosen["experiment"], chosen["scale"]
    data = given.get("data", experiment.split("/")[0] if "/" in experiment else "files")
    if not scales("scale", data):
        raise ValueError(f"data={data} is not known; needed one of {', '.join(choices('data'))}")
    file = scaled("scale", data, scale)
    if "/" in experiment and experiment not in recipe_names():
        raise ValueError(f"no recipe {experiment!r}{nearest(experiment, recipe_names())}")
    config = composed("train", [f"experiment={experiment}", f"scale={file}", *rest])
    if config.run is None:
        OmegaConf.update(config, "run", default_folder(experiment, scale))
    if config.data.path is None and config.data.reader is None and "problem" in config.data:
        OmegaConf.update(config, "data.path", f"data/{file}")
        OmegaConf.update(config, "data.make", True, force_add=True)
    return config


def default_folder(experiment: str, scale: str) -> str:
    """Where a run goes that names no folder."""
    return f"runs/{experiment}" + ("" if scale == "paper" else f"_{scale}")


def splits_of(config: DictConfig, *, progress: bool) -> Splits:
    """The data set of a configuration, simulated first where it is ours and its folder was not given."""
    data = config.data
    described = data.get("reader") is not None
    if described == (data.path is not None):
        raise ValueError("needed one of data.path, a folder, and data.reader, a description of other people's files")
    splits = Splits(
        files=_described(data) if described else WellFiles(path=str(Path(data.path).resolve())),
        window=window_of(config),
        points=() if data.train_points is None else resolution(config, "data.train_points"),
        simulations=None if data.simulations is None else whole(config, "data.simulations"),
        fractions=numbers(config, "data.fractions"),
        seed=whole(config, "data.seed", least=0),
    )
    if data.get("make"):
        _simulate(config, progress=progress)
    return splits


def window_of(config: DictConfig) -> Window:
    """Which fields go in and which come out, over how many steps."""
    for key in ("input", "target"):
        if OmegaConf.is_missing(config.data, key):
            raise ValueError(f"data.{key} is missing; needed names of fields, for example data.{key}=[u]")
    return Window(
        input=words_of(config, "data.input"),
        target=words_of(config, "data.target"),
        steps_in=whole(config, "data.steps_in"),
        steps_out=whole(config, "data.steps_out"),
    )


def check_scaling(config: DictConfig) -> None:
    """Refuse what is wrong with the scales of the fields before data are made for them."""
    check_method(str(config.normalise))
    log = words_of(config, "data.log")
    if config.data.get("make"):  # fields of others may have channels with names of their own
        check_log(log, fields=(*words_of(config, "data.input"), *words_of(config, "data.target")))


def _described(data: DictConfig) -> Files:
    """Other people's files, found from everywhere; a reader of one's own may know other places than files."""
    found: Files = spec_of(data, "reader", Files)
    return replace(found, path=str(Path(found.path).resolve())) if Path(found.path).exists() else found


def _simulate(config: DictConfig, *, progress: bool) -> None:
    """Make, or complete, the data set that a configuration describes."""
    from mondrian.data.problems import Problem  # the solvers, which a run on existing files does not need

    wanted = plan(
        spec_of(config.data, "problem", Problem),
        seed=0,
        simulations=counts(config, "simulations"),
        points=each(config, "data.points", resolutions),
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
