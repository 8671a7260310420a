"""Train again and again with other settings, to find good ones: a table, a plot, and all the runs.

  mondrian sweep experiment=allen_cahn/vit_sepmo scale=smoke \\
                 'model.hidden_channels=choice(8,16,32)' 'optimizer.lr=tag(log,interval(1e-4,1e-2))'

Words are those of `mondrian train`; those with several values vary. Optuna chooses (TPE, 20 runs) so that the
validation loss becomes small:

  hydra.sweeper.n_trials=50                    more runs
  hydra.sweeper.sampler.n_startup_trials=5     fewer of them at random before it learns from the others
  hydra/sweeper=basic seed=0,1,2               no choice: every combination
  run=sweeps/mine                              another folder than sweeps/<experiment>

One after the other in this process, or by another launcher of Hydra:

  hydra/launcher=joblib hydra.launcher.n_jobs=4 hydra.sweeper.n_jobs=4          four at a time on this machine
  hydra/launcher=submitit_slurm hydra.launcher.partition=gpu hydra.launcher.gpus_per_node=1 \\
      hydra.launcher.timeout_min=240 hydra.sweeper.n_jobs=8                     eight jobs at a time by Slurm

The folder gets sweep.csv (a row a run), sweep.png (loss against each setting) and the runs as 0, 1, ..., each
a folder as `mondrian train` writes it. Stopped or killed? The same command goes on, with another n_trials if you like;
another sampler or seed needs another folder. Optuna and the launchers are the extra `sweeps`:
pip install -c constraints.txt -e '.[sweeps]'.
"""

from __future__ import annotations

import shlex


def run(arguments: list[str]) -> None:
    """Sweep, and say what was best."""
    from mondrian.sweep import sweep  # Lightning takes seconds to import

    found = sweep(arguments)
    print(f"\n{found.table()}\n\nwritten to {found.folder}/sweep.csv and sweep.png")
    best = shlex.quote(str(found.run(found.best).folder))
    print(f"next: mondrian evaluate {best} && mondrian report {best}")
