"""The results of an evaluation, in memory and in files: `metrics.json`, `metrics.csv` and `fields.npz`.

The JSON is valid everywhere: an undefined number (an interval of one value, an error relative to zero) is `null`, and
an infinite error, of a prediction that is not finite, is `1e999`, which Python and browsers read as infinity.
"""

from __future__ import annotations

import io
import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import Shaped

from mondrian.evaluation.entries import OneStep, Trajectories
from mondrian.evaluation.statistics import Summary
from mondrian.evaluation.tables import csv_text, table_text
from mondrian.support.files import write_atomically, write_json

FORMAT = 1
METRICS, TABLE, FIELDS = "metrics.json", "metrics.csv", "fields.npz"


@dataclass(frozen=True)
class Evaluation:
    """All results of one surrogate on one split of a data set, coarsest resolution first.

    `skipped` says which resolutions the model refused and why. `fields` are the arrays for pictures; `load` does not
    read them.
    """

    run: str
    data: str
    split: str
    simulations: int
    seed: int
    in_channels: tuple[str, ...]
    out_channels: tuple[str, ...]
    one_step: tuple[OneStep, ...]
    rollout: tuple[Trajectories, ...] = ()
    skipped: Mapping[tuple[int, ...], str] = field(default_factory=dict)
    fields: Mapping[str, Shaped[np.ndarray, "..."]] = field(default_factory=dict, compare=False, repr=False)

    def table(self) -> str:
        """The errors beside those of the baselines; a ratio is how many times smaller the model's error is."""
        head = f"{self.run or 'model'}: {self.split} split of {self.data}, {self.simulations} simulations"
        return f"{head}\n\n{table_text(self.one_step, self.rollout)}"

    def to_json(self) -> dict[str, Any]:
        """The content of `metrics.json`, where numbers that are not finite are still floats."""
        return {
            "format": FORMAT,
            "run": self.run,
            "data": self.data,
            "split": self.split,
            "simulations": self.simulations,
            "seed": self.seed,
            "channels": {"in": list(self.in_channels), "out": list(self.out_channels)},
            "one_step": [asdict(entry) for entry in self.one_step],
            "rollout": [asdict(entry) for entry in self.rollout],
            "skipped": [{"points": points, "reason": reason} for points, reason in self.skipped.items()],
        }

    def save(self, folder: str | Path) -> None:
        """Write the three files, each of them atomically."""
        folder = Path(folder)
        if self.fields:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **dict(self.fields))  # type: ignore[arg-type]
            write_atomically(folder / FIELDS, buffer.getbuffer())
        write_atomically(folder / TABLE, csv_text(self.one_step, self.rollout).encode())
        write_json(folder / METRICS, self.to_json())

    @staticmethod
    def load(folder: str | Path) -> Evaluation:
        """The numbers that `save` wrote to `folder`; a `ValueError` names a damaged file."""
        path = Path(folder) / METRICS
        try:
            content = json.loads(path.read_text())
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist; needed what `mondrian evaluate` writes") from None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} cannot be read: {error}; {again(path)}") from error
        version = content.get("format") if isinstance(content, dict) else None
        if version != FORMAT:
            raise ValueError(f"{path} has format={version}; needed {FORMAT}, and {again(path)}")
        try:
            return Evaluation(
                run=str(content["run"]),
                data=str(content["data"]),
                split=str(content["split"]),
                simulations=int(content["simulations"]),
                seed=int(content["seed"]),
                in_channels=_decoded(tuple[str, ...], content["channels"]["in"]),
                out_channels=_decoded(tuple[str, ...], content["channels"]["out"]),
                one_step=_decoded(tuple[OneStep, ...], content["one_step"]),
                rollout=_decoded(tuple[Trajectories, ...], content["rollout"]),
                skipped={_decoded(tuple[int, ...], entry["points"]): entry["reason"] for entry in content["skipped"]},
            )
        except KeyError as error:
            raise ValueError(f"{path} has no {error}; {again(path)}") from error
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}; {again(path)}") from error


def again(file: Path) -> str:
    """The command that writes a damaged file again, with the run's name if the file is in a run's folder."""
    run = shlex.quote(str(file.parent.parent)) if file.parent.name == "evaluation" else "RUN"
    return f"`mondrian evaluate {run}` writes it anew"


def _decoded(kind: Any, value: Any) -> Any:
    """A JSON value as a value of type `kind`; `None` in the place of a number is NaN."""
    parts = get_args(kind)
    if NoneType in parts:
        return None if value is None else _decoded(parts[0], value)
    if get_origin(kind) is tuple:
        return tuple(_decoded(parts[0], item) for item in value)
    if get_origin(kind) is Mapping:
        return {key: _decoded(parts[1], item) for key, item in value.items()}
    if kind is Summary and value is None:
        return Summary(math.nan, math.nan, math.nan, count=0)
    if isinstance(kind, type) and is_dataclass(kind):
        types = get_type_hints(kind)
        stored = [name for name in types if name in value or not hasattr(kind, name)]  # others have a default
        return kind(**{name: _decoded(types[name], value[name]) for name in stored})
    return math.nan if kind is float and value is None else kind(value)
