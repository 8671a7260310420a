from .grids import GridData, GridTraining
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
    "GridData",
    "GridTraining",
    "Run",
    "Stopped",
    "TrainingSpec",
    "Unroll",
    "fit_scales",
    "train",
    "train_model",
]
