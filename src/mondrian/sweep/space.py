"""What a sweep varies: the values of each setting, as overrides of Hydra's grammar say them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, RangeSweep

from mondrian.settings.compose import parsed_override
from mondrian.support.libraries import library

FORMS = "choice(a,b), a,b, range(2,8), interval(1e-4,1e-2) or tag(log,interval(1e-4,1e-2))"


@dataclass(frozen=True)
class Choices:
    """Some values, which know no order.

    >>> dimension("model.hidden_channels=8,16")
    Choices(key='model.hidden_channels', values=('8', '16'))
    """

    key: str
    values: tuple[str, ...]

    @property
    def first(self) -> str:
        return self.values[0]

    def distribution(self) -> Any:
        """As Optuna knows it."""
        return _distributions().CategoricalDistribution(self.values)


@dataclass(frozen=True)
class Numbers:
    """Numbers from `low` to `high`, both included: whole ones, multiples of a step, or all.

    >>> dimension("optimizer.lr=tag(log,interval(1e-4,1e-2))")
    Numbers(key='optimizer.lr', low=0.0001, high=0.01, step=None, log=True)
    >>> dimension("model.n_layers=range(2,9,2)")
    Numbers(key='model.n_layers', low=2, high=8, step=2, log=False)
    """

    key: str
    low: float
    high: float
    step: float | None = None
    log: bool = False

    @property
    def first(self) -> str:
        return str(self.low)

    @property
    def values(self) -> tuple[str, ...]:
        """All of them; `ValueError` if they cannot be counted."""
        if self.step is None:
            raise ValueError(f"{self.key}: an interval has no end of values; sampler=grid needs choices or a range")
        count = round((self.high - self.low) / self.step) + 1
        whole = isinstance(self.low, int) and isinstance(self.step, int)
        return tuple(str(self.low + i * self.step if whole else _tidy(self.low + i * self.step)) for i in range(count))

    def distribution(self) -> Any:
        """As Optuna knows it."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            return _distributions().IntDistribution(self.low, self.high, log=self.log, step=int(self.step or 1))
        return _distributions().FloatDistribution(self.low, self.high, log=self.log, step=self.step)


Dimension = Choices | Numbers


def dimension(override: str) -> Dimension:
    """The values that an override gives to a setting; `ValueError` that names the setting where that is not possible.

    Values in a list are choices, numbers too: TPE learns an order only from a range or an interval.
    """
    parsed = parsed_override(override)
    key, values = override.partition("=")[0], parsed.value()
    if getattr(values, "shuffle", False):
        raise ValueError(f"{override}: a shuffled order is another one after a stop; needed sampler=random")
    log = isinstance(values, ChoiceSweep | RangeSweep | IntervalSweep) and "log" in values.tags
    if isinstance(values, ChoiceSweep):
        return Choices(key, tuple(parsed.sweep_string_iterator()))
    if isinstance(values, RangeSweep):
        return _range(override, key, values, log)
    if isinstance(values, IntervalSweep):
        low, high = values.start, values.end
        if low is None or high is None or not low < high or (log and low <= 0):
            raise ValueError(f"{override} is no interval; needed {'0 < ' if log else ''}low < high, in this order")
        whole = isinstance(low, int) and isinstance(high, int)
        return Numbers(key, low, high, step=1 if whole else None, log=log)
    raise ValueError(f"{override} cannot vary like this; needed {FORMS}")


def _range(override: str, key: str, values: RangeSweep, log: bool) -> Numbers:
    numbers = list(values.range()) if values.step else []
    if not numbers:
        raise ValueError(f"{override} is an empty range; needed range(start,stop) or range(start,stop,step)")
    low, high, step = min(numbers), max(numbers), abs(values.step)
    if log and (low <= 0 or step != 1 or not isinstance(low, int)):
        raise ValueError(f"{override}: a logarithmic range needs whole numbers from 1 on in steps of 1")
    return Numbers(key, low, high, step=step, log=log)


def several(override: str) -> bool:
    """Whether an override gives several values."""
    return "=" in override and bool(parsed_override(override).is_sweep_override())


def text(value: Any) -> str:
    """A drawn value as an override has it."""
    return value if isinstance(value, str) else repr(value)


def combinations(dimensions: Sequence[Dimension]) -> int:
    """How many combinations there are."""
    count = 1
    for each in dimensions:
        count *= len(each.values)
    return count


def combination(dimensions: Sequence[Dimension], number: int) -> dict[str, str]:
    """One of all combinations; the last setting varies fastest.

    >>> combination([Choices("a", ("1", "2")), Choices("b", ("x", "y", "z"))], 4)
    {'a': '2', 'b': 'y'}
    """
    chosen = {}
    for each in reversed(dimensions):
        number, place = divmod(number, len(each.values))
        chosen[each.key] = each.values[place]
    return {each.key: chosen[each.key] for each in dimensions}


def _tidy(value: float) -> float:
    return float(f"{value:.12g}")


def _distributions() -> Any:
    return library("optuna.distributions", extra="sweeps")
