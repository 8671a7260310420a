from .grids import OperatorData, OperatorTraining
from .guards import Diverged, Stopped
from .normalisation import fit_scales
from .optimiser import AdamW
from .run import Run
from .settings import TrainingSpec
from .train import train, train_model
from .unroll import Unroll

__all__ = [
    "AdamW",
    "Diverged",
    "OperatorData",
    "OperatorTraining",
    "Run",
    "Stopped",
    "TrainingSpec",
    "Unroll",
    "fit_scales",
    "train",
    "train_model",
]
