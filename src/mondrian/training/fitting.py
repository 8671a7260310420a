"""Models and scales that fit a data set."""

from __future__ import annotations

from collections.abc import Sequence

from hydra.errors import InstantiationException
from omegaconf import DictConfig, OmegaConf

from mondrian.artefact import ModelSpec
from mondrian.grid import Grid
from mondrian.models import FieldSpec
from mondrian.settings.recipes import spec_from
from mondrian.settings.values import is_whole, words_of
from mondrian.support.text import one_line
from mondrian.surrogate import SurrogateSpec
from mondrian.training.data import OperatorData
from mondrian.training.normalisation import fit_scales


def surrogate_spec(config: DictConfig, model: ModelSpec, data: OperatorData, *, progress: bool) -> SurrogateSpec:
    """A model with the box of the data set and scales fitted to its training part."""
    in_scales, out_scales = fit_scales(
        data.train, method=str(config.normalise), log=words_of(config, "data.log"), progress=progress
    )
    return data.splits.surrogate(model, data.train, in_scales, out_scales)


def model_spec(config: DictConfig, data: OperatorData) -> FieldSpec:
    """The model of a configuration, fitted to the data where it leaves something open: channels, box, subdomains."""
    model = with_channels(config.model, in_names=data.in_names, out_names=data.out_names)
    grid = data.train.grid
    model.grid = {"_target_": "mondrian.Grid", "extent": grid.extent, "periodic": grid.periodic, "origin": grid.origin}
    if OmegaConf.is_missing(model, "subdomains") or ("subdomains" in model and model.subdomains is None):
        model.subdomains = default_subdomains(grid)
    try:
        spec = spec_from(model)
    except InstantiationException as error:
        raise ValueError(_unfit(model, grid.dim, error.__cause__ or error)) from error
    if not isinstance(spec, FieldSpec):
        raise ValueError(f"model={type(spec).__name__} is no model of fields on grids; needed a FieldSpec")
    return spec


def _unfit(model: DictConfig, dim: int, cause: BaseException) -> str:
    """What is wrong with a model: most often that its settings are those of a domain with other axes."""
    lists = {str(key): value for key, value in model.items() if OmegaConf.is_list(value)}
    sizes = {f"model.{key}": value for key, value in lists.items() if all(is_whole(n, least=0) for n in value)}
    wrong = {key: value for key, value in sizes.items() if len(value) not in (0, dim)}
    if wrong:
        given = " ".join(f"{key}={list(value)}" for key, value in wrong.items())
        wanted = " ".join(f"{key}={[value[0]] * dim}" for key, value in wrong.items())
    elif "axes; the model has" in str(cause) and "dim" not in model:  # that of gt and factformer is a default
        given, wanted = f"model._target_={model._target_} has another dim", f"+model.dim={dim}"
    else:
        return f"model._target_={model._target_}: {one_line(cause)}"
    return f"{given}; the grid of the data has {dim} axes: needed for example {wanted}".replace(", ", ",")


def with_channels(model: DictConfig, *, in_names: Sequence[str], out_names: Sequence[str]) -> DictConfig:
    """A copy of a model's settings with the channels of the data where they are left open."""
    model = model.copy()
    OmegaConf.set_struct(model, False)
    for key, names in {"in_channels": in_names, "out_channels": out_names}.items():
        if OmegaConf.is_missing(model, key):
            model[key] = len(names)
    return model


def check_channels(model: ModelSpec, *, in_names: Sequence[str], out_names: Sequence[str]) -> None:
    """Refuse a model that has other channels than the data."""
    for key, names in {"in_channels": in_names, "out_channels": out_names}.items():
        if getattr(model, key) != len(names):
            raise ValueError(f"model.{key}={getattr(model, key)}; the data set has {len(names)}: {', '.join(names)}")


def default_subdomains(grid: Grid) -> list[int]:
    """At most eight along each axis, such that the cuts divide the points and leave four or more in each.

    >>> default_subdomains(Grid(extent=(1.0, 1.0, 1.0), points=(64, 30, 16)))
    [8, 6, 4]
    """
    counts = []
    for points in grid.points:
        fitting = [count for count in range(1, 9) if points % count == 0 and points // count >= min(4, points)]
        counts.append(fitting[-1])
    return counts
