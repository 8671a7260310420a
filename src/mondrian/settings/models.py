"""Models as recipes describe them: what their settings leave open is decided by the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from mondrian.artefact import ModelSpec
from mondrian.grid import Grid
from mondrian.models import FieldSpec
from mondrian.settings.former import spec_of_call
from mondrian.settings.values import MISSING, is_integer
from mondrian.support.spec import Spec, spec_class


@dataclass(frozen=True)
class ModelSettings:
    """The settings of a model, `{"spec": "ViTNO", "hidden_channels": 64, "in_channels": "???"}`."""

    values: Mapping[str, Any]

    @property
    def kind(self) -> type[Spec] | None:
        """The class that describes the model; None of a function of one's own that makes it."""
        name = str(self.values.get("spec"))
        if name == MISSING:
            raise ValueError("model.spec is missing; needed the name of a spec, for example model.spec=ViTNO")
        return None if "." in name else spec_class(name)

    def spec(self) -> ModelSpec:
        """The model's spec; `ValueError` where a setting is unknown, does not fit, or is left open."""
        kind, name = self.kind, str(self.values["spec"])
        if kind is None:
            return spec_of_call(name, {key: value for key, value in self.values.items() if key != "spec"})
        known = [field.name for field in fields(kind)]
        if foreign := [key for key in self.values if key not in ("spec", *known)]:
            advice = (
                ""
                if kind.__module__.startswith("mondrian.")
                else (". The recipe brings settings of its own model: those of fno fit all")
            )
            raise ValueError(f"{name} has no {', '.join(foreign)}; it has {known}{advice}")
        if missing := [key for key, value in self.values.items() if value == MISSING]:
            raise ValueError(f"model.{missing[0]} is missing; needed a value")
        spec = Spec.from_json(self.values)
        if not isinstance(spec, ModelSpec):
            raise ValueError(f"model.spec={name} is no model; needed a ModelSpec")
        return spec.resolved()

    def with_channels(self, *, in_channels: Sequence[str], out_channels: Sequence[str]) -> ModelSettings:
        """The same with the channels of the data where they are left open."""
        channels = {"in_channels": len(in_channels), "out_channels": len(out_channels)}
        return ModelSettings({**self.values, **{k: n for k, n in channels.items() if self.values.get(k) == MISSING}})

    def on_grid(self, grid: Grid) -> FieldSpec:
        """The spec of a model of fields on the box of a grid, cut into subdomains that fit where that is left open."""
        if self.kind is not None and not issubclass(self.kind, FieldSpec):
            raise ValueError(f"model.spec={self.kind.__name__} is no model of fields on grids; needed a FieldSpec")
        values = {**self.values, "grid": Grid(grid.extent, periodic=grid.periodic, origin=grid.origin).to_json()}
        if values.get("subdomains", ()) in (None, MISSING):
            values["subdomains"] = default_subdomains(grid)
        try:
            spec = ModelSettings(values).spec()
        except ValueError as error:
            raise ValueError(_unfit(values, grid.dim, error)) from error
        assert isinstance(spec, FieldSpec)
        return spec


def _unfit(model: Mapping[str, Any], dim: int, error: ValueError) -> str:
    """What is wrong with a model: most often that its settings are those of a domain with other axes."""
    lists = {key: value for key, value in model.items() if isinstance(value, list)}
    sizes = {f"model.{key}": value for key, value in lists.items() if all(is_integer(n, least=0) for n in value)}
    wrong = {key: value for key, value in sizes.items() if len(value) not in (0, dim)}
    if wrong:
        given = " ".join(f"{key}={value}" for key, value in wrong.items())
        needed = " ".join(f"{key}={[value[0]] * dim}" for key, value in wrong.items())
    elif "axes; the model has" in str(error) and "dim" not in model:  # that of gt and factformer is a default
        given, needed = f"model.spec={model['spec']} has another dim", f"+model.dim={dim}"
    else:
        return f"model.spec={model['spec']}: {error}"
    return f"{given}; the grid of the data has {dim} axes: needed for example {needed}".replace(", ", ",")


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
