"""A training run is a folder with these files.

RUN/run.json          the record: name, overrides, configuration, data set, versions
RUN/history.csv       one row for each logged step: losses, learning rate, samples per second
RUN/artefact/         the best model by validation loss: `mondrian.from_pretrained("RUN/artefact")`
RUN/checkpoints/      the whole state of training, for `resume=true`
RUN/tensorboard/      the same curves for TensorBoard
RUN/evaluation/       the results of `mondrian evaluate RUN`
RUN/report.html       the page of `mondrian report RUN`
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from mondrian.artefact import from_pretrained
from mondrian.data.protocol import DataSpec
from mondrian.support.files import write_json
from mondrian.support.former import warn_renamed
from mondrian.support.spec import Spec
from mondrian.surrogate import MeshSurrogateSpec, ScaledModel
from mondrian.training.history import HistoryFile

Data = TypeVar("Data", bound=DataSpec[Any])
Model = TypeVar("Model", bound=ScaledModel)


@dataclass(frozen=True)
class Run:
    """A folder that `mondrian train` writes."""

    folder: Path

    @classmethod
    def open(cls, folder: str | Path) -> Run:
        """The run in an existing folder; `ValueError` if the folder holds none."""
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
        """An entry of `run.json`; `ValueError` if it is missing."""
        if name not in self.facts:
            raise ValueError(f"{self.record} has no {name}; needed the record of a training run")
        return self.facts[name]

    @property
    def name(self) -> str:
        """The name of the run."""
        return str(self.fact("name"))

    @property
    def config(self) -> dict[str, Any]:
        """The whole configuration, with defaults filled in."""
        config: dict[str, Any] = self.fact("config")
        return config

    @overload
    def data(self) -> DataSpec[Any]: ...
    @overload
    def data(self, kind: type[Data]) -> Data: ...
    def data(self, kind: type[DataSpec[Any]] = DataSpec) -> DataSpec[Any]:
        """The data set of the training; refused unless it is of this `kind`, such as `Splits`."""
        content = self.fact("data")
        try:
            data = Spec.from_json(content)
        except ValueError as error:
            raise ValueError(f"{self.record} does not say which data the run was trained on: {error}") from error
        if not isinstance(data, kind):
            needed = "Splits or MeshSplits" if kind is DataSpec else kind.__name__
            raise ValueError(f"{self.record} has a {type(data).__name__} as its data; needed {needed}")
        return data

    @overload
    def surrogate(self) -> ScaledModel: ...
    @overload
    def surrogate(self, kind: type[Model]) -> Model: ...
    def surrogate(self, kind: type[ScaledModel] = ScaledModel) -> ScaledModel:
        """The best model by validation loss; refused unless it is of this `kind`, such as `Surrogate`."""
        if not self.artefact.exists():
            raise ValueError(f"{self.folder} holds no model yet: training has not reached a finite validation loss")
        model = from_pretrained(self.artefact)
        if not isinstance(model, kind):
            raise ValueError(f"{self.artefact} holds a {type(model).__name__}; needed a {kind.__name__}")
        return model

    @property
    def on_meshes(self) -> bool:
        """Former name; it goes with the next release."""
        warn_renamed("Run.on_meshes", "isinstance(run.data(), MeshSplits)")
        return self.data().surrogate_kind is MeshSurrogateSpec

    def source(self) -> DataSpec[Any]:
        """Former name of `data`; it goes with the next release."""
        warn_renamed("Run.source()", "Run.data()")
        return self.data()

    def meshes(self) -> DataSpec[Any]:
        """Former name of `data`; it goes with the next release."""
        warn_renamed("Run.meshes()", "Run.data()")
        return self.data()

    def model(self) -> ScaledModel:
        """Former name of `surrogate`; it goes with the next release."""
        warn_renamed("Run.model()", "Run.surrogate()")
        return self.surrogate()

    def history(self) -> dict[str, np.ndarray]:
        """The columns of `history.csv`; NaN at steps where a column was not logged."""
        return HistoryFile(self.history_file).columns()

    def write(self, facts: dict[str, Any]) -> None:
        """Write `run.json`."""
        write_json(self.record, facts)
        self.__dict__.pop("facts", None)  # may hold the former content
