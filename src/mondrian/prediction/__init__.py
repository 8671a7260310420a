"""A trained operator applied to arrays in memory, or to files of any size, on grids or on meshes.

surrogate = load_model("runs/ac")           # a run or an artefact
y = predict(surrogate, x)                   # arrays or tensors, physical units in and out
predict_file(surrogate, "x.npy", "y.npy")   # batch by batch, in bounded memory
"""

from mondrian.prediction.files import describe, load_model, predict_file
from mondrian.prediction.meshes import predict_on
from mondrian.prediction.outputs import Prediction
from mondrian.prediction.predictor import Predictor, predict
from mondrian.prediction.slabs import predict_slabs

__all__ = [
    "Prediction",
    "Predictor",
    "describe",
    "load_model",
    "predict",
    "predict_file",
    "predict_on",
    "predict_slabs",
]
