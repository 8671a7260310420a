"""What an evaluation found, in memory and in files: `metrics.json`, `metrics.csv` and `fields.npz`.

The JSON is valid everywhere: a number that is not defined (an interval of one value, an error relative to nothing) is
`null`, and an infinite error, of a prediction that is not finite, is `1e999`, which Python and browsers take for it.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Shaped

from mondrian.evaluation.entries import Band, OneStep, Spectrum, Trajectories
from mondrian.evaluation.tables import csv_text, table_text
from mondrian.files import write_atomically, write_json
from mondrian.statistics import Summary

FORMAT = 1
METRICS, TABLE, FIELDS = "metrics.json", "metrics.csv", "fields.npz"


@dataclass(frozen=True)
class Evaluation:
    """All results of one surrogate on one part of a data set, coarsest resolution first.

    `skipped` says which resolutions the model refused and why; `fields` are the arrays for pictures, which `load`
    leaves in their file.
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
        """The errors beside those of the references, aligned; a ratio is how many times smaller the model's is."""
        head = f"{self.run or 'model'}: {self.split} split of {self.data}, {self.simulations} simulations"
        return f"{head}\n\n{table_text(self.one_step, self.rollout)}"

    def to_json(self) -> dict[str, Any]:
        """The content of `metrics.json`; what is not finite is still a float."""
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
        """Write the three files, each of them whole or not at all."""
        folder = Path(folder)
        if self.fields:
            buffer = io.BytesIO()
            np.savez_compressed(buffer, **dict(self.fields))  # type: ignore[arg-type]
            write_atomically(folder / FIELDS, buffer.getbuffer())
        write_atomically(folder / TABLE, csv_text(self.one_step, self.rollout).encode())
        write_json(folder / METRICS, self.to_json())

    @staticmethod
    def load(folder: str | Path) -> Evaluation:
        """The numbers that `save` wrote to `folder`."""
        path = Path(folder) / METRICS
        try:
            content = json.loads(path.read_text())
            if content["format"] != FORMAT:
                raise ValueError(f"{path} has format {content['format']}; this version reads format {FORMAT}")
            return Evaluation(
                **{key: content[key] for key in ("run", "data", "split", "simulations", "seed")},
                in_channels=tuple(content["channels"]["in"]),
                out_channels=tuple(content["channels"]["out"]),
                one_step=tuple(OneStep(**_decoded(entry)) for entry in content["one_step"]),
                rollout=tuple(Trajectories(**_decoded(entry)) for entry in content["rollout"]),
                skipped={tuple(entry["points"]): entry["reason"] for entry in content["skipped"]},
            )
        except FileNotFoundError:
            raise FileNotFoundError(f"{path} does not exist; needed what `mondrian evaluate` writes") from None
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is damaged ({error!r}); needed what `mondrian evaluate` writes") from error


def _decoded(value: Any) -> Any:
    """Dictionaries as the dataclasses that they came from, lists as tuples, `None` in a number's place as NaN."""
    if isinstance(value, list):
        return tuple(_decoded(item) for item in value)
    if not isinstance(value, dict):
        return value
    items = {key: _decoded(item) for key, item in value.items()}
    for kind in (Summary, Spectrum, Band):
        if items.keys() == kind.__dataclass_fields__.keys():
            return kind(**{key: _number(item) for key, item in items.items()})
    return items


def _number(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_number(item) for item in value)
    return math.nan if value is None else value
