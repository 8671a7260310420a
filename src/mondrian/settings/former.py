"""`_target_`, the former way to name a model, an operator or a position: it works for one more release.

`model._target_=mondrian.vit_no` is now `model.spec=ViTNO`, and `{_target_: mondrian.Gaze}` is `{spec: Gaze}`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from hydra.utils import get_object

from mondrian.artefact import ModelSpec
from mondrian.support.spec import Spec, decode

_TARGET = re.compile(r"(^[^=]*\.|[{,]\s*)_target_(\s*[:=]\s*)([\w.]+)")  # as a key, or within a dictionary

FACTORIES = {
    "factformer": "FactFormerSpec",
    "fano": "FANOSpec",
    "ffno": "FFNOSpec",
    "fno": "FNOSpec",
    "galerkin_transformer": "GalerkinSpec",
    "nbr_no": "NbrNO",
    "point_no": "PointNO",
    "swin_no": "SwinNO",
    "unet_no": "UNetNO",
    "vit_no": "ViTNO",
}


def current_overrides(overrides: Iterable[str], *, warn: bool = True) -> list[str]:
    """Overrides with `X.spec=Name` in the place of `X._target_=module.Name`, in lists and dictionaries as well.

    >>> current_overrides(["model._target_=mondrian.vit_no", "+positions=[{_target_: mondrian.Gaze}]"], warn=False)
    ['model.spec=ViTNO', '+positions=[{spec: Gaze}]']
    """
    return [_current_override(override, warn=warn) for override in overrides]


def _current_override(override: str, *, warn: bool) -> str:
    current = _TARGET.sub(lambda match: f"{match[1]}spec{match[2]}{spec_name(match[3])}", override)
    if warn and current != override:
        _warn(override, current)
    return current


def current_config(config: Any, *, warn: bool = True) -> Any:
    """A configuration with `spec: Name` in the place of `_target_: module.Name`, wherever it stands."""
    if isinstance(config, list):
        return [current_config(item, warn=warn) for item in config]
    if not isinstance(config, Mapping):
        return config
    current = {key: current_config(value, warn=warn) for key, value in config.items() if key != "_target_"}
    target = config.get("_target_")
    if target is None:
        return current
    name = spec_name(target) if target != "???" else target
    if warn:
        _warn(f"_target_: {target}", f"spec: {name}")
    return {"spec": name} | current


def spec_name(target: str) -> str:
    """The name of the spec that a `_target_` makes; a function of one's own has none, and is called by its path."""
    module, _, name = target.rpartition(".")
    if module.partition(".")[0] == "mondrian":
        return FACTORIES.get(name, name)
    try:
        made = get_object(target)
    except (ImportError, ValueError):  # of a run whose plug-ins are elsewhere
        return name or target
    return name if isinstance(made, type) and issubclass(made, Spec) else target


def spec_of_call(path: str, settings: Mapping[str, Any]) -> ModelSpec:
    """The spec of the model that a function of one's own makes."""
    with torch.device("meta"):
        made = get_object(path)(**{key: decode(value) for key, value in settings.items()})
    spec = made if isinstance(made, ModelSpec) else getattr(made, "spec", None)
    if not isinstance(spec, ModelSpec):
        raise ValueError(f"{path} makes a {type(made).__name__}; needed a ModelSpec, or its model")
    return spec


def _warn(former: str, current: str) -> None:
    warnings.warn(f"{former} is now {current}; the former name goes with the next release", FutureWarning, stacklevel=2)
