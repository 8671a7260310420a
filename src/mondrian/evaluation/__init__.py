"""Errors of a surrogate on unseen data: at every resolution, over time and by wavenumber, on grids and on meshes.

results = evaluate(surrogate, splits)
print(results.table())
results.save("runs/mine/evaluation")    # metrics.json, metrics.csv, fields.npz
"""

from mondrian.evaluation.driver import evaluate
from mondrian.evaluation.entries import Band, FieldErrors, OneStep, Spectrum, Trajectories
from mondrian.evaluation.results import Evaluation

__all__ = ["Band", "Evaluation", "FieldErrors", "OneStep", "Spectrum", "Trajectories", "evaluate"]
