"""Specs: small frozen dataclasses that say what to build, and stand in JSON as plainly as in Python.

`SeparableMixture(terms=64)` in Python is `{"spec": "SeparableMixture", "terms": 64}` in a file. Only
subclasses of `Spec` can be named there, ours and those of `plugins`, so that reading a file builds descriptions and
runs nothing else.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, get_args, get_origin

from mondrian.plugins import VARIABLE, load_plugins

OURS = (
    "mondrian.losses",
    "mondrian.meshes",
    "mondrian.surrogate",
)  # they bring all specs that a file may name


@dataclass(frozen=True)
class Spec:
    """Base of everything that a configuration may describe.

    Sequences become tuples, so that a spec read from JSON or Hydra equals the one written in Python.

    >>> from mondrian import Grid
    >>> Spec.from_json(Grid(extent=(2.0, 1.0)).to_json())
    Grid(extent=(2.0, 1.0), points=(), periodic=(False, False), origin=(0.0, 0.0), ends=(0, 0))
    """

    __no_type_check__ = True  # the tests' run-time checks would see arguments before sequences become tuples

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
    def from_json(value: Any) -> Spec:
        """The spec that `value` describes; unknown names, and arguments that do not fit, raise `ValueError`."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{value!r} describes no spec; needed a mapping such as {{'spec': 'Mixture', 'terms': 8}}")
        arguments = {key: decode(item) for key, item in value.items() if key != "spec"}
        name = value.get("spec")
        kind = _named(name)
        hints = _hints(kind)
        for key, item in arguments.items():
            if key not in hints:
                raise ValueError(f"{name} has no argument {key!r}; it takes {list(hints)}")
            if not _fits(item, hints[key]):
                raise ValueError(f"{name} has {key}={item!r}; needed {inspect.formatannotation(hints[key])}")
        try:
            return kind(**arguments)
        except TypeError as error:  # an argument is missing
            raise ValueError(f"{value!r} describes no {name}: {error}") from error


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


def _named(name: Any) -> type[Spec]:
    """The one class of that name."""
    for module in OURS:
        import_module(module)
    load_plugins()
    known = _subclasses(Spec)
    found = {(kind.__module__, kind.__qualname__): kind for kind in known if kind.__name__ == name}  # the last of each
    if not found:
        near = difflib.get_close_matches(str(name), {kind.__name__ for kind in known})
        meant = f"; did you mean {' or '.join(near)}?" if near else ";"
        raise ValueError(f"spec={name!r} is not known{meant} modules of your own are named in {VARIABLE}")
    if len(found) > 1:
        raise ValueError(f"spec={name!r} is the name of several: {sorted('.'.join(place) for place in found)}")
    return next(iter(found.values()))


def _hints(kind: type[Spec]) -> dict[str, Any]:
    """The types of the arguments. Not `typing.get_type_hints`, which is blind to classes with `__no_type_check__`."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        hints |= inspect.get_annotations(base, eval_str=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a decoded value is of an annotated type: a spec, a plain type, or tuples and unions of those."""
    options = get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(item, options[0]) for item in value)
    if options:
        return any(_fits(value, option) for option in options)
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    return isinstance(value, hint)


def _subclasses(kind: type[Spec]) -> list[type[Spec]]:
    return [child for direct in kind.__subclasses__() for child in (direct, *_subclasses(direct))]
