"""Training again and again with other settings, which a study of Optuna chooses; any number of workers share it.

results = sweep(["experiment=allen_cahn/vit_sepmo", "scale=smoke", "optimizer.lr=tag(log,interval(1e-4,1e-2))"])
print(results.table())
"""

from mondrian.sweep.driver import join, sweep
from mondrian.sweep.plan import SweepPlan
from mondrian.sweep.results import Results

__all__ = ["Results", "SweepPlan", "join", "sweep"]
