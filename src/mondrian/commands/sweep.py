"""Train again and again with other settings, to find good ones: a table, a plot, and all the runs.

  mondrian sweep experiment=allen_cahn/vit_sepmo scale=smoke \\
                 'model.hidden_channels=choice(8,16,32)' 'optimizer.lr=tag(log,interval(1e-4,1e-2))'

Overrides are those of `mondrian train`; those with several values vary: choice(a,b) or a,b, range(2,8),
interval(0.0,1.0), int(interval(8,64)), tag(log,interval(1e-4,1e-2)). Optuna chooses 20 times, for a small validation
loss:

  trials=50                                    runs in all, whoever trains them
  sampler=tpe|random|grid                      learn from the runs before (tpe), or not; grid: every combination
  startup_trials=5                             trials at random before tpe learns (default: 10)
  sampler_seed=1                               another search
  pruner=none|median|halving                   end trials early whose validation loss is behind the others'
  run=sweeps/mine                              another folder than sweeps/<experiment>

Any number of workers share the study of a folder, on any machines that see the folder:

  jobs=4                                       four processes on this machine, one for each GPU
  mondrian sweep run=sweeps/mine               joins from another terminal or machine, and resumes after a stop
  storage=postgresql://user@host/db            a database in place of the journal file in the folder

As a job array of Slurm, eight workers at a time, as often as you like:

  #!/bin/bash
  #SBATCH --array=1-8 --gpus=1 --cpus-per-task=4 --time=04:00:00
  mondrian sweep experiment=allen_cahn/vit_sepmo trials=200 pruner=median 'optimizer.lr=tag(log,interval(1e-4,1e-2))'

Killed, stopped, out of time? The next worker resumes the trial where it was.

The folder gets sweep.csv (a row a run), sweep.png (loss against each setting), study.journal and the runs as 0, 1, ...,
each a folder as `mondrian train` writes it. optuna-dashboard sweeps/mine/study.journal shows the study while it runs.
Optuna is the extra `sweeps`: pip install -c constraints.txt -e '.[sweeps]'.
"""

from __future__ import annotations

import shlex


def run(arguments: list[str]) -> None:
    """Sweep, and say what was best."""
    from mondrian.sweep import join, sweep  # Lightning takes seconds to import

    if "--worker" in arguments:  # started by `jobs=`: its results are shown by the process that started it
        join([argument for argument in arguments if argument != "--worker"])
        return
    results = sweep(arguments)
    print(f"\n{results.table()}\n\nwritten to {results.folder}/sweep.csv and sweep.png")
    best = shlex.quote(str(results.run(results.best).folder))
    print(f"next: mondrian evaluate {best} && mondrian report {best}")
