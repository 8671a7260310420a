"""Data of your own, as plain arrays: learn a step of Burgers' equation in 1-D, roll it out at twice the resolution.

  python examples/own_arrays.py [folder] [steps of training]

Any array file works the same: say what its axes count, and how large the box is.
"""

import sys
from pathlib import Path

import numpy as np
import torch

from mondrian import RelativeBias, SeparableMixture, vit_no
from mondrian.data import ArrayFile, Axis, Splits, Window
from mondrian.rollout import rollout
from mondrian.training import train_model


def burgers(simulations: int, points: int, frames: int, *, seed: int) -> np.ndarray:
    """u_t + u u_x = 0.01 u_xx on a ring of length 1: frames every 0.05, by the Cole-Hopf transform, exact.

    With u = -2 nu phi_x / phi the equation is the heat equation for phi, which Fourier modes solve.
    """
    nu, fine = 0.01, 512
    x = np.arange(fine) / fine + 0.5 / fine
    modes = np.fft.rfftfreq(fine, 1 / fine)
    generator = np.random.default_rng(seed)
    amplitudes = generator.standard_normal((simulations, 2, 3)) * 0.3 / np.arange(1, 4)
    angles = 2 * np.pi * np.arange(1, 4)[:, None] * x
    integral = np.einsum("skm,kmx->sx", amplitudes, np.stack([1 - np.cos(angles), np.sin(angles)]) / (2 * np.pi))
    phi = np.fft.rfft(np.exp(-integral / (2 * nu)))
    out = np.empty((simulations, frames, points), dtype=np.float32)
    for frame in range(frames):
        decayed = phi * np.exp(-nu * (2 * np.pi * modes) ** 2 * 0.05 * frame)
        value, slope = np.fft.irfft(decayed, fine), np.fft.irfft(2j * np.pi * modes * decayed, fine)
        out[:, frame] = (-2 * nu * slope / value).reshape(simulations, points, -1).mean(axis=-1)
    return out


def main(folder: Path, max_steps: int = 300) -> float:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "burgers.npy", burgers(64, 64, 11, seed=0))
    files = ArrayFile(
        path=str(folder / "burgers.npy"),
        axes=(Axis.SIMULATION, Axis.TIME, Axis.SPACE),
        extent=(1.0,),
        periodic=(True,),
    )
    model = vit_no(
        in_channels=1,
        out_channels=1,
        hidden_channels=32,
        n_layers=3,
        subdomains=(8,),
        operator=SeparableMixture(terms=32, skip=True),
        positions=(RelativeBias(),),
        stagger=True,
    )
    run = train_model(
        model.spec,
        Splits(files=files, window=Window(input=("u",), target=("u",))),
        f"run={folder / 'run'}", f"max_steps={max_steps}", "batch_size=16", "validate_every=100", "optimizer.lr=3e-3",
        "optimizer.warmup=30", progress=True,
    )  # fmt: skip
    new = torch.from_numpy(burgers(16, 128, 11, seed=1))  # other simulations, twice the resolution
    with torch.no_grad():
        forecast = rollout(run.surrogate(), new[:, :1], applications=10)
    error = (forecast - new[:, 1:]).abs().mean().item()
    print(f"ten steps at 128 points, trained at 64: mean absolute error {error:.4f}; fields {new.std().item():.3f}")
    return error


if __name__ == "__main__":
    main(Path((sys.argv[1:2] or ["runs/burgers"])[0]), *map(int, sys.argv[2:3]))
