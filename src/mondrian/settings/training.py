"""The configuration of a training run: what overrides such as `experiment=allen_cahn/vit_mo scale=cpu` describe."""

from __future__ import annotations

from collections.abc import Sequence

from omegaconf import DictConfig, OmegaConf

from mondrian.settings.compose import choices, composed, nearest, scaled, scales, split_choices
from mondrian.settings.former import current_overrides
from mondrian.settings.recipes import recipe_names

CHOICES = {"experiment": "custom", "scale": "paper"}


def configure(overrides: Sequence[str]) -> DictConfig:
    """The configuration that overrides such as `experiment=allen_cahn/vit_mo scale=cpu` describe.

    The scale of a run goes with its data set: `scale=cpu` is `conf/scale/allen_cahn_cpu.yaml` there.
    """
    if not overrides:
        raise ValueError(
            "nothing to train is named; needed experiment=... of `mondrian models`, or data=files data.path=..."
        )
    chosen, rest = split_choices(current_overrides(overrides), CHOICES)
    given = dict(override.split("=", 1) for override in rest)
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
