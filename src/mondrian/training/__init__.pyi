from .data import OperatorData
from .guards import Diverged, Stopped
from .module import OperatorTraining
from .normalisation import fit_scales
from .optimiser import AdamW
from .run import Run
from .train import train, train_model
from .unroll import Unroll

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
