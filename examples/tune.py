"""Tune the width and the learning rate of a model: a table of all runs, a plot, and the best model.

  python examples/tune.py [scale=cpu] [hydra.sweeper.n_trials=20] [any other word of `mondrian sweep`]

Without arguments it trains eight times for seconds (scale=smoke): enough to see how it works, not to learn anything.
The same command again goes on where it was. Needs the extra `sweeps`.
"""

import sys

from mondrian.sweep import sweep

WORDS = (
    "experiment=allen_cahn/vit_sepmo",
    "scale=smoke",
    "model.hidden_channels=choice(8,16,32)",
    "optimizer.lr=tag(log,interval(3e-4,3e-2))",
    "hydra.sweeper.n_trials=8",
    "hydra.sweeper.sampler.n_startup_trials=4",
    "run=sweeps/width_and_rate",
)


def main(words: list[str]) -> None:
    found = sweep([*WORDS, *words])
    print(found.table())
    best = found.run(found.best)
    print(f"\nbest: {best.folder}, its words {' '.join(best.facts['words'])}")
    print(f"plot: {found.folder / 'sweep.png'}")


if __name__ == "__main__":
    main(sys.argv[1:])
