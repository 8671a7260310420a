"""Learn the Allen-Cahn equation on a 32 x 32 grid and use the model at 64 x 64 and 128 x 128.

Makes its own data, trains a small transformer over 8 x 8 subdomains for a few minutes, and prints the error at each
resolution beside two forecasts that know nothing: "nothing changes", and the mean of what was seen in training.

  python examples/allen_cahn.py [--simulations 768] [--epochs 14] [--folder runs/allen_cahn]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import torch
from torch.nn import functional as F
from tqdm import tqdm, trange

import mondrian
from mondrian import Grid, RelativeBias, SeparableMixture, vit_no
from mondrian.data.restriction import block_average
from mondrian.data.solvers import allen_cahn

mpl.use("agg")
BOX = Grid(extent=(2.0, 2.0))
FINE, RESOLUTIONS = 128, (32, 64, 128)


def simulate(seeds: range) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Initial fields, gammas and fields at t = 6, on the fine grid."""
    grid = BOX.with_points((FINE, FINE))
    starts, ends, gammas = [], [], []
    for first in tqdm(range(seeds.start, seeds.stop, 16), desc="simulations of 16", disable=None):
        chunk = range(first, min(first + 16, seeds.stop))
        gamma = torch.stack([1e-4 + 4.9e-3 * torch.rand((), generator=torch.Generator().manual_seed(s)) for s in chunk])
        start = allen_cahn.initial_condition(chunk, grid)
        starts.append(start)
        ends.append(allen_cahn.solve(start, gamma, grid))
        gammas.append(gamma)
    return torch.cat(starts), torch.cat(gammas), torch.cat(ends)


def batch(
    start: torch.Tensor, gamma: torch.Tensor, end: torch.Tensor, points: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Input channels (field, scaled log of gamma) and target on a grid of `points`."""
    field, target = (block_average(u, (points, points)) for u in (start, end))
    constant = (gamma.log10() + 2.85)[:, None, None].expand_as(field)
    return torch.stack([2 * field, constant], dim=1), target[:, None]


def error(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Mean absolute error."""
    with torch.no_grad():
        return (
            torch.cat([(model(part) - true).abs() for part, true in zip(x.split(16), y.split(16), strict=True)])
            .mean()
            .item()
        )


def picture(path: Path, model: torch.nn.Module, test: tuple[torch.Tensor, ...]) -> None:
    """Input, truth, prediction and absolute error of one simulation at each resolution, with the cuts drawn."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(RESOLUTIONS), 4, figsize=(10, 7.6), layout="constrained")
    for row, points in zip(axes, RESOLUTIONS, strict=True):
        x, y = batch(*(u[:1] for u in test), points)
        with torch.no_grad():
            prediction = model(x)
        fields = {
            "input": x[0, 0] / 2,
            "truth": y[0, 0],
            "prediction": prediction[0, 0],
            "|error|": (prediction - y)[0, 0].abs(),
        }
        for axis, (title, field) in zip(row, fields.items(), strict=True):
            limits = (
                {"cmap": "magma", "vmin": 0, "vmax": 1}
                if title == "|error|"
                else {"cmap": "RdBu_r", "vmin": -1, "vmax": 1}
            )
            image = axis.imshow(field.T, origin="lower", extent=(0, 2, 0, 2), **limits)
            axis.set_title(f"{title}, {points} x {points}", fontsize=9)
            axis.set_xticks([k / 4 for k in range(9)], labels=[])
            axis.set_yticks([k / 4 for k in range(9)], labels=[])
            axis.grid(color="k", linewidth=0.3)
            figure.colorbar(image, ax=axis, shrink=0.8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def train(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, epochs: int) -> None:
    """AdamW with warm-up and cosine decay, batches of 16, mirror images of the box as augmentation."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    steps = epochs * (len(x) // 16)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=2e-3, total_steps=steps, pct_start=0.1)
    bar = trange(steps, desc="training", disable=None)
    order = torch.randperm(len(x))
    for step in bar:
        if step * 16 % (len(x) // 16 * 16) == 0:
            order = torch.randperm(len(x))
        chosen = order[step * 16 % (len(x) // 16 * 16) :][:16]
        flips = [axis for axis in (2, 3) if torch.rand(()) < 0.5]
        loss = F.mse_loss(model(x[chosen].flip(flips)), y[chosen].flip(flips))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        schedule.step()
        if step % 10 == 0:
            bar.set_postfix(loss=f"{loss.item():.4f}")


def main(arguments: list[str] | None = None) -> dict[int, tuple[float, float, float]]:
    """Run the whole job; returns the errors of model, persistence and mean for each resolution."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=768)
    parser.add_argument("--epochs", type=int, default=14)
    parser.add_argument("--folder", type=Path, default=Path("runs/allen_cahn"))
    chosen = parser.parse_args(arguments)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    tests = max(16, chosen.simulations // 8)
    training, test = simulate(range(chosen.simulations)), simulate(range(10**6, 10**6 + tests))
    x, y = batch(*training, 32)
    skip = SeparableMixture(terms=64, skip=True)
    model = vit_no(
        in_channels=2, out_channels=1, hidden_channels=32, n_layers=4, subdomains=(8, 8), operator=skip,
        positions=(RelativeBias(),), grid=BOX, stagger=True,
    )  # fmt: skip
    train(model, x, y, chosen.epochs)
    model.save_pretrained(chosen.folder)
    model = mondrian.from_pretrained(chosen.folder)
    results = {}
    print(
        f"\n{'grid':<10}{'model':>10}{'nothing changes':>18}{'mean of training':>18}   ratio to the better of the two"
    )
    for points in RESOLUTIONS:
        inputs, truth = batch(*test, points)
        mean = F.interpolate(y.mean(dim=0, keepdim=True), scale_factor=points // 32, mode="nearest")
        errors = (
            error(model, inputs, truth),
            (inputs[:, :1] / 2 - truth).abs().mean().item(),
            (mean - truth).abs().mean().item(),
        )
        results[points] = errors
        ratio = min(errors[1:]) / errors[0]
        print(f"{points} x {points:<5}{errors[0]:>10.4f}{errors[1]:>18.4f}{errors[2]:>18.4f}{ratio:>12.1f}")
    picture(chosen.folder / "fields.png", model, test)
    print(f"\nmodel and picture: {chosen.folder}")
    return results


if __name__ == "__main__":
    main()
