"""Specs: small frozen dataclasses that say what to build, and stand in JSON as plainly as in Python.

`SeparableMixture(terms=64)` in Python is `{"spec": "SeparableMixture", "terms": 64}` in a file. Only
subclasses of `Spec` can be named there, so that reading a file builds descriptions and runs nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Spec:
    """Base of everything that a configuration may describe.

    Sequences become tuples, so that a spec read from JSON or Hydra equals the one written in Python.

    >>> from mondrian import Grid
    >>> Spec.from_json(Grid(extent=(2.0, 1.0)).to_json())
    Grid(extent=(2.0, 1.0), points=(), periodic=(False, False), origin=(0.0, 0.0))
    """

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Sequence) and not isinstance(value, str | tuple):
                object.__setattr__(self, field.name, tuple(value))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that `from_json` turns back into an equal spec."""
        values = {field.name: encode(getattr(self, field.name)) for field in fields(self)}
        return {"spec": type(self).__name__, **values}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Spec:
        """The spec that `value` describes; unknown names and arguments raise `ValueError`."""
        arguments = dict(value)
        name = arguments.pop("spec", None)
        known = {kind.__name__: kind for kind in _subclasses(Spec)}
        if name not in known:
            raise ValueError(f"spec={name!r} is not known; needed one of {sorted(known)}")
        kind = known[name]
        unknown = sorted(set(arguments) - {field.name for field in fields(kind)})
        if unknown:
            raise ValueError(f"{name} has no argument {unknown[0]!r}; it takes {[f.name for f in fields(kind)]}")
        return kind(**{key: decode(item) for key, item in arguments.items()})


def encode(value: Any) -> Any:
    """Specs, tuples of them and plain values as JSON values."""
    if isinstance(value, Spec):
        return value.to_json()
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{value!r} cannot be stored; needed a spec, number, string, bool, None or a tuple of them")


def decode(value: Any) -> Any:
    """The inverse of `encode`."""
    if isinstance(value, Mapping):
        return Spec.from_json(value)
    if isinstance(value, list | tuple):
        return tuple(decode(item) for item in value)
    return value


def _subclasses(kind: type[Spec]) -> list[type[Spec]]:
    return [child for direct in kind.__subclasses__() for child in (direct, *_subclasses(direct))]
