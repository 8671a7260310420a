"""Tune the width and the learning rate of a model: a table of all runs, a plot, and the best model.

  python examples/tune.py [scale=cpu] [trials=20] [any other override of `mondrian sweep`]

Without arguments it trains eight times for seconds (scale=smoke): enough to see how it works, not to learn anything.
The same command again resumes it, and a second one at the same time shares the work. Needs the extra `sweeps`.
"""

import sys

from mondrian.sweep import sweep

OVERRIDES = (
    "experiment=allen_cahn/vit_sepmo",
    "scale=smoke",
    "model.hidden_channels=choice(8,16,32)",
    "optimizer.lr=tag(log,interval(3e-4,3e-2))",
    "trials=8",
    "startup_trials=4",
    "run=sweeps/width_and_rate",
)


def main(overrides: list[str]) -> None:
    results = sweep([*OVERRIDES, *overrides])
    print(results.table())
    best = results.run(results.best)
    print(f"\nbest: {best.folder}, its overrides {' '.join(best.facts['words'])}")
    print(f"plot: {results.folder / 'sweep.png'}")


if __name__ == "__main__":
    main(sys.argv[1:])
