"""Train on a square and predict on a domain twice as long, which has more subdomains of the same physical size.

  python examples/larger_domain.py [folder] [simulations] [steps of training]

Allen-Cahn on [0, 2]^2, then on [0, 4] x [0, 2]. It needs `subdomain_size` in place of `subdomains`, and
a position that depends on offsets (`RelativeBias`) instead of places. A few minutes on one core; one simulation of each
domain is drawn into the folder.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from mondrian import Grid, RelativeBias, SeparableMixture, nbr_no
from mondrian.data import AllenCahn, Splits, WellFiles, Window
from mondrian.data.generate import generate, plan
from mondrian.evaluation import evaluate
from mondrian.surrogate import Surrogate
from mondrian.training import train_model

SIZE = (0.25, 0.25)  # of a subdomain


def simulate(folder: Path, extent: tuple[float, float], simulations: dict[str, int]) -> Splits:
    """Simulations with 32 points a unit of length, stored with 16."""
    fine = tuple(round(32 * length) for length in extent)
    stored = tuple(n // 2 for n in fine)
    problem = AllenCahn(grid=Grid(extent=extent, points=fine))
    points = {split: [stored] for split in simulations}
    wanted = plan(problem, seed=0, simulations=simulations, points=points, shard_size=64)
    generate(folder, wanted, progress=True)
    return Splits(files=WellFiles(path=str(folder)), window=Window(input=("u", "gamma"), target=("u",)))


def draw(surrogate: Surrogate, domains: dict[str, Splits], path: Path) -> None:
    """A column a domain, at the same scale: where the first simulation starts, where it ends, what the model says."""
    names = ["start", "simulation", "model", "absolute error"]
    samples = [data.dataset("test", data.resolutions("test")[0])[0] for data in domains.values()]
    widths = [sample["grid"].extent[0] for sample in samples]
    figure, axes = plt.subplots(
        len(names), len(samples), figsize=(6.4, 8.4), width_ratios=widths, squeeze=False, layout="constrained"
    )
    for column, (title, sample) in enumerate(zip(domains, samples, strict=True)):
        grid = sample["grid"]
        x, y = sample["x"], sample["y"]
        with torch.no_grad():
            prediction = surrogate(x[None], grid)[0]
        for row, u in enumerate((x[0], y[0], prediction[0], (prediction - y)[0].abs())):
            ax = axes[row, column]
            colours = {"cmap": "magma", "vmin": 0, "vmax": 1} if row == 3 else {"cmap": "RdBu_r", "vmin": -1, "vmax": 1}
            shown = ax.imshow(u.T, origin="lower", extent=(0, grid.extent[0], 0, grid.extent[1]), **colours)
            for axis, cut in enumerate((ax.axvline, ax.axhline)):
                for number in range(1, round(grid.extent[axis] / SIZE[axis])):
                    cut(number * SIZE[axis], color="0.5", lw=0.3)
            ax.set_title(f"{title}: {names[row]}" if row == 0 else names[row], fontsize=9)
            ax.set_xticks(range(round(grid.extent[0]) + 1))
            ax.set_yticks(range(round(grid.extent[1]) + 1))
            ax.tick_params(labelsize=7)
            if column == len(samples) - 1:
                figure.colorbar(shown, ax=ax, shrink=0.8).ax.tick_params(labelsize=7)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main(folder: Path, simulations: int = 512, max_steps: int = 600) -> dict[str, float]:
    tests = max(simulations // 8, 4)
    square = simulate(folder / "square", (2.0, 2.0), {"train": simulations, "valid": tests, "test": tests})
    long = simulate(folder / "long", (4.0, 2.0), {"test": tests})
    model = nbr_no(
        in_channels=2,
        out_channels=1,
        hidden_channels=32,
        n_layers=4,
        radius=2,
        subdomain_size=SIZE,
        operator=SeparableMixture(terms=64, skip=True),
        positions=(RelativeBias(),),
        grid=Grid(extent=(2.0, 2.0)),
        stagger=True,
    )
    run = train_model(
        model.spec, square,
        f"run={folder / 'run'}", f"max_steps={max_steps}", "batch_size=16", "validate_every=100", "data.log=[gamma]",
        "optimizer.lr=3e-3", "optimizer.warmup=30", progress=True,
    )  # fmt: skip
    domains, errors = {"[0, 2] x [0, 2]": square, "[0, 4] x [0, 2]": long}, {}
    for name, data in domains.items():
        entry = evaluate(run.surrogate(), data, progress=True).one_step[0]
        assert entry.persistence is not None
        errors[name] = entry.model["mae"].mean
        persistence = entry.persistence["mae"].mean
        print(f"{name}: mean absolute error {errors[name]:.4f}; persistence baseline {persistence:.4f}")
    draw(run.surrogate(), domains, folder / "larger_domain.png")
    print(f"see {folder / 'larger_domain.png'}")
    return errors


if __name__ == "__main__":
    main(Path((sys.argv[1:2] or ["runs/larger_domain"])[0]), *map(int, sys.argv[2:4]))
