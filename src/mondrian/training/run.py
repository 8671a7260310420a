"""A training run is a folder; this is where its files are.

RUN/run.json          what was asked for: name, overrides, configuration, data set, versions
RUN/history.csv       one row for each logged step: losses, learning rate, samples a second
RUN/artefact/         the best model by validation loss: `mondrian.from_pretrained("RUN/artefact")`
RUN/checkpoints/      the whole state of training, for `resume=true`
RUN/tensorboard/      the same curves for TensorBoard
RUN/evaluation/       what `mondrian evaluate RUN` found
RUN/report.html       what `mondrian report RUN` shows
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mondrian.artefact import from_pretrained
from mondrian.data.meshes.files import MeshSplits
from mondrian.data.splits import Splits
from mondrian.support.files import write_json
from mondrian.support.spec import Spec
from mondrian.surrogate import ScaledModel, Surrogate
from mondrian.training.history import HistoryFile


@dataclass(frozen=True)
class Run:
    """A folder that `mondrian train` wrote, or is about to write."""

    folder: Path

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """An existing run; `ValueError` if the folder is none."""
        run = cls(Path(folder))
        if not run.record.exists():
            raise ValueError(f"{folder} is no training run: it has no {run.record.name}")
        return run

    @property
    def record(self) -> Path:
        return self.folder / "run.json"

    @property
    def history_file(self) -> Path:
        return self.folder / "history.csv"

    @property
    def artefact(self) -> Path:
        return self.folder / "artefact"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def evaluation(self) -> Path:
        return self.folder / "evaluation"

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The content of `run.json`."""
        try:
            facts = json.loads(self.record.read_text())
        except (OSError, json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{self.record} cannot be read: {error}") from error
        if not isinstance(facts, dict):
            raise ValueError(f"{self.record} holds a {type(facts).__name__}; needed the record of a training run")
        return facts

    def fact(self, name: str) -> Any:
        """A part of `run.json`; `ValueError` if it is missing."""
        if name not in self.facts:
            raise ValueError(f"{self.record} has no {name}; needed the record of a training run")
        return self.facts[name]

    @property
    def name(self) -> str:
        return str(self.fact("name"))

    @property
    def config(self) -> dict[str, Any]:
        """The whole configuration, with defaults filled in."""
        config: dict[str, Any] = self.fact("config")
        return config

    @property
    def on_meshes(self) -> bool:
        """Whether it was trained on meshes, not on fields on grids."""
        data = self.facts.get("data")
        return isinstance(data, dict) and data.get("spec") == MeshSplits.__name__

    def data(self) -> Splits:
        """The data set that was trained on, fields on grids."""
        splits = self.source()
        if not isinstance(splits, Splits):
            raise ValueError(f"{self.folder} was trained on meshes; needed a run on grids")
        return splits

    def meshes(self) -> MeshSplits:
        """The meshes that were trained on."""
        splits = self.source()
        if not isinstance(splits, MeshSplits):
            raise ValueError(f"{self.folder} was trained on grids; needed a run on meshes")
        return splits

    def source(self) -> Splits | MeshSplits:
        """Whatever was trained on."""
        data = self.fact("data")
        try:
            splits = Spec.from_json(data)
        except ValueError as error:
            raise ValueError(f"{self.record} does not say what was trained on: {error}") from error
        if not isinstance(splits, Splits | MeshSplits):
            raise ValueError(f"{self.record} has a {type(splits).__name__} as its data; needed Splits or MeshSplits")
        return splits

    def surrogate(self) -> Surrogate:
        """The best model by validation loss, of fields on grids."""
        surrogate = self.model()
        if not isinstance(surrogate, Surrogate):
            raise ValueError(f"{self.folder} holds a model for meshes; needed a run on grids")
        return surrogate

    def model(self) -> ScaledModel:
        """The best model by validation loss."""
        if not self.artefact.exists():
            raise ValueError(f"{self.folder} holds no model yet: training has not come to a finite validation loss")
        model = from_pretrained(self.artefact)
        assert isinstance(model, ScaledModel)
        return model

    def history(self) -> dict[str, np.ndarray]:
        """The columns of `history.csv`; what was not logged at a step is NaN."""
        return HistoryFile(self.history_file).columns()

    def write(self, facts: dict[str, Any]) -> None:
        """Write `run.json`."""
        write_json(self.record, facts)
        self.__dict__.pop("facts", None)  # what was read of it before
