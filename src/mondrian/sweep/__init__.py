"""Training again and again with other settings: Hydra's sweepers choose them, Hydra's launchers start the runs.

found = sweep(["experiment=allen_cahn/vit_sepmo", "scale=smoke", "optimizer.lr=tag(log,interval(1e-4,1e-2))"])
print(found.table())
"""

from mondrian.sweep.driver import sweep
from mondrian.sweep.results import Results

__all__ = ["Results", "sweep"]
