"""A trained operator applied to as many samples as you have: arrays in memory, or files of any size.

surrogate = load_model("runs/ac")           # a run or an artefact
y = predict(surrogate, x)                   # arrays or tensors, physical units in and out
predict_file(surrogate, "x.npy", "y.npy")   # piece by piece, in bounded memory
"""

from mondrian.prediction.files import Prediction, load_model, predict_file
from mondrian.prediction.predictor import Predictor, predict
from mondrian.prediction.slabs import predict_slabs

__all__ = ["Prediction", "Predictor", "load_model", "predict", "predict_file", "predict_slabs"]
