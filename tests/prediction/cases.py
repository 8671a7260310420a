"""Small models, and arrays in every kind of file."""

from pathlib import Path

import numpy as np
import torch

from mondrian import Grid, RelativeBias, vit_no
from mondrian.rollout import rollout
from mondrian.surrogate import Scale, Surrogate, SurrogateSpec

BOX = Grid(extent=(2.0, 1.0), periodic=(False, True))
GAMMA = Scale(-3.0, 0.5, log=True)
ARRAYS = ("npy", "npz", "pt")


def small(in_channels: int, out_channels: int, **settings):
    return vit_no(
        in_channels,
        out_channels,
        hidden_channels=4,
        n_layers=1,
        subdomains=(2, 2),
        positions=(RelativeBias(),),
        **settings,
    )


def build(in_names: tuple[str, ...], out_names: tuple[str, ...]) -> Surrogate:
    u = Scale(0.3, 2.0)
    spec = SurrogateSpec(
        small(len(in_names), len(out_names), grid=BOX).spec,
        in_names,
        out_names,
        tuple(GAMMA if name == "gamma" else u for name in in_names),
        (u,) * len(out_names),
    )
    return spec.build().eval()


def directly(model, x, steps: int = 1, grid: Grid | None = None) -> np.ndarray:
    with torch.no_grad():
        given = torch.from_numpy(x).to(next(model.parameters()).dtype)
        return (model(given, grid) if steps == 1 else rollout(model, given, steps, grid)).numpy()


def save(path: Path, x: np.ndarray) -> Path:
    if path.suffix == ".npy":
        np.save(path, x)
    elif path.suffix == ".npz":
        np.savez(path, x)
    else:
        torch.save(torch.from_numpy(x), path)
    return path


def load(path: Path) -> np.ndarray:
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".npz":
        with np.load(path) as file:
            assert file.files == ["y"]
            return file["y"]
    return torch.load(path, weights_only=True).numpy()
