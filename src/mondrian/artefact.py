"""A model in a folder: its spec in `config.json`, its weights in `model.safetensors`. Neither can run code.

Two files cannot be replaced at once. A save therefore first writes the new description beside the old one, under a
name that belongs to the new weights, and a reader looks for that name first: whenever a save is interrupted, the
folder holds the old model or the new one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from mondrian.support.files import write_atomically
from mondrian.support.processor import ensure_half_precision
from mondrian.support.spec import Spec

CONFIG, WEIGHTS, FORMAT = "config.json", "model.safetensors", 1
KEYS = {"format", "weights_sha256", "model_sha256", "model"}


@dataclass(frozen=True)
class ModelSpec(Spec):
    """Describes a model completely, except for its weights."""

    def resolved(self) -> ModelSpec:
        """The spec of the model that this builds: itself, unless it is an abbreviation of another one."""
        return self

    def build(self) -> OperatorModel:
        """The model with new weights."""
        raise NotImplementedError


class OperatorModel(nn.Module):
    """A model that is built from a spec and can be saved in a folder."""

    spec: ModelSpec

    def save_pretrained(self, folder: str | Path, *, weights: Mapping[str, Tensor] | None = None) -> None:
        """Write weights and description. If interrupted, the folder holds the old model or the new one.

        `weights` are the gathered weights of a model that is sharded over several ranks; by default the model's own.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        state = self.state_dict() if weights is None else weights
        content = save({name: tensor.detach().cpu().contiguous() for name, tensor in state.items()})
        digest, model = hashlib.sha256(content).hexdigest(), self.spec.to_json()
        config = {"format": FORMAT, "weights_sha256": digest, "model_sha256": _digest(model), "model": model}
        description = (json.dumps(config, indent=2) + "\n").encode()
        write_atomically(_pending(folder, digest), description)
        write_atomically(folder / WEIGHTS, content)  # replaces the old model by the new one
        write_atomically(folder / CONFIG, description)
        _pending(folder, digest).unlink(missing_ok=True)


def from_pretrained(folder: str | Path, *, device: torch.device | str = "cpu") -> OperatorModel:
    """The model that `save_pretrained` wrote to `folder`, ready for use."""
    folder = Path(folder)
    weights = _read(folder / WEIGHTS)
    digest = hashlib.sha256(weights).hexdigest()
    pending = _pending(folder, digest)
    path = pending if pending.exists() else folder / CONFIG
    config = _read_config(path)
    if digest != config["weights_sha256"]:
        raise ValueError(f"{folder / WEIGHTS} is damaged or belongs to another model: {CONFIG} has another checksum")
    try:
        spec = Spec.from_json(config["model"])
        if not isinstance(spec, ModelSpec):
            raise ValueError(f"a {type(spec).__name__} is not a model; needed a ModelSpec")
        model = spec.build()
    except torch.OutOfMemoryError:
        raise
    except (ValueError, TypeError, ArithmeticError, RuntimeError) as error:
        raise ValueError(f"{path} does not describe a model that can be built: {str(error) or repr(error)}") from error
    try:
        model.load_state_dict(load(weights), assign=True)  # assigned, not copied: the dtype is that of the file
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(f"{folder / WEIGHTS} does not hold the weights of this model: {error}") from error
    model = model.to(device).eval()
    if any(w.dtype in (torch.bfloat16, torch.float16) and w.device.type == "cpu" for w in model.parameters()):
        ensure_half_precision()
    return model


def _pending(folder: Path, digest: str) -> Path:
    """The description of weights that may not have replaced the old ones yet."""
    return folder / f".config.{digest[:16]}.json"


def _digest(model: Any) -> str:
    return hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"{path} does not exist; needed a folder written by save_pretrained") from error


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(_read(path))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(config, dict) or not set(config) >= KEYS:
        raise ValueError(f"{path} was not written by mondrian: needed {sorted(KEYS)}")
    if config["format"] != FORMAT:
        raise ValueError(f"{path} has format {config['format']}; this version reads format {FORMAT}")
    if config["model_sha256"] != _digest(config["model"]):
        raise ValueError(f"{path} is damaged or was edited: 'model' does not have the checksum 'model_sha256'")
    return config
