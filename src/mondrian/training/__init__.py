"""Training: any surrogate, from a configuration or from Python, and nothing lost on the way.

run = train("allen_cahn/vit_sepmo", "scale=smoke", "run=runs/first")
surrogate = run.surrogate()          # physical units in and out, any resolution
"""

from mondrian.run import Run
from mondrian.training.data import OperatorData
from mondrian.training.guards import Diverged, Stopped
from mondrian.training.module import OperatorTraining
from mondrian.training.normalisation import fit_scales
from mondrian.training.optimiser import AdamW
from mondrian.training.train import train, train_model
from mondrian.training.unroll import Unroll

__all__ = [
    "AdamW",
    "Diverged",
    "OperatorData",
    "OperatorTraining",
    "Run",
    "Stopped",
    "Unroll",
    "fit_scales",
    "train",
    "train_model",
]
