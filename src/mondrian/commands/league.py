"""Compare models on the same data at the same budgets: the paper's tables, on this machine.

  mondrian league allen_cahn                             twelve models, scale=cpu: some hours on two cores
  mondrian league navier_stokes entrants=[fno,vit_mo]    some of them; the others may follow in the same folder
  mondrian league allen_cahn part=ablation               the seven operators under ViT and Swin
  mondrian league allen_cahn part=design_ablation        one change at a time to one of our models (Allen-Cahn only)
  mondrian league allen_cahn part=beyond                 our models with the changes that helped, as in the first part
  mondrian league allen_cahn scale=smoke                 minutes: to see that everything works
  mondrian league allen_cahn scale=paper                 the paper's protocol, for a GPU

Every entrant has the same data, splits, normalisation and grid of learning rates (each is tried on a few samples, the
best by validation loss is taken), and trains twice: for the same number of samples, and for the same time. The time
is turned into steps by the speed that each entrant has when all of them step in turn, measured before the start. The
best then train with more seeds. Everything is evaluated in the same way.

The folder (folder=DIR, by default leagues/<problem>_<scale>) gets one run a training, and for each part results.md,
results.csv, results.json and figures. Stopped or killed? The same command resumes: nothing is trained twice.

  publish=docs/results/allen_cahn_cpu                           keep the results there: tables, figures, results.json;
                                                                trainings that it has are not repeated
  show=docs/results/allen_cahn_cpu                              draw tables and figures again from results.json alone
  samples=20000 minutes=20 rates=[1e-3,3e-3] seeds=5 best=3     other budgets, in a folder of their own
  jobs=1 threads=2                                              one training at a time, on two threads
  jobs=0                                                        train nothing: only write tables and figures again
"""

from __future__ import annotations

from pathlib import Path

from mondrian.league.settings import parse


def run(arguments: list[str]) -> None:
    """Train what is missing, then write tables and figures."""
    shown = [argument.partition("=")[2] for argument in arguments if argument.startswith("show=")]
    if shown:
        if len(arguments) > 1:
            raise ValueError(f"show={shown[0]} draws what is there; needed no other settings beside it")
        from mondrian.league.publish import redraw  # Lightning takes seconds to import

        for file in redraw(Path(shown[0])):
            print(file)
        return
    league = parse(arguments)

    from mondrian.league.run_league import run_league

    for file in run_league(league, progress=True):
        print(file)
