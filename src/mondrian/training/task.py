"""What differs between training on grids and on meshes: one `Task` for each kind of data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import torch

from mondrian.artefact import ModelSpec
from mondrian.data.protocol import Part
from mondrian.settings.models import ModelSettings
from mondrian.training.data import ResumableData
from mondrian.training.module import SurrogateTraining
from mondrian.training.settings import TrainingSpec

T = TypeVar("T")


class Task(ABC):
    """A training run on an open data set: samples, batches, and the losses and errors of batches."""

    train: Part  # that scales are fitted to

    @staticmethod
    @abstractmethod
    def check(spec: TrainingSpec) -> None:
        """Refuse settings that say nothing about this kind of data, before anything is simulated or read."""

    @classmethod
    @abstractmethod
    def open(cls: type[T], spec: TrainingSpec, data: Any, *, dtype: torch.dtype) -> T:
        """Open the parts to train and to validate on."""

    @property
    def in_channels(self) -> tuple[str, ...]:
        """The channels that a model takes."""
        return self.train.in_channels

    @property
    def out_channels(self) -> tuple[str, ...]:
        """The channels that one application of a model predicts."""
        return self.train.out_channels

    @abstractmethod
    def fitted(self, model: ModelSettings) -> ModelSpec:
        """A model that fits the data where its settings leave something open."""

    @abstractmethod
    def batches(self, model: ModelSpec) -> ResumableData:
        """Batches of samples to train and to validate on."""

    @abstractmethod
    def module(self, surrogate: Any) -> SurrogateTraining:
        """What Lightning trains."""

    @staticmethod
    @abstractmethod
    def overrides(data: Any) -> list[str]:
        """The overrides that a run on data of one's own begins with."""

    @staticmethod
    @abstractmethod
    def described(data: Any) -> dict[str, Any]:
        """The fields of data of one's own, as the configuration has them."""


def check_channels(model: ModelSpec, task: Task) -> None:
    """Refuse a model that has other channels than the data."""
    for key in ("in_channels", "out_channels"):
        names = getattr(task, key)
        if getattr(model, key) != len(names):
            raise ValueError(f"model.{key}={getattr(model, key)}; the data set has {len(names)}: {', '.join(names)}")
