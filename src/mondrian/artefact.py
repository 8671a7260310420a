"""A model in a folder: `config.json` says what it is, `model.safetensors` holds its weights. Neither can run code."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import nn

from mondrian.spec import Spec

CONFIG, WEIGHTS, FORMAT = "config.json", "model.safetensors", 1


@dataclass(frozen=True)
class ModelSpec(Spec):
    """Describes a model completely but for its weights."""

    def build(self) -> OperatorModel:
        """The model with new weights."""
        raise NotImplementedError


class OperatorModel(nn.Module):
    """A model that is built from a spec and can be kept in a folder."""

    spec: ModelSpec

    def save_pretrained(self, folder: str | Path) -> None:
        """Write weights and description; each file appears whole or not at all."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        weights = save({name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()})
        config = {
            "format": FORMAT,
            "weights_sha256": hashlib.sha256(weights).hexdigest(),
            "model": self.spec.to_json(),
        }
        write_atomically(folder / WEIGHTS, weights)
        write_atomically(folder / CONFIG, (json.dumps(config, indent=2) + "\n").encode())


def from_pretrained(folder: str | Path, *, device: torch.device | str = "cpu") -> OperatorModel:
    """The model that `save_pretrained` wrote to `folder`, ready for use."""
    folder = Path(folder)
    config = _read_config(folder / CONFIG)
    spec = Spec.from_json(config["model"])
    if not isinstance(spec, ModelSpec):
        raise ValueError(f"{folder / CONFIG} describes a {type(spec).__name__}; needed a model")
    weights = _read(folder / WEIGHTS)
    if hashlib.sha256(weights).hexdigest() != config["weights_sha256"]:
        raise ValueError(f"{folder / WEIGHTS} is damaged or belongs to another model: its checksum is not {CONFIG}'s")
    model = spec.build()
    try:
        model.load_state_dict(load(weights))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{folder / WEIGHTS} does not hold the weights of this model: {error}") from error
    return model.to(device).eval()


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside `path`, flush to the disk, then rename over it. Errors name the file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"{path} does not exist; needed a folder written by save_pretrained") from error


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(_read(path))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict) or not {"format", "weights_sha256", "model"} <= set(config):
        raise ValueError(f"{path} was not written by mondrian: it lacks 'format', 'weights_sha256' or 'model'")
    if config["format"] != FORMAT:
        raise ValueError(f"{path} has format {config['format']}; this version reads format {FORMAT}")
    return config
