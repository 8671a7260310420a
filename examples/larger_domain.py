"""Train on a square, run on a domain twice as long: subdomains of a physical size, of which there are then more.

  python examples/larger_domain.py [folder] [simulations] [steps of training]

Allen-Cahn on [0, 2]^2, then on [0, 4] x [0, 2]. What makes it possible: `subdomain_size` in place of `subdomains`, and
a position that speaks of offsets (`RelativeBias`) instead of places.
"""

import sys
from pathlib import Path

from mondrian import Grid, RelativeBias, SeparableMixture, nbr_no
from mondrian.data import AllenCahn, Splits, WellFiles, Window
from mondrian.data.generate import generate, plan
from mondrian.evaluation import evaluate
from mondrian.training import train_model


def simulate(folder: Path, extent: tuple[float, float], simulations: dict[str, int]) -> Splits:
    """Simulations with 32 points a unit of length, stored with 16."""
    fine = tuple(round(32 * length) for length in extent)
    stored = tuple(n // 2 for n in fine)
    problem = AllenCahn(grid=Grid(extent=extent, points=fine))
    points = {split: [stored] for split in simulations}
    wanted = plan(problem, seed=0, simulations=simulations, points=points, shard_size=64)
    generate(folder, wanted, progress=True)
    return Splits(files=WellFiles(path=str(folder)), window=Window(input=("u", "gamma"), target=("u",)))


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
        subdomain_size=(0.25, 0.25),
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
    errors = {}
    for name, data in {"[0, 2] x [0, 2]": square, "[0, 4] x [0, 2]": long}.items():
        entry = evaluate(run.surrogate(), data, progress=True).one_step[0]
        assert entry.persistence is not None
        errors[name] = entry.model["mae"].mean
        nothing = entry.persistence["mae"].mean
        print(f"{name}: mean absolute error {errors[name]:.4f}; if nothing changed {nothing:.4f}")
    return errors


if __name__ == "__main__":
    main(Path((sys.argv[1:2] or ["runs/larger_domain"])[0]), *map(int, sys.argv[2:4]))
