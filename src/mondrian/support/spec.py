"""Specs: small frozen dataclasses that say what to build, in JSON as in Python.

`SeparableMixture(terms=64)` in Python is `{"spec": "SeparableMixture", "terms": 64}` in a file. A file can only name
subclasses of `Spec`, ours and those of `plugins`: reading it builds descriptions and runs nothing else.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from mondrian.support.plugins import VARIABLE, load_plugins

OURS = (
    "mondrian.losses",
    "mondrian.data",
    "mondrian.surrogate",
)  # they bring all specs that a file may name
PLAIN = (int, float, bool, str)


@dataclass(frozen=True)
class Spec:
    """The base of everything that a configuration may describe.

    Sequences become tuples and NumPy's numbers become Python's, so that a spec read from JSON or Hydra equals the one
    written in Python. Values that do not fit the annotation of their field are refused, in Python as in files.

    >>> from mondrian import Grid
    >>> Spec.from_json(Grid(extent=(2.0, 1.0)).to_json())
    Grid(extent=(2.0, 1.0), points=(), periodic=(False, False), origin=(0.0, 0.0), ends=(0, 0))
    """

    __no_type_check__ = True  # run-time checks would see arguments before sequences become tuples

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            plain = _plain(value)
            if plain is not value:
                object.__setattr__(self, field.name, plain)
        if not _is_traced():
            self._check_types()

    def _check_types(self) -> None:
        try:
            hints = _hints(type(self))  # type: ignore[arg-type]  # mypy takes a class for one of its instances
        except (NameError, AttributeError):  # an annotation names a local class, or one that is defined later
            return
        for name, hint in hints.items():
            _check(type(self).__name__, name, getattr(self, name), hint)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that `from_json` turns back into an equal spec."""
        self._check_types()  # again: a subclass may replace `__post_init__`
        values = {field.name: encode(getattr(self, field.name)) for field in fields(self)}
        return {"spec": type(self).__name__, **values}

    @staticmethod
    def from_json(value: Any) -> Spec:
        """The spec that `value` describes; `ValueError` for unknown names or arguments that do not fit."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{value!r} is not a spec; needed a mapping such as {{'spec': 'Mixture', 'terms': 8}}")
        arguments = {key: decode(item) for key, item in value.items() if key != "spec"}
        name = value.get("spec")
        kind = spec_class(name)
        hints = _hints(kind)  # type: ignore[arg-type]
        for key, item in arguments.items():
            if key not in hints:
                raise ValueError(f"{name} has no argument {key!r}; needed one of {list(hints)}")
            _check(kind.__name__, key, item, hints[key])
        try:
            return kind(**arguments)
        except TypeError as error:  # an argument is missing
            raise ValueError(f"{value!r} does not describe a {name}: {error}") from error


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


def spec_class(name: Any) -> type[Spec]:
    """The class of this name."""
    for module in OURS:
        import_module(module)
    load_plugins()
    known = _subclasses(Spec)
    matches = {
        (kind.__module__, kind.__qualname__): kind for kind in known if kind.__name__ == name
    }  # the last of each
    if not matches:
        near = difflib.get_close_matches(str(name), {kind.__name__ for kind in known})
        meant = f"; did you mean {' or '.join(near)}?" if near else ";"
        raise ValueError(f"spec={name!r} is not known{meant} name your own modules in {VARIABLE}")
    if len(matches) > 1:
        names = sorted(".".join(match) for match in matches)
        raise ValueError(f"spec={name!r} is ambiguous: {names}; needed one class of this name")
    return next(iter(matches.values()))


def _plain(value: Any) -> Any:
    """Sequences as tuples, NumPy's arrays and scalars as Python's, which can be stored."""
    if type(value).__module__ == "numpy":  # NumPy need not be imported for this test
        value = value.tolist()
    if type(value) is tuple and all(type(item) in PLAIN for item in value):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(_plain(item) for item in value)
    return value


def _is_traced() -> bool:
    """Whether a compiler traces the code. Grids then hold symbols, whose types cannot be checked."""
    import torch  # late: the command answers before it is imported

    return torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined]


def _check(kind: str, name: str, value: Any, hint: Any) -> None:
    if not _fits(value, hint):
        raise ValueError(f"{kind} has {name}={value!r}; needed {inspect.formatannotation(hint)}")


@cache
def _hints(kind: type[Spec]) -> dict[str, Any]:
    """The types of the arguments. `typing.get_type_hints` ignores classes with `__no_type_check__`."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        hints |= inspect.get_annotations(base, eval_str=True)
    return {field.name: hints[field.name] for field in fields(kind)}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has an annotated type: a spec, a plain type, or a tuple or union of these."""
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    origin, options = get_origin(hint), get_args(hint)
    if origin is tuple:
        return isinstance(value, tuple) and _all_fit(value, options)
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in options)
    if origin is Literal:
        return value in options
    kind = origin or hint
    is_known = isinstance(kind, type) and kind is not Any
    return not is_known or isinstance(value, kind)


def _all_fit(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if hints[1:] == (...,):
        return all(_fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(_fits, values, hints))


def _subclasses(kind: type[Spec]) -> list[type[Spec]]:
    return [child for direct in kind.__subclasses__() for child in (direct, *_subclasses(direct))]
